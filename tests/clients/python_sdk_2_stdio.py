"""The official Python client on standard input and output: starts a server, and does what its own input says.

Each line is ``{"list": true}``, ``{"call": [name, arguments]}`` or ``{"calls": [[name, arguments], ...]}``, all of
these at once; each is answered by a line.
"""

import asyncio
import json
import sys

from mcp import Client, MCPError
from mcp.client import session
from mcp.client.stdio import StdioServerParameters

# On a busy machine a program may need longer to start than the client would wait before it takes it for an older one.
session.DISCOVER_TIMEOUT_SECONDS = 120


async def main(command: list, mode: str, env: dict) -> None:
    server = StdioServerParameters(command=command[0], args=command[1:], env=env)
    async with Client(server, mode=mode) as client:
        show({"version": client.protocol_version, "server": client.server_info.name})
        while line := await asyncio.to_thread(sys.stdin.readline):
            step = json.loads(line)
            if "list" in step:
                show(await attempt(list_tools(client)))
            elif "call" in step:
                show(await attempt(call(client, *step["call"])))
            else:
                show(await asyncio.gather(*(attempt(call(client, *each)) for each in step["calls"])))


async def list_tools(client: Client) -> list:
    return [plain(tool) for tool in (await client.list_tools(cache_mode="bypass")).tools]


async def call(client: Client, name: str, arguments: dict) -> dict:
    return plain(await client.call_tool(name, arguments))


async def attempt(doing):
    try:
        return await doing
    except MCPError as error:
        return {"error": error.code, "message": str(error)}


def plain(model) -> dict:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def show(value) -> None:
    print(json.dumps(value), flush=True)


asyncio.run(main(json.loads(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])))
