"""FastMCP with its tasks on Docket and Redis. The worker is in the process of the server, which is its default."""

import os
import time

from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

server = FastMCP("benchmark")
server.add_extension(TasksExtension(url=os.environ["BROKER"], concurrency=4))


@server.tool(task=True)
async def clock() -> float:
    """Return when this runs."""
    return time.time()


@server.tool
async def plain_clock() -> float:
    """Return when this runs, in the request."""
    return time.time()


app = server.http_app(path="/mcp", json_response=True, stateless_http=True)
