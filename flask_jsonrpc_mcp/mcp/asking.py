"""Questions to a client, and how its answers find the way back to the method: the same method in both eras.

Since 2026-07-28 a request that has questions ends with them and with a signed state, and the client sends it again with
its answers. Before, the client answers while the request is open. Either way the method runs again from its beginning.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from itsdangerous import BadData

from ..current import this_app
from ..envelope import Request
from ..errors import MalformedParams, RpcError
from ..mailbox import answer_timeout
from ..questions import NO_ANSWERS, Answers, CannotAsk, InputNeeded, Question
from . import protocol
from .session import Session
from .signing import signer
from .spelling import downgrade_block

MAX_ROUNDS = 20
"""How often one request of an older client may ask before we take it that its answers will never do."""

_SALT = "flask-jsonrpc-mcp.request-state"
_RETRY = ("inputResponses", "requestState", "_meta")

T = TypeVar("T")


def spell_question(question: Question, version: str) -> dict[str, Any]:
    """Spell a question as a request of a version, but for its id."""
    params = question.params
    if version != protocol.MODERN and "mode" in params:
        if params["mode"] == "form":
            del params["mode"]  # there was nothing else to tell it from
        else:
            params["elicitationId"] = secrets.token_hex(16)
    for message in params.get("messages", ()):
        message["content"] = downgrade_block(message["content"], version)
    return {"method": question.method, "params": params} if params else {"method": question.method}


def input_required(session: Session, request: Request, needed: InputNeeded) -> dict[str, Any]:
    """End a request with questions. Whoever sends it again with the answers gets on from there.

    :raises RpcError: when the app has no key to sign with.
    """
    if not this_app().secret_key:
        raise CannotAsk()
    asked = {key: question.digest for key, question in needed.questions.items()}
    binding = [_digest(request), session.caller.principal, session.audience]
    state = [*binding, asked, dict(session.answers.given), secrets.token_hex(8)]
    return {
        "inputRequests": {key: spell_question(each, session.version) for key, each in needed.questions.items()},
        "requestState": signer(_SALT).dumps(state),
    }


def read_answers(request: Request, principal: str, audience: str) -> Answers:
    """Read what a client answers with a request that it sends again.

    :raises MalformedParams: when its state was altered, has expired, or is that of another request or caller.
    """
    params: Any = request.params
    responses, token = params.get("inputResponses"), params.get("requestState")
    if responses is None and token is None:
        return NO_ANSWERS
    if responses is not None and not isinstance(responses, dict):
        raise MalformedParams("params.inputResponses must be an object")
    if token is None:
        # Nobody can tell whether these were ever asked for; see Answers.
        return Answers({key: (None, response) for key, response in (responses or {}).items()})
    digest, asked_of, intended, asked, given, name = _opened(token)
    if (digest, asked_of, intended) != (_digest(request), principal, audience):
        raise MalformedParams("params.requestState belongs to another request")
    answered = {key: (asked[key], response) for key, response in (responses or {}).items() if key in asked}
    return Answers({**{key: (each[0], each[1]) for key, each in given.items()}, **answered}, name)


def answer_by_asking(
    run: Callable[[Answers], T],
    ask: Callable[[Mapping[str, Question]], Mapping[str, Any]],
    needed: InputNeeded | None = None,
) -> T:
    """Run something again and again, with what the client answers to its questions.

    :param ask: Puts questions to the client; returns its responses by key, or the `RpcError` that came of it.
    :param needed: What an earlier run has asked for already.
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


def _opened(token: Any) -> Any:
    try:
        return signer(_SALT).loads(token, max_age=answer_timeout())
    except (BadData, TypeError, AttributeError) as error:
        raise MalformedParams("params.requestState was altered or has expired; send the request anew") from error


def _digest(request: Request) -> str:
    """What tells this request from any other, however often it is sent again."""
    params: Any = request.params
    what = {name: value for name, value in params.items() if name not in _RETRY}
    # Sorted, because a client may spell the same request in another order.
    return hashlib.sha256(json.dumps([request.method, what], sort_keys=True).encode()).hexdigest()
