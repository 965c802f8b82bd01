"""The official Python client, from version 2 on: both eras of the protocol."""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, mode: str, calls: list) -> dict:
    headers = {"Authorization": os.environ["AUTHORIZATION"]} if "AUTHORIZATION" in os.environ else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        tools, results, cursor = [], [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        for name, arguments in calls:
            try:
                results.append(plain(await client.call_tool(name, arguments)))
            except MCPError as error:
                results.append({"error": error.code})
        return {
            "version": client.protocol_version,
            "server": client.server_info.name,
            "tools": [plain(tool) for tool in tools],
            "results": results,
        }


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
