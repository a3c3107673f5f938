"""opencode as a runner."""
