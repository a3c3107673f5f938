"""The host's side of the sandbox: the pool of workers, a run's way through it, tools, limits and results."""
