"""Convert an exception of a method to an `RpcError` for the caller, and log it if it was not expected.

An `RpcError` reaches the caller as it is. So does what a Flask view raises on purpose: ``abort(404, "No such shelf")``,
a ``ValidationError`` of marshmallow or pydantic, and what a function of ``@rpc.errorhandler`` handles. Anything else is
logged with its traceback and an id; the caller sees only the id.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from flask import Response, current_app, got_request_exception
from werkzeug.exceptions import HTTPException, default_exceptions
from werkzeug.wrappers import Response as BaseResponse

from .call import Call
from .checks import name_of
from .errors import InternalError, InvalidParams, RpcError, Unauthorized
from .method import Method
from .problems import MAX_QUOTED, one_line, problems_of_messages
from .strict_json import to_plain

F = TypeVar("F", bound=Callable[..., Any])


class ErrorHandlers:
    """The functions of ``@rpc.errorhandler``, by class of exception."""

    def __init__(self) -> None:
        self._handlers: dict[type[BaseException], Callable[[Any], Any]] = {}

    def add(self, error: type[Exception] | int, handler: Callable[[Any], Any]) -> None:
        """Register a function for a class of exceptions, or for the HTTP status of ``abort``.

        :raises TypeError, ValueError: if it is neither.
        """
        if isinstance(error, int) and error not in default_exceptions:
            raise ValueError(f"{error} is not an HTTP status that abort() raises; use 400 to 599")
        kind = default_exceptions[error] if isinstance(error, int) else error
        if not isinstance(kind, type) or not issubclass(kind, Exception):
            raise TypeError(f"errorhandler takes a class of exceptions or an HTTP status, not {error!r}")
        self._handlers[kind] = handler

    def find(self, error: BaseException) -> Callable[[Any], Any] | None:
        """Return the function for the most specific class."""
        return next((self._handlers[kind] for kind in type(error).__mro__ if kind in self._handlers), None)


def as_rpc_error(error: BaseException, call: Call, method: Method | None, handlers: ErrorHandlers) -> RpcError:
    """Return the error for the caller for an exception that ended a call, and log it if it was not expected."""
    try:
        expected = error if isinstance(error, RpcError) else _handled(error, handlers) or _expected(error)
        if expected is not None:
            return _normalised(expected)
    # Attributes of the exception, and functions of errorhandler, may raise anything.
    except BaseException as failed:
        error = failed
    _log_failure(error, call, method)
    # Flask's own signal for an unhandled exception, which error trackers listen to.
    got_request_exception.send(
        current_app._get_current_object(),  # type: ignore[attr-defined]
        _async_wrapper=current_app.ensure_sync,
        exception=error,
    )
    return InternalError(call.id, _described(error) if current_app.debug else "")


def value_of_response(response: Any, call: Call) -> Any:
    """Return the JSON of a Flask response that a method returned, such as that of ``jsonify``.

    :raises Unauthorized: if it sends an anonymous caller to sign in, as the ``login_required`` of extensions does.
    :raises RpcError: for any other 4xx.
    :raises TypeError: for a response that is not JSON.
    """
    made: BaseResponse = current_app.make_response(response)
    status = made.status_code
    if status == 401 or (300 <= status < 400 and call.caller.anonymous):
        raise Unauthorized()
    if 400 <= status < 500:
        raise RpcError(f"{made.status[4:]}: {made.get_data(as_text=True).strip()}", status=status)
    if status < 300 and isinstance(made, Response) and made.is_json:
        return made.get_json()
    raise TypeError(f"{call.name!r} returned a {made.mimetype} response with status {status}; return the value itself")


def http_failure(error: HTTPException) -> RpcError | None:
    """Convert a 4xx, such as that of ``abort(404, "No such shelf")``; ``None`` for any other status."""
    status = error.code if error.response is None else error.response.status_code
    if status == 401:
        return Unauthorized()
    if status is None or not 400 <= status < 500:
        return None
    # The default description is about a URL, which the caller did not choose.
    described = error.description is not None and error.description != type(error).description
    text = str(error.description) if described else error.name
    return RpcError(text, status=status, slug=re.sub(r"\W+", "_", error.name.lower()))


def _handled(error: BaseException, handlers: ErrorHandlers) -> RpcError | None:
    handler = handlers.find(error)
    if handler is None:
        return None
    try:
        answer = current_app.ensure_sync(handler)(error)
    except RpcError as raised:
        return raised
    if isinstance(answer, RpcError):
        return answer
    text, status = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    if not isinstance(text, str):
        raise TypeError(
            f"{name_of(handler)} must return an RpcError, a text or (text, status), not {answer!r}"
        ) from error
    return RpcError(text, status=status)


def _expected(error: BaseException) -> RpcError | None:
    """Convert what a Flask view raises on purpose."""
    if isinstance(error, HTTPException):
        return http_failure(error)
    # Neither can be raised before its library was imported.
    marshmallow, pydantic = sys.modules.get("marshmallow"), sys.modules.get("pydantic")
    if marshmallow is not None and isinstance(error, marshmallow.ValidationError):
        return InvalidParams(problems_of_messages(error.messages))
    if pydantic is not None and isinstance(error, pydantic.ValidationError):
        from .schema.pydantic_types import problems_of_errors

        return InvalidParams(problems_of_errors(error))
    return None


def _normalised(error: RpcError) -> RpcError:
    """Normalise an `RpcError` from user code: integer code and status, one-line message, JSON data."""
    for name in ("code", "status"):
        if type(getattr(error, name)) is not int:
            raise TypeError(f"the {name} of an RpcError must be an int, not {getattr(error, name)!r}")
    error.message = one_line(str(error.message))
    error.data = to_plain(error.data)
    return error


def _described(error: BaseException) -> str:
    try:
        return one_line(f"{type(error).__name__}: {error}", MAX_QUOTED)
    except Exception:  # its own __str__
        return type(error).__name__


def _log_failure(error: BaseException, call: Call, method: Method | None) -> None:
    facts = {**call.log_facts(), "function": None if method is None else name_of(method.func)}
    text = "unexpected failure in %(tool)r, function=%(function)s caller=%(caller)r id=%(id)s"
    current_app.logger.error(text, facts, exc_info=error, extra=facts)
