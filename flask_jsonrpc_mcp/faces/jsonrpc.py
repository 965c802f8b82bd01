"""The JSON-RPC face: ``/jsonrpc`` for every method, ``/mcp/tools/<name>`` for one tool, by POST or by GET.

A GET can be linked to, prefetched and cached, so it runs only what says that it changes nothing.
"""

from __future__ import annotations

from typing import Any

from flask import Response as HttpResponse

from .. import calls
from ..access import Caller
from ..core import Core
from ..envelope import Request, Response, answer, answer_one
from ..errors import InvalidRequest, MethodNotFound, RpcError, VerbNotAllowed
from ..openrpc import DISCOVER, openrpc_document
from ..settings import GET_NONE, GET_READ_ONLY, server_name, setting
from ..strict_json import write
from .requests import read_json_body, read_json_query
from .responses import error_response, json_response, make_page, no_content, page_response
from .routes import Route
from .urls import own_url

FACE = "jsonrpc"
# The last two are older labels of JSON-RPC over HTTP. No form of a web page can send any of them.
MIMETYPES = ("application/json", "application/json-rpc", "application/jsonrequest")


def post(core: Core, caller: Caller, name: str | None = None) -> HttpResponse:
    return _Exchange(core, caller, tool=name).respond(read_json_body(MIMETYPES))


def get(core: Core, caller: Caller, name: str | None = None) -> HttpResponse:
    if setting("GET_METHODS") == GET_NONE:
        raise VerbNotAllowed(["POST"])
    return _Exchange(core, caller, tool=name, by_get=True).respond(read_json_query())


def spell_error(error: RpcError) -> HttpResponse:
    """Answer what failed before there was a request to answer."""
    return _spell_failure(Response(None, error=error), error)


class _Exchange:
    """One HTTP request at one of the two URLs.

    :param tool: The tool whose own URL this is, or ``None`` at ``/jsonrpc``.
    """

    def __init__(self, core: Core, caller: Caller, tool: str | None, *, by_get: bool = False) -> None:
        self.core = core
        self.caller = caller
        self.tool = tool
        self.by_get = by_get
        self.refusals: list[RpcError] = []

    def respond(self, payload: Any) -> HttpResponse:
        if self.tool is None:
            reply = answer(payload, self._call, max_batch=setting("MAX_BATCH"))
        else:
            reply = answer_one(payload, self._call)
        if reply is None:
            # A notification has no answer, but the request that carried it may still have been refused.
            return self._refuse() if self.refusals else no_content()
        if isinstance(reply, list):
            return json_response([response.to_json() for response in reply])
        if reply.error is not None:
            return _spell_failure(reply, reply.error, at_tool=self.tool is not None)
        return self._keepable(reply, payload["method"]) or json_response(reply.to_json())

    def _refuse(self) -> HttpResponse:
        refusal = self.refusals[0]
        return _spell_failure(Response(None, error=refusal), refusal, at_tool=self.tool is not None)

    def _call(self, asked: Request) -> Any:
        try:
            return self._run(asked)
        except RpcError as error:
            if isinstance(error, InvalidRequest) or (self.tool is not None and isinstance(error, MethodNotFound)):
                self.refusals.append(error)
            raise

    def _run(self, asked: Request) -> Any:
        if self.tool is None and asked.method == DISCOVER:
            return self._discover()
        if self.tool is not None and asked.method != self.tool:
            raise InvalidRequest("The request names another method than its URL")
        call = calls.Call(
            asked.method,
            asked.params,
            self.caller,
            FACE,
            listed_only=self.tool is not None,
            read_only=self.by_get and setting("GET_METHODS") == GET_READ_ONLY,
        )
        return self.core.dispatcher.invoke(call).plain

    def _discover(self) -> dict[str, Any]:
        self.core.require_discovery(self.caller)
        info = {"title": server_name(), "version": setting("SERVER_VERSION")}
        if setting("INSTRUCTIONS"):
            info["description"] = setting("INSTRUCTIONS")
        methods = self.core.catalogue.methods_for(self.caller)
        return openrpc_document(methods, info=info, url=own_url("jsonrpc", external=True))

    def _keepable(self, reply: Response, name: str) -> HttpResponse | None:
        """The answer as caches may keep it, when it came by GET and its method says for how long."""
        method = self.core.registry.get(name) if self.by_get else None
        if method is None or method.max_age is None:
            return None
        return page_response(make_page(write(reply.to_json())), self.core, self.caller, method.max_age)


def _spell_failure(reply: Response, error: RpcError, *, at_tool: bool = False) -> HttpResponse:
    # At its own URL, a tool that is not there is a page that is not there.
    status = error.status if at_tool and isinstance(error, MethodNotFound) else error.rpc_status
    return error_response(reply.to_json(), error, status)


VIEWS = {"GET": get, "POST": post}
ROUTES = (
    Route("/jsonrpc", "jsonrpc", VIEWS, spell_error),
    Route("/mcp/tools/<name>", "call_tool", VIEWS, spell_error),
)
