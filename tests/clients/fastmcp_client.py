"""The client of FastMCP, which follows the pages of a list by itself."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError
from mcp_types import PromptReference


async def main(url: str, mode: str, calls: list | None) -> dict:
    asked = []

    async def answer(message, response_type, params, context) -> dict:
        asked.append(message)
        return dict.fromkeys(params.requested_schema["properties"], "Ada")

    headers = {"Authorization": os.environ["AUTHORIZATION"]} if "AUTHORIZATION" in os.environ else {}
    transport = StreamableHttpTransport(url, headers=headers)
    async with Client(transport, mode=mode, elicitation_handler=answer) as client:
        if calls is None:
            return {**await converse(client), "asked": asked}
        return await call_tools(client, calls)


async def call_tools(client: Client, calls: list) -> dict:
    tools, results = await client.list_tools(), []
    for name, arguments in calls:
        try:
            results.append(plain(await client.call_tool_mcp(name, arguments)))
        except MCPError as error:
            results.append({"error": error.code})
    return {
        "version": client.protocol_version,
        "server": client.server_info.name,
        "tools": [plain(tool) for tool in tools],
        "results": results,
    }


async def converse(client: Client) -> dict:
    progress = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])

    prompt = await client.get_prompt("paint", {"color": "green"})
    completed = await client.complete(PromptReference(name="paint"), {"name": "color", "value": "gr"})
    counted = await client.call_tool_mcp("count", {"to": 3}, progress_handler=hear)
    return {
        "version": client.protocol_version,
        "prompts": [prompt.name for prompt in await client.list_prompts()],
        "messages": [[message.role, message.content.text] for message in prompt.messages],
        "completed": completed.values,
        "resources": [str(each.uri) for each in await client.list_resources()],
        "templates": [each.uri_template for each in await client.list_resource_templates()],
        "today": (await client.read_resource("notes://today"))[0].text,
        "data": (await client.read_resource("notes://7/data"))[0].text,
        "leaf": (await client.read_resource("notes://leaf"))[0].blob,
        "progress": progress,
        "counted": counted.content[0].text,
        "greeting": (await client.call_tool_mcp("greet", {})).content[0].text,
        "deleted": (await client.call_tool_mcp("delete", {"id": 7})).content[0].text,
    }


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
