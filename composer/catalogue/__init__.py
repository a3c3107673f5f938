"""The catalogue: every tool with its schema, what is granted, search and typed stubs."""
