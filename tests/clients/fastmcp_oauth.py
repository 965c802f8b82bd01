"""The client of FastMCP signs in by OAuth. The person does, whom it would open a browser for."""

import asyncio
import json
import sys
import webbrowser
from urllib.parse import parse_qs, urlsplit

import httpx2
from fastmcp import Client
from fastmcp.client.auth import OAuth
from fastmcp.client.transports import StreamableHttpTransport
from mcp.shared.auth import AuthorizationCodeResult
from person import disconnect, sign_in

browser = httpx2.Client()
asked, came_back = [], []


def open_browser(url: str) -> None:
    query = parse_qs(urlsplit(url).query)
    asked.append(query["scope"][0])
    came_back[:] = [sign_in(browser, url, query["redirect_uri"][0])]


webbrowser.open = open_browser


class HeadlessOAuth(OAuth):
    async def callback_handler(self) -> AuthorizationCodeResult:
        answer = parse_qs(urlsplit(came_back[0]).query)
        return AuthorizationCodeResult(code=answer["code"][0], state=answer["state"][0], iss=answer["iss"][0])


async def main(url: str, mode: str, steps: list) -> dict:
    provider = HeadlessOAuth(client_name="test")
    async with Client(StreamableHttpTransport(url, auth=provider), mode=mode) as client:
        tools, results = await client.list_tools(), []
        saved = {provider.context.current_tokens.access_token: provider.context.current_tokens.scope}
        for step in steps:
            if step == "refresh":
                provider.context.token_expiry_time = 1
            elif step == "disconnect":
                disconnect(browser, url)
            else:
                results.append((await client.call_tool(step, {})).content[0].text)
                saved[provider.context.current_tokens.access_token] = provider.context.current_tokens.scope
        return {
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "results": results,
            "asked": asked,
            "saved": list(saved.values()),
        }


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
