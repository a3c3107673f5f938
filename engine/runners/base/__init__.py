"""What a runner is, and what those of agent programs share."""
