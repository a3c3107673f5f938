"""The MCP server over HTTP: who may connect, tokens, limits per client, metrics."""
