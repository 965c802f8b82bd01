"""The errors that callers see, each with its JSON-RPC code, HTTP status, REST slug and text.

    RpcError                    an expected failure of a method; raise it from your own code
    ├── ParseError              the text is not strict JSON
    ├── InvalidRequest          JSON, but not a request we can read
    │   ├── MissingParameter    a member of the request is missing or of the wrong kind
    │   ├── InvalidCursor       not a cursor we handed out
    │   ├── Unauthorized        wrong credentials, or none where they are required
    │   ├── Forbidden           this origin, host or caller is not allowed
    │   │   └── InsufficientScope  OAuth: the access token lacks a scope
    │   ├── NoSuchPath          no route at this path below the blueprint
    │   ├── VerbNotAllowed      this path takes other HTTP methods
    │   ├── BodyTooLarge        the request body is over the limit
    │   ├── UnreadableBody      the body ended early or its framing is invalid
    │   ├── UnsupportedMediaType
    │   ├── HeaderMismatch      MCP: a header and the body differ
    │   ├── UnsupportedVersion  MCP: a protocol version this server does not support
    │   ├── MalformedParams     MCP: the params of a protocol method are invalid
    │   │   ├── UnknownTask     no such task, or none of this caller
    │   │   │   └── NoSuchTask  the same at the URL of a task
    │   │   └── UnknownName     MCP: no such tool, prompt or resource, or none visible to this caller
    │   │       ├── UnknownTool
    │   │       ├── UnknownPrompt
    │   │       └── UnknownResource
    │   ├── SessionMissing      MCP before 2026-07-28: no Mcp-Session-Id
    │   └── SessionNotFound     MCP before 2026-07-28: the session has expired or is another caller's
    ├── MethodNotFound          no such method, or none visible to this caller
    │   └── SignInRequired      the same, for an anonymous caller who could sign in
    ├── InvalidParams           the arguments do not match the schema
    ├── MissingCapability       the tool needs a capability that the client has not declared
    ├── CannotAsk               the app has no SECRET_KEY to sign questions with
    ├── TimedOut                the method did not return within its timeout
    ├── Overloaded              too many calls hold a thread already, or a batch has used up its time or size
    ├── RateLimited             the caller has exceeded a rate limit
    │   └── TooManyTasks        the caller has too many tasks that are not over
    ├── SignInUnavailable       the authorization server cannot be reached
    ├── TasksUnavailable        the database of the tasks cannot be reached
    ├── NoMailbox               the mailbox is not installed or cannot be reached
    └── InternalError           an unexpected exception in a method; the log has it under its id
        └── ServerFault         the same outside of a method, such as in a callback of the app

Each class has its code and its HTTP statuses: ``status`` on REST and, if it is a 4xx, on MCP 2026-07-28; ``rpc_status``
in all other cases. Nothing else maps JSON-RPC codes to HTTP statuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any

from .problems import MAX_QUOTED, Problem, one_line, within_bounds


class RpcError(Exception):
    """An expected failure of a method. Its text reaches the caller, so write it for them.

    :param message: What went wrong, on one line; longer texts are cut at 1,000 characters.
    :param code: The JSON-RPC error code, ``-32000`` if not given.
    :param data: Anything JSON can hold, passed on to the caller beside the text.
    :param status: The HTTP status on REST, 500 if not given. JSON-RPC clients get it as ``data.status``.
    :param slug: The ``code`` on REST; by default made from the status, such as ``conflict`` from 409.
    """

    code = -32000
    status = 500
    """The HTTP status on REST, and on MCP for mistakes of the client since 2026-07-28."""

    rpc_status = 200
    """The HTTP status on ``/jsonrpc``, and on MCP before 2026-07-28."""

    slug = "execution_error"
    default_message = "Server error"
    rpc_message: str | None = None
    """The message that JSON-RPC 2.0 defines for the code, if it does."""

    retry_after: int | None = None
    """Seconds until a retry can succeed, sent as ``Retry-After``."""

    # For subclasses whose __init__ does not call this one.
    message = default_message
    data: Any = None

    def __init__(
        self,
        message: str | None = None,
        *,
        code: int | None = None,
        data: Any = None,
        status: int | None = None,
        slug: str | None = None,
    ) -> None:
        self.message = one_line(self.default_message if message is None else str(message))
        if code is not None:
            self.code = code
        if status is not None:
            self.status = int(HTTPStatus(status))
            self.slug = re.sub(r"\W+", "_", HTTPStatus(status).phrase.lower())
        if slug is not None:
            self.slug = slug
        self.data = data
        super().__init__(self.message)

    @property
    def rpc_data(self) -> Any:
        """The ``data`` of the JSON-RPC error: with the status, if the method chose one."""
        if "status" in vars(self) and (self.data is None or isinstance(self.data, dict)):
            return {"status": self.status, **(self.data or {})}
        return self.data


class ParseError(RpcError):
    code = -32700
    status = 400
    rpc_status = 400
    slug = "invalid_json"
    default_message = "Request body must be valid JSON"
    rpc_message = "Parse error"


class InvalidRequest(RpcError):
    code = -32600
    status = 400
    rpc_status = 400
    slug = "invalid_request"
    default_message = "Invalid Request"


class MissingParameter(InvalidRequest):
    slug = "missing_parameter"

    def __init__(self, name: str) -> None:
        super().__init__(f'Required parameter "{name}" is missing or invalid')


class InvalidCursor(InvalidRequest):
    slug = "invalid_cursor"
    default_message = "Invalid cursor: send the nextCursor of the page before, or none"


class Unauthorized(InvalidRequest):
    """Wrong credentials, or none where they are required. The response has a challenge.

    :param scopes: OAuth: the scopes that a token would need.
    """

    status = 401
    rpc_status = 401
    slug = "unauthorized"
    default_message = "Valid credentials are required"

    def __init__(self, message: str | None = None, *, scopes: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.scopes = frozenset(scopes)


class Forbidden(InvalidRequest):
    status = 403
    rpc_status = 403
    slug = "forbidden"
    default_message = "Access denied"


class InsufficientScope(Forbidden):
    """The access token lacks a scope. The response has a challenge that names all scopes to ask for.

    :param scopes: What the method or the server needs.
    """

    slug = "insufficient_scope"

    def __init__(self, scopes: Iterable[str]) -> None:
        self.scopes = frozenset(scopes)
        names = sorted(self.scopes)
        super().__init__(f"The access token needs the scope {' '.join(names)}", data={"requiredScopes": names})


class NoSuchPath(InvalidRequest):
    status = 404
    rpc_status = 404
    slug = "not_found"
    default_message = "Nothing is served at this path"


class VerbNotAllowed(InvalidRequest):
    status = 405
    rpc_status = 405
    slug = "method_not_allowed"

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = ", ".join(allowed)
        super().__init__(f"Only {self.allowed} can be used here")


class BodyTooLarge(InvalidRequest):
    status = 413
    rpc_status = 413
    slug = "body_too_large"
    default_message = "The request body is too large"


class UnreadableBody(InvalidRequest):
    slug = "unreadable_body"
    default_message = "The request body could not be read"


class UnsupportedMediaType(InvalidRequest):
    status = 415
    rpc_status = 415
    slug = "unsupported_media_type"
    default_message = "Send the body with the header Content-Type: application/json"


class HeaderMismatch(InvalidRequest):
    code = -32020

    def __init__(self, problem: str) -> None:
        super().__init__(f"Header mismatch: {problem}")


class UnsupportedVersion(InvalidRequest):
    code = -32022

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        data = {"supported": list(supported), "requested": one_line(requested, MAX_QUOTED)}
        super().__init__("Unsupported protocol version", data=data)


class MalformedParams(InvalidRequest):
    code = -32602
    rpc_status = 200


class UnknownTask(MalformedParams):
    """No such task, or an expired one, or none of this caller: they look the same."""

    slug = "task_not_found"
    default_message = "Task not found"


class NoSuchTask(UnknownTask):
    status = 404


class UnknownName(MalformedParams):
    """No such tool, prompt or resource, or none visible to this caller: the two look the same.

    :param sign_in: The caller is anonymous and could sign in; answer 401 with a challenge.
    """

    kind = "name"

    def __init__(self, name: str, *, sign_in: bool, data: Any = None) -> None:
        super().__init__(f"Unknown {self.kind}: {one_line(name, MAX_QUOTED)}", data=data)
        if sign_in:
            self.status = self.rpc_status = 401


class UnknownTool(UnknownName):
    kind = "tool"


class UnknownPrompt(UnknownName):
    kind = "prompt"


class UnknownResource(UnknownName):
    kind = "resource"

    def __init__(self, uri: str, *, sign_in: bool, code: int | None = None) -> None:
        super().__init__(uri, sign_in=sign_in, data={"uri": one_line(uri, MAX_QUOTED)})
        if code is not None:
            self.code = code


class SessionMissing(InvalidRequest):
    default_message = "Send initialize first, and its Mcp-Session-Id with every later request"


class SessionNotFound(InvalidRequest):
    status = 404
    rpc_status = 404
    default_message = "This session has ended; send initialize to begin another"


class MethodNotFound(RpcError):
    """No such method, or none visible to this caller: the two look the same."""

    code = -32601
    status = 404
    slug = "tool_not_found"
    rpc_message = "Method not found"

    def __init__(self, name: str) -> None:
        self.name = one_line(name, MAX_QUOTED)
        super().__init__(f"Tool '{self.name}' not found or access denied")


class SignInRequired(MethodNotFound):
    """The same for an anonymous caller who could sign in. The response has a challenge."""

    status = 401
    rpc_status = 401
    slug = "unauthorized"


class InvalidParams(RpcError):
    """The arguments do not match the schema. Each problem is listed with its path, up to a size limit."""

    code = -32602
    status = 400
    slug = "invalid_arguments"
    rpc_message = "Invalid params"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(within_bounds(problems))
        summary = "; ".join(str(problem) for problem in self.problems)
        data = {"errors": [problem.to_json() for problem in self.problems]}
        super().__init__(f"Invalid arguments: {summary}", data=data)


class MissingCapability(RpcError):
    code = -32021
    status = 400
    slug = "missing_capability"

    def __init__(self, missing: Iterable[str]) -> None:
        names = sorted(missing)
        needed: dict[str, dict[str, Any]] = {}
        for name in names:
            # "elicitation.url" is the capability "url" within "elicitation".
            outer, _, inner = name.partition(".")
            needed.setdefault(outer, {}).update({inner: {}} if inner else {})
        text = f"This needs an MCP client with the capability {', '.join(names)}"
        super().__init__(text, data={"requiredCapabilities": needed})


class CannotAsk(RpcError):
    default_message = "This server cannot ask: its SECRET_KEY is not set"


class TimedOut(RpcError):
    code = -32003
    status = 504
    slug = "timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The method has not ended after {seconds:g} seconds")


class Overloaded(RpcError):
    code = -32004
    status = 503
    rpc_status = 503
    slug = "overloaded"
    default_message = "Too many calls are still running; try again later"
    retry_after = 5


class RateLimited(RpcError):
    code = -32005
    status = 429
    rpc_status = 429
    slug = "rate_limited"

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"Too many calls; try again in {retry_after} seconds")


class TooManyTasks(RateLimited):
    def __init__(self, limit: int, retry_after: int) -> None:
        super().__init__(retry_after)
        self.message = f"You have {limit} tasks that are not over; wait for one of them, or cancel it"


class SignInUnavailable(RpcError):
    code = -32004
    status = 503
    rpc_status = 503
    slug = "sign_in_unavailable"
    default_message = "Access tokens cannot be checked at the moment; try again later"
    retry_after = 5


class TasksUnavailable(RpcError):
    code = -32004
    status = 503
    rpc_status = 503
    slug = "tasks_unavailable"
    default_message = "Tasks cannot be stored or read at the moment; try again later"
    retry_after = 5


class NoMailbox(RpcError):
    status = 503
    slug = "no_mailbox"
    default_message = "This server cannot do that: its workers cannot pass messages to each other"


class InternalError(RpcError):
    """An unexpected exception. The caller sees only the id; the log has the traceback under it.

    :param detail: Shown too, in debug mode.
    """

    code = -32603

    def __init__(self, error_id: str, detail: str = "") -> None:
        self.error_id = error_id
        shown = f": {detail}" if detail else ""
        super().__init__(f"Internal error, see the server log for id {error_id}{shown}")


class ServerFault(InternalError):
    slug = "internal_error"


PROTOCOL_ERRORS = (MissingCapability, Unauthorized, InsufficientScope, MethodNotFound)
"""The failures of a tool call that are JSON-RPC errors on MCP. All others are results that a model can read."""
