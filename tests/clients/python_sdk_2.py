"""The official Python client, from version 2 on: both eras of the protocol."""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, PromptReference


async def main(url: str, mode: str, calls: list | None) -> dict:
    asked = []

    async def answer(context, params) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], "Ada"))

    headers = {"Authorization": os.environ["AUTHORIZATION"]} if "AUTHORIZATION" in os.environ else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as client,
    ):
        if calls is None:
            return {**await converse(client), "asked": asked}
        return await call_tools(client, calls)


async def call_tools(client: Client, calls: list) -> dict:
    tools, results, cursor = [], [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    progress = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    # With a callback, a progress token goes with every call.
    options = {"progress_callback": hear} if "PROGRESS" in os.environ else {}
    for name, arguments in calls:
        try:
            results.append(plain(await client.call_tool(name, arguments, **options)))
        except MCPError as error:
            results.append({"error": error.code})
    return {
        "version": client.protocol_version,
        "server": client.server_info.name,
        "tools": [plain(tool) for tool in tools],
        "results": results,
        "progress": progress,
    }


async def converse(client: Client) -> dict:
    progress = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    prompt = await client.get_prompt("paint", {"color": "green"})
    completed = await client.complete(PromptReference(name="paint"), {"name": "color", "value": "gr"})
    counted = await client.call_tool("count", {"to": 3}, progress_callback=hear)
    return {
        "version": client.protocol_version,
        "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
        "messages": [[message.role, message.content.text] for message in prompt.messages],
        "completed": completed.completion.values,
        "resources": [str(each.uri) for each in (await client.list_resources()).resources],
        "templates": [each.uri_template for each in (await client.list_resource_templates()).resource_templates],
        "today": (await client.read_resource("notes://today")).contents[0].text,
        "data": (await client.read_resource("notes://7/data")).contents[0].text,
        "leaf": (await client.read_resource("notes://leaf")).contents[0].blob,
        "progress": progress,
        "counted": counted.content[0].text,
        "greeting": (await client.call_tool("greet", {})).content[0].text,
        "deleted": (await client.call_tool("delete", {"id": 7})).content[0].text,
    }


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
