"""Sessions of clients from before 2026-07-28, without a session store.

``Mcp-Session-Id`` is a signed token with the negotiated version, the client's capabilities and its owner, so every
worker of every machine can verify it. It does not authenticate: each request is authenticated by itself, and must have
the same caller.

A client sends its responses to questions, its cancellations and its log level in requests of their own, which another
worker may receive. They go through the mailbox. Only responses to open questions are accepted: the id of a question is
signed, and the mailbox has an entry for it as long as it is open.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flask import Flask
from itsdangerous import BadData, SignatureExpired, URLSafeTimedSerializer

from ..ask import Question
from ..envelope import VERSION, RpcRequest, is_id
from ..errors import InvalidRequest, MalformedParams, RpcError, SessionNotFound
from ..mailbox import NoMailbox, answer_timeout, current_mailbox
from ..strict_json import write
from .protocol import LEGACY, LogLevel, RequestContext, Send, features_of, require_id
from .streams import waiting_slot
from .versions import question_request

LEEWAY = 60
"""Seconds by which the clocks of two machines may differ."""

CANCEL_MAX_AGE = 60
"""Seconds for which a cancellation is kept; a running call polls every second."""

LEVEL_MAX_AGE = 60 * 60
"""Seconds for which the log level of a session is kept. It is renewed when it is used."""

MAX_RESPONSE = 1 << 20
"""Maximum size of a response in bytes, because the mailbox keeps it."""

_QUESTION_SALT = "flask-jsonrpc-mcp.question"
_SALT = "flask-jsonrpc-mcp.session"
_WARNED = "jsonrpc_mcp_warned_of_no_secret_key"


@dataclass(frozen=True)
class Session:
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


def can_sign(app: Flask) -> bool:
    """Whether the app can sign session ids. Without a key clients are served without sessions, as MCP allows."""
    if app.secret_key:
        return True
    if _WARNED not in app.extensions:
        app.extensions[_WARNED] = True
        app.logger.warning(
            "SECRET_KEY is not set, so MCP clients from before 2026-07-28 get no session, and methods cannot ask them"
            " anything; set it, the same for all workers",
            extra={"setting": "SECRET_KEY"},
        )
    return False


def make_id(session: Session, context: RequestContext) -> str:
    """Build the id of a session."""
    owner = [context.caller.principal, context.mount()]
    content = [session.version, sorted(session.capabilities), *owner, secrets.token_hex(8)]
    return signer(context.app, _SALT).dumps(content)


def read_id(token: str, context: RequestContext) -> Session:
    """Verify the id of a session.

    :raises SessionNotFound: if it was altered, has expired, or is another caller's.
    """
    try:
        session, owner, issued = _load(token, signer(context.app, _SALT))
        check_age(issued, context.setting("SESSION_MAX_AGE"))
    except (BadData, TypeError, ValueError) as error:  # the last two for the format of another release
        raise SessionNotFound() from error
    if owner != (context.caller.principal, context.mount()):
        raise SessionNotFound()
    return session


def load_signed(app: Flask, salt: str, token: Any, max_age: int) -> Any:
    """Return what was signed for one purpose at most ``max_age`` seconds ago.

    :raises BadData: if it was altered or has expired.
    """
    content, issued = signer(app, salt).loads(token, return_timestamp=True)
    check_age(issued.timestamp(), max_age)
    return content


def check_age(issued: float, max_age: int) -> None:
    """Check the age of something signed, with a leeway for machines whose clocks differ.

    :raises SignatureExpired: if it is too old, or from the future.
    """
    age = time.time() - issued
    if not -LEEWAY <= age <= max_age:
        raise SignatureExpired(f"the age is {age:.0f} seconds")


def signer(app: Flask, salt: str) -> URLSafeTimedSerializer:
    """Return the serializer that signs for one purpose. The fallback keys verify, but do not sign."""
    return _serializer(salt, (*(app.config.get("SECRET_KEY_FALLBACKS") or ()), app.secret_key))


@functools.lru_cache(maxsize=32)
def _serializer(salt: str, keys: tuple[str | bytes | None, ...]) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(list(keys), salt=salt)  # type: ignore[arg-type]


# Cached, because a client sends the same id with every request.
@functools.lru_cache(maxsize=1024)
def _load(token: str, serializer: URLSafeTimedSerializer) -> tuple[Session, tuple[str, str], int]:
    (version, capabilities, principal, blueprint, _), issued = serializer.loads(token, return_timestamp=True)
    return Session(version, frozenset(capabilities)), (principal, blueprint), int(issued.timestamp())


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


class SessionLogLevel(LogLevel):
    """The log level of a session, kept in the mailbox because sessions have no other storage. Read once per request."""

    def __init__(self, replies: ClientReplies) -> None:
        super().__init__()
        self._replies = replies
        self._is_read = False

    def get(self) -> str | None:
        if not self._is_read:
            self._is_read = True
            self.level = self._replies.poll(self._read)
        return self.level

    def set(self, level: str) -> None:
        if self._replies.can_ask:
            current_mailbox().put(self._key, [level, time.time()], LEVEL_MAX_AGE)

    def _read(self) -> str | None:
        level, stored = current_mailbox().get(self._key) or (None, 0)
        if level is not None and time.time() - stored > LEVEL_MAX_AGE / 2:
            self.set(level)
        return level

    @property
    def _key(self) -> str:
        return f"level {self._replies.session_id}"


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
