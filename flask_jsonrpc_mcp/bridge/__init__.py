"""Serve the tools of a remote site, of this package or of Drupal's jsonrpc_mcp, on standard input and output."""
