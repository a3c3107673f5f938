"""Code and composed tools as executions: recorded, replayed, resumed."""
