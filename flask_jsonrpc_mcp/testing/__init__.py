"""For the tests of your own app: call its tools by any face, in this process, and see what came of it.

With pytest there is also the fixture ``mcp``, a client of your fixture ``app``::

    def test_anyone_can_search(mcp):
        assert mcp.call("articles.search", {"query": "compost"}).value
"""

from .client import FACES, McpTestClient
from .health import assert_tools_valid
from .results import CallFailed, Failure, LogMessage, Progress, Result

__all__ = ["FACES", "CallFailed", "Failure", "LogMessage", "McpTestClient", "Progress", "Result", "assert_tools_valid"]
