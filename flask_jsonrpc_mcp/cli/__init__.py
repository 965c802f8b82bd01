"""``flask mcp``: use, check and serve an app's tools from a terminal. Imported by Flask's command line only."""

from .commands import mcp

__all__ = ["mcp"]
