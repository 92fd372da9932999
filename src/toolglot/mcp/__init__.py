"""MCP servers as tools, and tools as an MCP server. The official SDK (extra `mcp`) is imported when it is first needed."""
