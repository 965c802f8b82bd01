"""The official Python client before version 2 signs in by OAuth."""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from person import disconnect, sign_in

CALLBACK = "http://127.0.0.1:3030/callback"

browser = httpx.Client()
asked, saved, came_back = [], [], []


class Storage:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens
        saved.append(tokens.scope)

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def redirect(url: str) -> None:
    asked.append(parse_qs(urlsplit(url).query)["scope"][0])
    came_back[:] = [sign_in(browser, url, CALLBACK)]


async def callback() -> tuple:
    answer = parse_qs(urlsplit(came_back[0]).query)
    return answer["code"][0], answer["state"][0]


async def main(url: str, steps: list) -> dict:
    metadata = OAuthClientMetadata(client_name="test", redirect_uris=[CALLBACK])
    provider = OAuthClientProvider(url, metadata, Storage(), redirect, callback)
    async with (
        httpx.AsyncClient(auth=provider, timeout=60) as http,
        streamable_http_client(url, http_client=http) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        welcome = await session.initialize()
        tools, results = (await session.list_tools()).tools, []
        for step in steps:
            if step == "refresh":
                provider.context.token_expiry_time = 1
            elif step == "disconnect":
                disconnect(browser, url)
            else:
                results.append((await session.call_tool(step, {})).content[0].text)
        return {
            "version": welcome.protocolVersion,
            "tools": [tool.name for tool in tools],
            "results": results,
            "asked": asked,
            "saved": saved,
        }


print(json.dumps(asyncio.run(main(sys.argv[1], json.loads(sys.argv[3])))))
