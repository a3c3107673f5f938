"""What runs in worker processes, and what both sides need of the wire between them. Imports nothing of the host."""
