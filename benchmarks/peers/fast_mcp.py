"""FastMCP, without sessions and with plain JSON answers."""

from fastmcp import FastMCP
from pydantic import BaseModel

server = FastMCP("benchmark")


class Sum(BaseModel):
    sum: int


@server.tool
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(sum=a + b)


app = server.http_app(path="/mcp", json_response=True, stateless_http=True)
