"""The tools of agents: an MCP server at `/mcp` over the same operations as the API."""
