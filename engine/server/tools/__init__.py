"""The server's MCP tools, resources and prompts."""
