"""MCP over HTTP: one URL, both eras, plain answers and event streams."""

from .endpoint import ROUTES

__all__ = ["ROUTES"]
