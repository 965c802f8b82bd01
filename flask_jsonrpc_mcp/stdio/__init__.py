"""MCP on standard input and output: one JSON message per line, for any `Server`."""
