//! The virtual MCP server and its command line.
