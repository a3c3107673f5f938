"""`go-ent server`, `grant` and `revoke`: the servers and APIs of a project, and their tools."""
