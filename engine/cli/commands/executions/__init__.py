"""Commands about executions: which are there, what they did, deciding and resuming."""
