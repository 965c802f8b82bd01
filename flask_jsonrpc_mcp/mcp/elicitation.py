"""Ask the client and run the method again with its answers, in both eras.

Since 2026-07-28 a request that needs input ends with an ``input_required`` result and a signed ``requestState``; the
client retries it with ``inputResponses``. Before, the server sends a request of its own while the client's request is
open. Either way the method runs again from its beginning.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from itsdangerous import BadData

from ..ask import NO_ANSWERS, Answers, InputNeeded, Question
from ..envelope import RpcRequest
from ..errors import CannotAsk, MalformedParams, RpcError
from ..mailbox import answer_timeout
from .protocol import MODERN, SERVER_INFO, RequestContext
from .sessions import load_signed, signer
from .versions import question_request

MAX_ROUNDS = 20
"""Maximum rounds of questions in one request of a client from before 2026-07-28."""

_SALT = "flask-jsonrpc-mcp.request-state"
_RETRY_MEMBERS = ("inputResponses", "requestState", "_meta")

T = TypeVar("T")
Ask = Callable[[Mapping[str, Question]], Mapping[str, Any]]
"""Asks the client, and returns its responses by key, or for each the `RpcError` that asking raised."""


def input_required(needed: InputNeeded, message: RpcRequest, context: RequestContext) -> dict[str, Any]:
    """Build an ``input_required`` result with a signed ``requestState``; the client retries with ``inputResponses``.

    :raises CannotAsk: if the app has no key to sign with.
    """
    if not context.app.secret_key:
        raise CannotAsk()
    asked = {key: question.digest for key, question in needed.questions.items()}
    state = [*_binding(message, context), asked, dict(context.answers.given), secrets.token_hex(8)]
    return {
        "resultType": "input_required",
        "inputRequests": {key: question_request(each, context.version) for key, each in needed.questions.items()},
        "requestState": signer(context.app, _SALT).dumps(state),
        "_meta": {SERVER_INFO: context.server_info},
    }


def with_answers(message: RpcRequest, context: RequestContext) -> RequestContext:
    """Add the ``inputResponses`` of a retried request to its context.

    :raises MalformedParams: if the ``requestState`` was altered, has expired, or is that of another request or caller.
    """
    params: Any = message.params
    responses, token = params.get("inputResponses"), params.get("requestState")
    if context.version != MODERN or (responses is None and token is None):
        return context
    if responses is not None and not isinstance(responses, dict):
        raise MalformedParams("params.inputResponses must be an object")
    if token is None:
        # Without a state it is unknown whether these were ever asked for; see Answers.given.
        return context._replace(answers=Answers({key: (None, response) for key, response in (responses or {}).items()}))
    try:
        digest, principal, blueprint, asked, given, state = load_signed(context.app, _SALT, token, answer_timeout())
    except (BadData, TypeError, ValueError, AttributeError) as error:
        raise MalformedParams("params.requestState was altered or has expired; send the request anew") from error
    if [digest, principal, blueprint] != _binding(message, context):
        raise MalformedParams("params.requestState belongs to another request")
    answered = {key: (asked[key], response) for key, response in (responses or {}).items() if key in asked}
    earlier = {key: (each[0], each[1]) for key, each in given.items()}
    return context._replace(answers=Answers({**earlier, **answered}, state))


def run_asking(run: Callable[[Answers], T], ask: Ask, needed: InputNeeded | None = None) -> T:
    """Run something again with the client's answers until it has no more questions.

    For clients from before 2026-07-28, which are asked while their request is open, and for the command line.

    :param needed: The questions of an earlier run.
    """
    answers = NO_ANSWERS
    for _ in range(MAX_ROUNDS):
        if needed is not None:
            answers = answers.with_responses(needed.questions, ask(needed.questions))
        try:
            return run(answers)
        except InputNeeded as more:
            needed = more
    raise RpcError(f"The client was asked {MAX_ROUNDS} times, and its answers did not fit the questions")


def _binding(message: RpcRequest, context: RequestContext) -> list[str]:
    """Return what a ``requestState`` is valid for: this request by this caller at this blueprint."""
    params: Any = message.params
    lasting = {name: value for name, value in params.items() if name not in _RETRY_MEMBERS}
    # Sorted, because a client may retry with the members in another order.
    digest = hashlib.sha256(json.dumps([message.method, lasting], sort_keys=True).encode()).hexdigest()
    return [digest, context.caller.principal, context.mount]
