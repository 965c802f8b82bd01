"""Sessions of clients from before 2026-07-28: what they negotiate, and what they send in other requests.

A client sends its responses to questions, its cancellations and its log level in requests of their own, which another
worker may receive. They go through the mailbox. Only responses to open questions are accepted: the id of a question is
signed, and the mailbox has an entry for it as long as it is open.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flask import Flask
from itsdangerous import BadData

from ..ask import Question
from ..envelope import VERSION, RpcRequest, is_id
from ..errors import InvalidRequest, MalformedParams, NoMailbox, RpcError
from ..levels import waiting_slot
from ..mailbox import answer_timeout, current_mailbox
from ..strict_json import write
from .protocol import LEGACY, LogLevel, Send, features_of, load_signed, require_id, signer
from .versions import question_request

CANCEL_MAX_AGE = 60
"""Seconds for which a cancellation is kept; a running call polls every second."""

LEVEL_MAX_AGE = 60 * 60
"""Seconds for which the log level of a session is kept. It is renewed when it is used."""

MAX_RESPONSE = 1 << 20
"""Maximum size of a response in bytes, because the mailbox keeps it."""

_QUESTION_SALT = "flask-jsonrpc-mcp.question"


class Session(NamedTuple):
    """What ``initialize`` negotiated."""

    version: str
    capabilities: frozenset[str]


def negotiate(message: RpcRequest) -> Session:
    """Read ``initialize``. The version is the client's if we support it, else our newest legacy one.

    :raises InvalidRequest, MalformedParams: if it is malformed.
    """
    require_id(message)
    if not message.wants_reply:
        raise InvalidRequest("initialize needs an id")
    params = message.params
    if not isinstance(params, dict) or not isinstance(params.get("protocolVersion"), str):
        raise MalformedParams("initialize needs params.protocolVersion")
    if not isinstance(params.get("capabilities"), dict) or not isinstance(params.get("clientInfo"), dict):
        raise MalformedParams("initialize needs params.capabilities and params.clientInfo")
    version = params["protocolVersion"] if params["protocolVersion"] in LEGACY else LEGACY[0]
    return Session(version, features_of(params["capabilities"], version))


@dataclass
class ClientReplies:
    """Responses, cancellations and the log level, which a client sends in other requests of its session.

    :param session_id: Empty if the app cannot sign session ids; then the client cannot be asked.
    """

    app: Flask
    session_id: str
    version: str
    _has_failed: bool = False

    @property
    def can_ask(self) -> bool:
        return bool(self.session_id) and current_mailbox().has_backend

    def ask(self, questions: Mapping[str, Question], send: Send, give_up: Callable[[], bool]) -> dict[str, Any]:
        """Send questions to the client, and wait for its responses.

        :param give_up: Called after each poll; waiting ends if it returns true.
        :returns: The responses by key, or for each question the `RpcError` that asking raised.
        """
        try:
            responses = self._send_and_wait(questions, send, give_up)
        except RpcError as error:
            return dict.fromkeys(questions, error)
        return {
            key: RpcError(response["failure"]) if "failure" in response else response["result"]
            for key, response in responses.items()
        }

    def deliver(self, response: Mapping[str, Any]) -> None:
        """Pass a response to the worker that waits for it. Any other response is ignored."""
        if not self.can_ask:
            return
        try:
            owner, _ = load_signed(self.app, _QUESTION_SALT, response["id"], answer_timeout())
        except (BadData, TypeError, ValueError, AttributeError):
            return
        mailbox = current_mailbox()
        if owner == self._owner and mailbox.get(_open_key(response["id"])) is not None:
            mailbox.put(_answer_key(response["id"]), _stored_response(response), answer_timeout())

    def cancel(self, request_id: Any) -> None:
        """Pass a cancellation to the worker that runs the request."""
        if self.can_ask and request_id is not None and is_id(request_id):
            current_mailbox().put(self._cancelled_key(request_id), True, CANCEL_MAX_AGE)

    def is_cancelled(self, request_id: Any) -> bool:
        return self.poll(lambda: current_mailbox().pop(self._cancelled_key(request_id))) is not None

    def poll(self, read: Callable[[], Any]) -> Any:
        """Read from the mailbox for a running method; ``None`` if that fails.

        The method must not fail, nor wait for a second timeout: after a failure nothing more is read for its request.
        """
        if not self.can_ask or self._has_failed:
            return None
        try:
            return read()
        except NoMailbox:
            self._has_failed = True
            return None

    def _send_and_wait(
        self, questions: Mapping[str, Question], send: Send, give_up: Callable[[], bool]
    ) -> dict[str, dict[str, Any]]:
        ids = {key: signer(self.app, _QUESTION_SALT).dumps([self._owner, secrets.token_hex(8)]) for key in questions}
        with waiting_slot(), _open_questions(ids.values()):
            for key, question in questions.items():
                send({"jsonrpc": VERSION, "id": ids[key], **question_request(question, self.version)})
            keys = [_answer_key(question_id) for question_id in ids.values()]
            responses = current_mailbox().wait_for(keys, answer_timeout(), give_up)
        if responses is None:
            raise RpcError("The client did not answer in time")
        return {key: responses[_answer_key(question_id)] for key, question_id in ids.items()}

    @property
    def _owner(self) -> str:
        """A hash of the session id, because the id of a question is not secret."""
        return hashlib.sha256(self.session_id.encode()).hexdigest()[:16]

    def _cancelled_key(self, request_id: Any) -> str:
        return f"cancelled {self.session_id} {request_id!r}"


@dataclass
class SessionLogLevel(LogLevel):
    """The log level of a session, kept in the mailbox because sessions have no other storage. Read once per request."""

    replies: ClientReplies = field(kw_only=True)
    _is_read: bool = False

    def get(self) -> str | None:
        if not self._is_read:
            self._is_read = True
            self.level = self.replies.poll(self._read)
        return self.level

    def set(self, level: str) -> None:
        if self.replies.can_ask:
            current_mailbox().put(self._key, [level, time.time()], LEVEL_MAX_AGE)

    def _read(self) -> str | None:
        level, stored = current_mailbox().get(self._key) or (None, 0)
        if level is not None and time.time() - stored > LEVEL_MAX_AGE / 2:
            self.set(level)
        return level

    @property
    def _key(self) -> str:
        return f"level {self.replies.session_id}"


@contextmanager
def _open_questions(question_ids: Collection[str]) -> Iterator[None]:
    """Accept responses to questions. Entered before they are sent, because a response may arrive at once."""
    mailbox = current_mailbox()
    for question_id in question_ids:
        mailbox.put(_open_key(question_id), True, answer_timeout() + 1)
    try:
        yield
    finally:
        mailbox.delete([*map(_open_key, question_ids), *map(_answer_key, question_ids)])


def _open_key(question_id: str) -> str:
    return f"question {question_id}"


def _answer_key(question_id: str) -> str:
    return f"answer {question_id}"


def _stored_response(response: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in response:
        return {"failure": "The client refused: it answered the question with an error"}
    if len(write(response["result"])) > MAX_RESPONSE:
        return {"failure": f"The client's answer is larger than {MAX_RESPONSE} bytes"}
    return {"result": response["result"]}
