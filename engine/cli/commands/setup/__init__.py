"""Commands that set up a project, and connect it to MCP clients."""
