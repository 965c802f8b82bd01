"""Ask the client and run the method again with its answers, in both eras.

Since 2026-07-28 a request that needs input ends with an ``input_required`` result and a signed ``requestState``; the
client retries it with ``inputResponses``. Before, the server sends a request of its own while the client's request is
open. Either way the method runs again from its beginning.

A state is valid once: the mailbox has an entry for it until it is used. If the entry is lost, the state counts as used,
so a lost entry can never make a method run twice.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from itsdangerous import BadData

from ..ask import NO_ANSWERS, Answers, InputNeeded, Question
from ..auth import Caller
from ..envelope import RpcRequest
from ..errors import CannotAsk, MalformedParams, NoMailbox
from ..mailbox import answer_timeout, current_mailbox
from ..registry import QuestionHook
from .protocol import MODERN, SERVER_INFO, RequestContext, load_signed, signer
from .versions import question_request

_SALT = "flask-jsonrpc-mcp.request-state"
_RETRY_MEMBERS = ("inputResponses", "requestState", "_meta")

T = TypeVar("T")
Ask = Callable[[Mapping[str, Question]], Mapping[str, Any]]
"""Asks the client, and returns its responses by key, or for each the `RpcError` that asking raised."""


def input_required(needed: InputNeeded, message: RpcRequest, context: RequestContext) -> dict[str, Any]:
    """Build an ``input_required`` result with a signed ``requestState``; the client retries with ``inputResponses``.

    :raises CannotAsk: if the app has no key to sign with.
    :raises NoMailbox: if the mailbox cannot be reached.
    :raises RpcError: if the client was asked too often.
    """
    if not context.app.secret_key:
        raise CannotAsk()
    context.answers.check_rounds()
    entry = _entry_key(context.caller)
    current_mailbox().put(entry, True, answer_timeout())
    answers = context.answers.add(needed, {})
    state = [_binding(message, context), entry, dict(answers.by_key), answers.rounds, answers.has_run]
    return {
        "resultType": "input_required",
        "inputRequests": {key: question_request(each, context.version) for key, each in needed.questions.items()},
        "requestState": signer(context.app, _SALT).dumps(state),
        "_meta": {SERVER_INFO: context.server_info},
    }


def with_answers(message: RpcRequest, context: RequestContext) -> RequestContext:
    """Add the ``inputResponses`` of a retried request to its context.

    :raises MalformedParams: if the ``requestState`` was altered, has expired, was used, or is that of another request
        or caller.
    :raises NoMailbox: if the mailbox cannot be reached.
    """
    params: Any = message.params
    responses, token = params.get("inputResponses"), params.get("requestState")
    if context.version != MODERN or (responses is None and token is None):
        return context
    responses = {} if responses is None else responses
    if not isinstance(responses, dict):
        raise MalformedParams("params.inputResponses must be an object")
    if token is None:
        # Without a state it is unknown whether the server asked for these; see Answers.by_key.
        unsigned = Answers({key: (None, each) for key, each in responses.items()})
        unsigned.check_size()
        return context._replace(answers=unsigned)
    try:
        binding, entry, earlier, rounds, has_run = load_signed(context.app, _SALT, token, answer_timeout())
    except (BadData, TypeError, ValueError, AttributeError) as error:
        raise MalformedParams("params.requestState was altered or has expired; send the request anew") from error
    if binding != _binding(message, context):
        raise MalformedParams("params.requestState belongs to another request")
    # In the state, an open question has the answer null.
    given = {key: (digest, responses.get(key) if each is None else each) for key, (digest, each) in earlier.items()}
    answers = Answers(given, rounds, has_run)
    answers.check_size()
    try:
        is_open = current_mailbox().pop(entry) is not None
    except NoMailbox as error:
        raise NoMailbox("Not run: this server cannot reach its mailbox, which has its questions; try again") from error
    if not is_open:
        raise MalformedParams("params.requestState was answered before or has expired; send the request anew")
    return context._replace(answers=answers)


def run_asking(
    run: Callable[[Answers], T], ask: Ask, needed: InputNeeded | None = None, *, around: Iterable[QuestionHook] = ()
) -> T:
    """Call ``run`` again with the client's answers until it has no more questions.

    For clients from before 2026-07-28, which are asked while their request is open, and for the command line.

    :param needed: The questions of an earlier run.
    :param around: Functions that call ``ask``, such as to measure how long it takes.
    """
    for hook in around:
        ask = partial(hook, ask)
    answers = NO_ANSWERS
    while True:
        if needed is not None:
            answers = answers.add(needed, ask(needed.questions))
        try:
            return run(answers)
        except InputNeeded as more:
            answers.check_rounds()
            needed = more


def _entry_key(caller: Caller) -> str:
    """Return the mailbox key of a new state. Its kind, and so its limit, is that of the caller."""
    owner = caller.principal or f"address:{caller.address}"
    return f"state-{hashlib.sha256(owner.encode()).hexdigest()[:16]} {secrets.token_hex(16)}"


def _binding(message: RpcRequest, context: RequestContext) -> str:
    """Return a hash of what a ``requestState`` is valid for: this request by this caller at this blueprint."""
    params: Any = message.params
    lasting = {name: value for name, value in params.items() if name not in _RETRY_MEMBERS}
    # Sorted, because a client may retry with the members in another order.
    bound = [message.method, lasting, context.caller.principal, context.mount()]
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()
