"""MCP without HTTP: versions, tools and their results, as both eras of the protocol spell them."""
