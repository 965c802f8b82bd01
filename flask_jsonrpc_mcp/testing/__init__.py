"""For the tests of your own app: call its tools by REST, JSON-RPC or MCP, in this process, and assert the result.

With pytest there is also the fixture ``mcp``, a client of your fixture ``app``::

    def test_anyone_can_search(mcp):
        assert mcp.call("articles.search", {"query": "compost"}).value
"""

from .client import FACES, McpTestClient, assert_tools_valid
from .results import CallFailed, Failure, LogMessage, Progress, Result

__all__ = ["FACES", "CallFailed", "Failure", "LogMessage", "McpTestClient", "Progress", "Result", "assert_tools_valid"]
