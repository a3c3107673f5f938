"""Setting up: a new project, an entry in an MCP client, and the doctor."""
