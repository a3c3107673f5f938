"""`go-ent fleet` and `go-ent worker`: one project on several machines."""
