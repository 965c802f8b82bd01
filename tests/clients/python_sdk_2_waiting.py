"""The official Python client, which has no tasks: its requests wait, and it calls ``tasks.get`` as a model would."""

import asyncio
import json
import re
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult


async def main(url: str, mode: str) -> dict:
    asked, progress = [], []

    async def answer(context, params) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"name": "Ada"})

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append(message)

    async with (
        httpx2.AsyncClient(timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as client,
    ):
        held = await client.call_tool("hold", {"key": mode}, progress_callback=hear)
        [text] = [block.text for block in held.content]
        task_id = re.search("with id (\\S+)", text)[1]
        await client.call_tool("tasks.cancel", {"id": task_id})
        return {
            "version": client.protocol_version,
            "tools": [tool.name for tool in (await client.list_tools()).tools][-2:],
            "echoed": (await client.call_tool("echo", {"number": 7})).structured_content,
            "greeted": (await client.call_tool("greet", {})).structured_content,
            "invited": (await client.call_tool("invite", {})).structured_content,
            "asked": asked,
            "held": [held.is_error, text.partition(". ")[0]],
            "progress": progress,
            "ended": await end(client, task_id),
        }


async def end(client: Client, task_id: str) -> str:
    """Wait as long as the tool says that it is still running."""
    while True:
        [block] = (await client.call_tool("tasks.get", {"id": task_id})).content
        if not block.text.startswith("Still running"):
            return block.text


print(json.dumps(asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 120))))
