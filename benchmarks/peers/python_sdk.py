"""The official Python SDK, without sessions and with plain JSON answers: the fastest that it documents."""

from mcp.server.mcpserver import MCPServer
from pydantic import BaseModel

server = MCPServer("benchmark", log_level="ERROR")


class Sum(BaseModel):
    sum: int


@server.tool()
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


@server.tool()
def add_plain(a: int, b: int) -> Sum:
    """Add two numbers, in a function as Flask users write them."""
    return Sum(sum=a + b)


app = server.streamable_http_app(json_response=True, stateless_http=True)
