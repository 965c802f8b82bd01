"""The official Python client before version 2, which knows only the protocol with a handshake."""

import asyncio
import json
import os
import sys

import httpx
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import PaginatedRequestParams


async def main(url: str, calls: list) -> dict:
    headers = {"Authorization": os.environ["AUTHORIZATION"]} if "AUTHORIZATION" in os.environ else {}
    async with (
        httpx.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        welcome = await session.initialize()
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
        return {
            "version": welcome.protocolVersion,
            "server": welcome.serverInfo.name,
            "tools": [plain(tool) for tool in tools],
            "results": results,
        }


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


print(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[3])))))
