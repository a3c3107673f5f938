"""A call over MCP: who makes it, its progress and questions, and its answer."""
