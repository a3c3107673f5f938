"""Runners: the agent programs the engine drives."""
