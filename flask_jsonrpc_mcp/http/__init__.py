"""The faces over HTTP, except MCP: the routes and their checks, REST, JSON-RPC and the explorer."""
