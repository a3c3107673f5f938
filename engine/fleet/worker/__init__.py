"""A worker of a fleet: a process that runs what others send."""
