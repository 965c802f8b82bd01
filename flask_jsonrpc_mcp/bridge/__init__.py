"""An MCP server on standard input and output for a remote site, of ours or of Drupal's jsonrpc_mcp."""
