"""Commands, composed tools and code as a runner: no model."""
