"""Where tools come from: Python functions, MCP servers and OpenAPI documents."""
