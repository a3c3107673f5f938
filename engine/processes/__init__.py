"""Child processes: started with an environment of their own, bounded, and ended with all they started."""
