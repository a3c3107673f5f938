"""Claude Code as a runner."""
