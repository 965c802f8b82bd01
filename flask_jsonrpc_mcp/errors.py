"""Every failure a caller can be told about: its JSON-RPC code, HTTP status, REST slug and text.

    RpcError                    an expected failure of a method; raise it from your own code
    ├── ParseError              the text is not strict JSON
    ├── InvalidRequest          JSON, but not a request we can read
    │   ├── MissingParameter    a member of the request is missing or of the wrong kind
    │   ├── InvalidCursor       not a cursor we handed out
    │   ├── Unauthorized        credentials were given and are wrong, or none were given where some are needed
    │   ├── Forbidden           a page, host or caller that is not let in here
    │   ├── NoSuchPath          a path below ours with nothing behind it
    │   ├── VerbNotAllowed      this path answers other HTTP methods
    │   ├── BodyTooLarge        the request body is over the limit
    │   ├── UnreadableBody      the body ended early or its framing is broken
    │   ├── UnsupportedMediaType
    │   ├── HeaderMismatch      MCP: a header says something else than the body
    │   ├── UnsupportedVersion  MCP: a protocol version we do not speak
    │   ├── MalformedParams     MCP: the params of a protocol method are not what it takes
    │   │   └── UnknownName     MCP: no such tool, prompt or resource, or none this caller may know of
    │   │       ├── UnknownTool
    │   │       ├── UnknownPrompt
    │   │       └── UnknownResource
    │   ├── SessionMissing      MCP before 2026: the client has not been initialised
    │   └── SessionNotFound     MCP before 2026: the session has ended or belongs to someone else
    ├── MethodNotFound          no such method, or none this caller may know of
    │   └── SignInRequired      the same, told to an anonymous caller who could sign in
    ├── InvalidParams           the arguments break the schema
    ├── MissingCapability       the tool needs something of the client that it cannot do
    ├── TimedOut                the method has not ended after its time
    ├── Overloaded              too many methods have not
    ├── RateLimited             one call too many
    └── InternalError           anything unexpected in a method; the details are in the log under its id
        └── ServerFault         the same outside of a method, such as in a callback of the app

Only the class attributes below map one vocabulary to another; the faces read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

MAX_ERROR_TEXT = 1000
MAX_QUOTED = 200
MAX_PROBLEMS = 20

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


def one_line(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """Put a text on one line and cut it to ``limit`` characters."""
    # Cut first: the text may be a megabyte long, and we need only its beginning. Half a surrogate pair, such as a
    # file name can contain, has no form in an answer.
    line = _CONTROL_CHARACTERS.sub(" ", text[: limit + 1].encode("utf-8", "replace").decode("utf-8"))
    return line if len(line) <= limit else line[: limit - 1] + "…"


class Problem(NamedTuple):
    """One thing that is wrong with a value, and where: ``path`` is a JSON Pointer, empty for the whole value."""

    path: str
    message: str

    def to_json(self) -> dict[str, str]:
        return {"path": self.path, "message": self.message}

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class RpcError(Exception):
    """An expected failure of a method. Its text reaches the caller, so write it for them.

    :param message: What went wrong, on one line; longer texts are cut at 1,000 characters.
    :param code: The JSON-RPC error code, ``-32000`` if not given.
    :param data: Anything JSON can hold, passed on to the caller beside the text.
    """

    code = -32000
    status = 500
    rpc_status = 200
    slug = "execution_error"
    default_message = "Server error"
    rpc_message: str | None = None
    """The text that JSON-RPC 2.0 has for the code, where it has one."""

    retry_after: int | None = None
    """In how many seconds to try again, where that helps."""

    # For subclasses of yours that forget to call this class's __init__.
    message = default_message
    data: Any = None

    def __init__(self, message: str | None = None, *, code: int | None = None, data: Any = None) -> None:
        self.message = one_line(self.default_message if message is None else str(message))
        if code is not None:
            self.code = code
        self.data = data
        super().__init__(self.message)


class ParseError(RpcError):
    """The text is not strict JSON."""

    code = -32700
    status = 400
    rpc_status = 400
    slug = "invalid_json"
    default_message = "Request body must be valid JSON"
    rpc_message = "Parse error"


class InvalidRequest(RpcError):
    """The JSON is not a request we can read."""

    code = -32600
    status = 400
    rpc_status = 400
    slug = "invalid_request"
    default_message = "Invalid Request"


class MissingParameter(InvalidRequest):
    """A member of the request is missing or of the wrong kind."""

    slug = "missing_parameter"

    def __init__(self, name: str) -> None:
        super().__init__(f'Required parameter "{name}" is missing or invalid')


class InvalidCursor(InvalidRequest):
    """The cursor is not one that a list handed out."""

    slug = "invalid_cursor"
    default_message = "Invalid cursor: send the nextCursor of the page before, or none"


class Unauthorized(InvalidRequest):
    """Wrong credentials, or none where some are needed. Answered with a challenge."""

    status = 401
    rpc_status = 401
    slug = "unauthorized"
    default_message = "Valid credentials are required"


class Forbidden(InvalidRequest):
    """A page, host or caller that is not let in here."""

    status = 403
    rpc_status = 403
    slug = "forbidden"
    default_message = "Access denied"


class NoSuchPath(InvalidRequest):
    """A path below ours with nothing behind it."""

    status = 404
    rpc_status = 404
    slug = "not_found"
    default_message = "Nothing is served at this path"


class VerbNotAllowed(InvalidRequest):
    """This path answers other HTTP methods, named in ``allowed``."""

    status = 405
    rpc_status = 405
    slug = "method_not_allowed"

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = ", ".join(allowed)
        super().__init__(f"Only {self.allowed} can be used here")


class BodyTooLarge(InvalidRequest):
    """The request body is over the limit."""

    status = 413
    rpc_status = 413
    slug = "body_too_large"
    default_message = "The request body is too large"


class UnreadableBody(InvalidRequest):
    """The body ended early or its framing is broken."""

    slug = "unreadable_body"
    default_message = "The request body could not be read"


class UnsupportedMediaType(InvalidRequest):
    """The body is not labelled as JSON."""

    status = 415
    rpc_status = 415
    slug = "unsupported_media_type"
    default_message = "Send the body with the header Content-Type: application/json"


class HeaderMismatch(InvalidRequest):
    """A header says something else than the body, or is missing."""

    code = -32020

    def __init__(self, problem: str) -> None:
        super().__init__(f"Header mismatch: {problem}")


class UnsupportedVersion(InvalidRequest):
    """A protocol version we do not speak."""

    code = -32022

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        data = {"supported": list(supported), "requested": one_line(requested, MAX_QUOTED)}
        super().__init__("Unsupported protocol version", data=data)


class MalformedParams(InvalidRequest):
    """The params of a protocol method are not what it takes."""

    code = -32602
    rpc_status = 200


class UnknownName(MalformedParams):
    """No such thing, or none this caller may know of.

    :param sign_in: An anonymous caller who could sign in; answered with a challenge.
    """

    kind = "name"

    def __init__(self, name: str, *, sign_in: bool, data: Any = None) -> None:
        super().__init__(f"Unknown {self.kind}: {one_line(name, MAX_QUOTED)}", data=data)
        if sign_in:
            self.status = self.rpc_status = 401


class UnknownTool(UnknownName):
    """No such tool, or none this caller may know of."""

    kind = "tool"


class UnknownPrompt(UnknownName):
    """No such prompt, or none this caller may know of."""

    kind = "prompt"


class UnknownResource(UnknownName):
    """Nothing to read under this URI, or nothing this caller may know of."""

    kind = "resource"

    def __init__(self, uri: str, *, sign_in: bool, code: int | None = None) -> None:
        super().__init__(uri, sign_in=sign_in, data={"uri": one_line(uri, MAX_QUOTED)})
        if code is not None:
            self.code = code


class SessionMissing(InvalidRequest):
    """The client has not been initialised."""

    default_message = "Send initialize first, and the Mcp-Session-Id of its answer with everything after"


class SessionNotFound(InvalidRequest):
    """The session has ended, or belongs to someone else."""

    status = 404
    rpc_status = 404
    default_message = "This session has ended; send initialize to begin another"


class MethodNotFound(RpcError):
    """No such method, or none this caller may know of: the two look the same."""

    code = -32601
    status = 404
    slug = "tool_not_found"
    rpc_message = "Method not found"

    def __init__(self, name: str) -> None:
        self.name = one_line(name, MAX_QUOTED)
        super().__init__(f"Tool '{self.name}' not found or access denied")


class SignInRequired(MethodNotFound):
    """The same, told to an anonymous caller who could sign in. Answered with a challenge."""

    status = 401
    rpc_status = 401
    slug = "unauthorized"


class InvalidParams(RpcError):
    """The arguments break the schema. Every problem is listed with its path."""

    code = -32602
    status = 400
    slug = "invalid_arguments"
    rpc_message = "Invalid params"

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems[:MAX_PROBLEMS])
        summary = "; ".join(str(problem) for problem in self.problems)
        data = {"errors": [problem.to_json() for problem in self.problems]}
        super().__init__(f"Invalid arguments: {summary}", data=data)


class MissingCapability(RpcError):
    """The tool needs something of the client that it cannot do, or has not said that it can."""

    code = -32021
    status = 400
    slug = "missing_capability"

    def __init__(self, missing: Iterable[str]) -> None:
        names = sorted(missing)
        needed: dict[str, dict[str, Any]] = {}
        for name in names:
            # A dot leads to a capability within another.
            outer, _, inner = name.partition(".")
            needed.setdefault(outer, {}).update({inner: {}} if inner else {})
        text = f"This needs an MCP client that can do what it asks for: {', '.join(names)}"
        super().__init__(text, data={"requiredCapabilities": needed})


class TimedOut(RpcError):
    """The method has not ended after its time."""

    code = -32003
    status = 504
    slug = "timeout"

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The method has not ended after {seconds:g} seconds")


class Overloaded(RpcError):
    """Too many methods have not ended after their time."""

    code = -32004
    status = 503
    rpc_status = 503
    slug = "overloaded"
    default_message = "Too many calls are still running; try again later"
    retry_after = 5


class RateLimited(RpcError):
    """One call too many."""

    code = -32005
    status = 429
    rpc_status = 429
    slug = "rate_limited"

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__(f"Too many calls; try again in {retry_after} seconds")


class InternalError(RpcError):
    """Something unexpected. The caller learns only the id under which the log has the rest."""

    code = -32603

    def __init__(self, error_id: str) -> None:
        self.error_id = error_id
        super().__init__(f"Internal error, see the server log for id {error_id}")


class ServerFault(InternalError):
    """Something unexpected outside of a method, such as a callback that cannot reach its database."""

    slug = "internal_error"
