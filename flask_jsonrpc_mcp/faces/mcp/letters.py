"""What reaches an open request of an older client by another one: answers to questions, and that it is given up.

The other request may be served by any worker, so it goes by the mailbox. Only answers to questions that we have put are
taken, and only while someone waits for them: the id of a question is signed, and as long as it is open there is a mark.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from itsdangerous import BadData

from ...calls import Cancellation
from ...envelope import VERSION
from ...errors import RpcError
from ...mailbox import NoMailbox, answer_timeout, current_mailbox
from ...mcp.asking import spell_question
from ...mcp.session import Send
from ...mcp.signing import signer
from ...questions import Question
from ...strict_json import write

CANCEL_MAX_AGE = 60
"""For how many seconds it is known that a request was given up; a stream looks every second."""

LEVEL_MAX_AGE = 60 * 60
"""For how many seconds it is known what a session wants to see of the log; a look in the second half renews it."""

MAX_ANSWER = 1 << 20
"""How many bytes of JSON an answer may have: it lies in the mailbox until it is taken."""

_SALT = "flask-jsonrpc-mcp.question"


class Letters(NamedTuple):
    """The letters of one session.

    :param token: Its id; empty when there are no sessions, and so no letters.
    """

    token: str
    version: str

    @property
    def are_possible(self) -> bool:
        return bool(self.token) and current_mailbox().is_possible

    def ask(
        self, questions: Mapping[str, Question], send: Send, cancellation: Cancellation
    ) -> dict[str, dict[str, Any] | RpcError]:
        """Put questions to the client, and wait for its answers.

        :returns: Its responses by key; where it could not be asked, the error that says so.
        """
        try:
            letters = self._exchange(questions, send, cancellation)
        except RpcError as error:
            return dict.fromkeys(questions, error)
        return {key: _read(letter) for key, letter in letters.items()}

    def deliver(self, response: Mapping[str, Any]) -> None:
        """Leave an answer for whoever waits for it."""
        if not self.are_possible:
            return
        try:
            asked_of = signer(_SALT).loads(response["id"], max_age=answer_timeout())
        except (BadData, TypeError, AttributeError):
            return  # nothing that we have asked
        mailbox = current_mailbox()
        if asked_of[0] == self._owner and mailbox.look(_mark_of(response["id"])) is not None:
            mailbox.put(_answer_to(response["id"]), _as_letter(response), answer_timeout())

    def cancel(self, request_id: Any) -> None:
        """Let an open request know that its client has given it up."""
        if self.are_possible and isinstance(request_id, (str, int)):
            current_mailbox().put(self._cancelled(request_id), True, CANCEL_MAX_AGE)

    def is_cancelled(self, request_id: Any) -> bool:
        if not self.are_possible:
            return False
        try:
            return current_mailbox().take(self._cancelled(request_id)) is not None
        except NoMailbox:
            return False

    def _exchange(
        self, questions: Mapping[str, Question], send: Send, cancellation: Cancellation
    ) -> dict[str, dict[str, Any]]:
        mailbox = current_mailbox()
        ids = {key: signer(_SALT).dumps([self._owner, secrets.token_hex(8)]) for key in questions}
        with mailbox.place_to_wait(), _marked_as_open(ids.values()):
            for key, question in questions.items():
                send({"jsonrpc": VERSION, "id": ids[key], **spell_question(question, self.version)})
            letters = mailbox.wait_for(map(_answer_to, ids.values()), answer_timeout(), lambda: cancellation.requested)
        if letters is None:
            raise RpcError("The client did not answer in time")
        return {key: letters[_answer_to(question_id)] for key, question_id in ids.items()}

    @property
    def _owner(self) -> str:
        """The session, in a few characters: an id is sent in the open."""
        return hashlib.sha256(self.token.encode()).hexdigest()[:16]

    def _cancelled(self, request_id: Any) -> str:
        return f"cancelled {self.token} {request_id!r}"


class SessionLogLevel(NamedTuple):
    """What a session wants to see of the log of methods, kept in the mailbox: sessions have no other memory.

    A letter is the level, and when it was left. Anyone may leave some, so they live shorter than sessions, but those
    that are needed are renewed.
    """

    token: str

    def get(self) -> str | None:
        mailbox = current_mailbox()
        if not self.token or not mailbox.is_possible:
            return None
        try:
            level, left = mailbox.look(self._key) or (None, 0)
            if level is not None and time.time() - left > LEVEL_MAX_AGE / 2:
                self.set(level)
        except NoMailbox:
            return None  # no reason for a method to fail that has something to tell
        return level

    def set(self, level: str) -> None:
        mailbox = current_mailbox()
        if self.token and mailbox.is_possible:
            mailbox.put(self._key, [level, time.time()], LEVEL_MAX_AGE)

    @property
    def _key(self) -> str:
        return f"level {self.token}"


@contextmanager
def _marked_as_open(question_ids: Collection[str]) -> Iterator[None]:
    """Let answers to questions be taken. Before the questions are put: nobody is asked whose answer cannot reach us."""
    mailbox = current_mailbox()
    for question_id in question_ids:
        # A second more than we wait: files expire at whole seconds.
        mailbox.put(_mark_of(question_id), True, answer_timeout() + 1)
    try:
        yield
    finally:
        # The marks first, so that no answer comes after.
        mailbox.discard([*map(_mark_of, question_ids), *map(_answer_to, question_ids)])


def _mark_of(question_id: str) -> str:
    return f"question {question_id}"


def _answer_to(question_id: str) -> str:
    return f"answer {question_id}"


def _as_letter(response: Mapping[str, Any]) -> dict[str, Any]:
    if "error" in response:
        return {"failure": "The client refused: it answered the question with an error"}
    if len(write(response["result"])) > MAX_ANSWER:
        return {"failure": f"The client's answer is larger than {MAX_ANSWER} bytes"}
    return {"result": response["result"]}


def _read(letter: Mapping[str, Any]) -> Any:
    return RpcError(letter["failure"]) if "failure" in letter else letter["result"]
