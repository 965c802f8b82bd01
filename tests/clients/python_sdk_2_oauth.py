"""The official Python client, from version 2 on, signs in by OAuth: as a person, or as a machine."""

import asyncio
import json
import os
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from person import disconnect, sign_in

CALLBACK = "http://127.0.0.1:3030/callback"

browser = httpx2.Client()
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


async def callback() -> AuthorizationCodeResult:
    answer = parse_qs(urlsplit(came_back[0]).query)
    return AuthorizationCodeResult(code=answer["code"][0], state=answer["state"][0], iss=answer["iss"][0])


def person(url: str) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(client_name="test", redirect_uris=[CALLBACK])
    document = os.environ.get("CLIENT_DOCUMENT")
    return OAuthClientProvider(url, metadata, Storage(), redirect, callback, client_metadata_url=document)


def machine(url: str) -> ClientCredentialsOAuthProvider:
    scope = "articles:read articles:write"
    return ClientCredentialsOAuthProvider(url, Storage(), client_id="machine", client_secret="secret", scope=scope)


async def main(url: str, mode: str, steps: list) -> dict:
    provider = machine(url) if mode == "machine" else person(url)
    mode = "auto" if mode == "machine" else mode
    async with (
        httpx2.AsyncClient(auth=provider, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        tools, results = (await client.list_tools()).tools, []
        for step in steps:
            if step == "refresh":
                provider.context.token_expiry_time = 1
            elif step == "disconnect":
                disconnect(browser, url)
            else:
                results.append((await client.call_tool(step, {})).content[0].text)
        return {
            "version": client.protocol_version,
            "tools": [tool.name for tool in tools],
            "results": results,
            "asked": asked,
            "saved": saved,
            **(shown(provider.context) if "SHOW_TOKENS" in os.environ else {}),
        }


def shown(context) -> dict:
    return {"client": context.client_info.client_id, "refresh": context.current_tokens.refresh_token}


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))))
