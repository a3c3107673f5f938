"""`go-ent shell`: code over a project's tools, a piece at a time."""
