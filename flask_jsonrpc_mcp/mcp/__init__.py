"""MCP in both protocol eras. Start with `server.handle`, which answers every request of HTTP and stdio."""
