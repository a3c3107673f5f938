"""A soak: thousands of runs in one served project, some of them bad in every way, and nothing lost or left behind.

`python -m benchmarks.soak --runs 20000 --clients 8` starts a real `go-ent serve --http` in a folder of its own, has that many MCP
clients call it, and looks at each answer by itself. HTTP, for over stdio a server has one client.
"""
