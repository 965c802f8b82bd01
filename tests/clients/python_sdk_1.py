"""The official Python client before version 2, which knows only the protocol with a handshake."""

import asyncio
import json
import os
import sys

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, PaginatedRequestParams, PromptReference


async def main(url: str, calls: list | None) -> dict:
    asked = []

    async def answer(context, params) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content=dict.fromkeys(params.requestedSchema["properties"], "Ada"))

    headers = {"Authorization": os.environ["AUTHORIZATION"]} if "AUTHORIZATION" in os.environ else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing, elicitation_callback=answer) as session,
    ):
        welcome = await session.initialize()
        seen = await converse(session) if calls is None else await call_tools(session, calls)
        return {"version": welcome.protocolVersion, "server": welcome.serverInfo.name, "asked": asked, **seen}


async def call_tools(session: ClientSession, calls: list) -> dict:
    tools, results, cursor = [], [], None
    while True:
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.nextCursor
        if cursor is None:
            break
    for name, arguments in calls:
        try:
            results.append(plain(await session.call_tool(name, arguments)))
        except McpError as error:
            results.append({"error": error.error.code})
    return {"tools": [plain(tool) for tool in tools], "results": results}


async def converse(session: ClientSession) -> dict:
    progress = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    prompt = await session.get_prompt("paint", {"color": "green"})
    completed = await session.complete(
        PromptReference(type="ref/prompt", name="paint"), {"name": "color", "value": "gr"}
    )
    counted = await session.call_tool("count", {"to": 3}, progress_callback=hear)
    return {
        "prompts": [prompt.name for prompt in (await session.list_prompts()).prompts],
        "messages": [[message.role, message.content.text] for message in prompt.messages],
        "completed": completed.completion.values,
        "resources": [str(each.uri) for each in (await session.list_resources()).resources],
        "templates": [each.uriTemplate for each in (await session.list_resource_templates()).resourceTemplates],
        "today": (await session.read_resource("notes://today")).contents[0].text,
        "data": (await session.read_resource("notes://7/data")).contents[0].text,
        "leaf": (await session.read_resource("notes://leaf")).contents[0].blob,
        "progress": progress,
        "counted": counted.content[0].text,
        "greeting": (await session.call_tool("greet", {})).content[0].text,
        "deleted": (await session.call_tool("delete", {"id": 7})).content[0].text,
    }


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


print(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[3])))))
