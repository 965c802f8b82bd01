"""The client of FastMCP with its tasks extension: it calls, watches, answers and cancels."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.exceptions import ToolError
from fastmcp_tasks import call_tool_task


async def main(url: str) -> dict:
    asked = []

    async def answer(message, response_type, params, context) -> dict:
        asked.append(message)
        return {"name": "Ada"}

    async with Client(url, mode="auto", elicitation_handler=answer) as client:
        handle = await call_tool_task(client, "hold", {"key": "fastmcp"})
        watched = await wait_for(handle, "1 of 2: waiting")
        await handle.cancel()
        cancelled = await handle.wait()
        return {
            "version": client.protocol_version,
            "echoed": (await client.call_tool_mcp("echo", {"number": 7})).structured_content,
            "greeted": (await client.call_tool_mcp("greet", {})).structured_content,
            "invited": (await client.call_tool_mcp("invite", {})).structured_content,
            "asked": asked,
            "watched": watched,
            "cancelled": cancelled.status,
            "error": await failure(client, "fail"),
            "protocol_error": await failure(client, "ask_for_roots"),
        }


async def wait_for(handle, message: str) -> str:
    """Watch a task until it says something."""
    while True:
        seen = await handle.status()
        if seen.status_message == message or seen.status != "working":
            return seen.status_message
        await asyncio.sleep(0.05)


async def failure(client: Client, name: str) -> str:
    try:
        await (await call_tool_task(client, name)).result()
    except ToolError as error:
        return str(error)


print(json.dumps(asyncio.run(asyncio.wait_for(main(sys.argv[1]), 120))))
