"""The client of FastMCP, which follows the pages of a list by itself."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from mcp import MCPError


async def main(url: str, mode: str, calls: list) -> dict:
    headers = {"Authorization": os.environ["AUTHORIZATION"]} if "AUTHORIZATION" in os.environ else {}
    async with Client(StreamableHttpTransport(url, headers=headers), mode=mode) as client:
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


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
