"""The pytest plugin of flask_jsonrpc_mcp: the fixture ``mcp``.

pytest imports this module in every project where the package is installed, used or not. It lies outside of the package,
because importing anything inside imports all of it: that would take time, and hide its lines from coverage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flask import Flask

    from flask_jsonrpc_mcp.testing import McpTestClient


@pytest.fixture
def mcp(app: Flask) -> McpTestClient:
    """A client of the tools of your fixture ``app``; see flask_jsonrpc_mcp.testing.McpTestClient."""
    from flask_jsonrpc_mcp.testing import McpTestClient

    return McpTestClient(app)
