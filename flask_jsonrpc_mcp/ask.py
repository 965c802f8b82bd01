"""Questions to the client that called a method: a form, a URL, its model, its roots.

Asking ends the call and runs the method again with the answer. An answer belongs to a question by its key and by a
digest of the question, because a form may have changed in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from .content import PromptMessage, messages_of
from .errors import InvalidParams, MalformedParams, RpcError
from .schema.forms import compile_form
from .strict_json import is_lazy, to_plain, write

ACTIONS = ("accept", "decline", "cancel")

CONFIRM_KEY = "confirm"
"""The key of the question that ``confirm=`` asks before a method runs."""

MAX_ROUNDS = 20
"""Maximum rounds of questions in one call."""

MAX_ANSWERS = 1 << 20
"""Maximum bytes of all answers to one call."""

SAMPLING_CONTENT = ("text", "image", "audio")
"""The types of content blocks that ``sampling/createMessage`` takes."""


class UnusableAnswer(Exception):
    """There is no answer to the question, or none that fits it."""


class Question:
    """A question to the client. Use one of the subclasses.

    :param feature: The client capability it needs.
    :param method: The MCP request that asks it.
    """

    feature: ClassVar[str]
    method: ClassVar[str]

    @property
    def params(self) -> dict[str, Any]:
        """The params of the request, in the form of 2026-07-28."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """Identifies the question."""
        return hashlib.sha256(write([self.method, self.params])).hexdigest()[:32]

    def read(self, response: Any) -> Any:
        """Convert the client's response to an answer.

        :raises UnusableAnswer: if it does not fit the question.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.params})"


@dataclass(frozen=True)
class Elicited:
    """The answer to a form or URL.

    :param action: ``accept``, ``decline``, or ``cancel`` if the form was closed.
    :param content: The values of the form, loaded by its schema; ``None`` unless accepted.
    """

    action: str
    content: Any = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Elicit(Question):
    """Ask the user to fill in a form.

    :param message: Shown above the form.
    :param schema: A dict of type hints by name, a dataclass, a TypedDict, a marshmallow schema or a JSON Schema, not
        nested. Without one the user only accepts or declines.
    """

    feature = "elicitation"
    method = "elicitation/create"

    def __init__(self, message: str, schema: Any = None) -> None:
        self.message = _checked_text("message", message)
        self.schema = {} if schema is None else schema
        self._form = compile_form(self.schema)

    @property
    def params(self) -> dict[str, Any]:
        return {"mode": "form", "message": self.message, "requestedSchema": self._form.shown}

    def read(self, response: Any) -> Elicited:
        answer = _read_action(response)
        if not answer.accepted:
            return answer
        content = response.get("content")
        content = {} if content is None else content
        if not isinstance(content, Mapping):
            raise UnusableAnswer("content must be an object")
        try:
            return Elicited(answer.action, self._form.read(content))
        except InvalidParams as error:
            raise UnusableAnswer(error.message) from error


class ElicitUrl(Question):
    """Ask the user to open a URL, for input that must not pass through the client.

    ``accept`` means that the user agreed to open it, not that they have finished there.
    """

    feature = "elicitation.url"
    method = "elicitation/create"

    def __init__(self, message: str, url: str) -> None:
        self.message = _checked_text("message", message)
        self.url = _checked_text("url", url)

    @property
    def params(self) -> dict[str, Any]:
        return {"mode": "url", "message": self.message, "url": self.url}

    def read(self, response: Any) -> Elicited:
        return _read_action(response)


@dataclass(frozen=True)
class Sampled:
    """The answer of the client's model.

    :param text: Its text blocks, joined.
    :param content: Its content blocks, as MCP defines them.
    """

    text: str
    content: list[dict[str, Any]]
    model: str
    stop_reason: str | None = None


@dataclass(eq=False, repr=False)
class Sample(Question):
    """Ask the client's model.

    :param messages: A string, or messages of both roles.
    :param max_tokens: Maximum number of tokens to sample.
    :param options: Other members of MCP: ``temperature``, ``stopSequences``, ``modelPreferences``, ``metadata``.
    """

    feature = "sampling"
    method = "sampling/createMessage"

    messages: str | PromptMessage | Sequence[str | PromptMessage]
    max_tokens: int = 1000
    system_prompt: str | None = None
    options: Mapping[str, Any] | None = None

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = {"messages": messages_of(self.messages)}
        for message in params["messages"]:
            if message["content"]["type"] not in SAMPLING_CONTENT:
                raise TypeError(f"sampling takes text, image and audio content, not {message['content']['type']}")
        if self.system_prompt is not None:
            params["systemPrompt"] = self.system_prompt
        return {**params, **to_plain(self.options or {}), "maxTokens": self.max_tokens}

    def read(self, response: Any) -> Sampled:
        if not isinstance(response, Mapping) or not isinstance(response.get("model"), str):
            raise UnusableAnswer("not a sampling result")
        content = response.get("content")
        blocks: list[Any] = content if isinstance(content, list) else [content]
        if not blocks or not all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in blocks):
            raise UnusableAnswer("content must be content blocks")
        texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
        reason = response.get("stopReason")
        return Sampled("".join(texts), blocks, response["model"], reason if isinstance(reason, str) else None)


@dataclass(frozen=True)
class Root:
    """A root (folder) of the client's workspace."""

    uri: str
    name: str | None = None


class ListRoots(Question):
    """Ask the client for its roots."""

    feature = "roots"
    method = "roots/list"

    @property
    def params(self) -> dict[str, Any]:
        return {}

    def read(self, response: Any) -> list[Root]:
        listed = response.get("roots") if isinstance(response, Mapping) else None
        if not isinstance(listed, list) or not all(
            isinstance(root, Mapping) and isinstance(root.get("uri"), str) for root in listed
        ):
            raise UnusableAnswer("not a list of roots")
        return [Root(root["uri"], name if isinstance(name := root.get("name"), str) else None) for root in listed]


class Answers(NamedTuple):
    """The client's answers so far, by the keys of their questions.

    :param by_key: Each response with the digest of its question; without a digest if it came without a signed state.
    :param rounds: How often the client was asked in this call.
    :param has_run: Whether the method has run in this call; not if only ``confirm=`` has asked.
    """

    by_key: Mapping[str, tuple[str | None, Any]]
    rounds: int = 0
    has_run: bool = False

    def get(self, key: str, question: Question, *, signed: bool = False) -> Any:
        """Return the answer to a question.

        :param signed: Accept only an answer whose question is known from a signed state.
        :raises UnusableAnswer: if there is no answer, or none that fits the question.
        :raises RpcError: if the client could not be asked.
        """
        if key not in self.by_key:
            raise UnusableAnswer("no answer yet")
        digest, response = self.by_key[key]
        if digest != question.digest and (signed or digest is not None):
            raise UnusableAnswer("an answer to another question")
        if isinstance(response, RpcError):
            raise response
        return question.read(response)

    def add(self, needed: InputNeeded, responses: Mapping[str, Any]) -> Answers:
        """Return these answers with more responses, or the `RpcError` that asking a question raised."""
        # A missing response becomes null, which fits no question, so it is asked again.
        added = {key: (question.digest, responses.get(key)) for key, question in needed.questions.items()}
        return Answers({**self.by_key, **added}, self.rounds + 1, self.has_run or needed.has_run)

    def check_rounds(self) -> None:
        """Check that the client may be asked again.

        :raises RpcError: if it was asked too often.
        """
        if self.rounds >= MAX_ROUNDS:
            raise RpcError(f"The client was asked {MAX_ROUNDS} times, and its answers did not fit the questions")

    def check_size(self) -> None:
        """Check that the answers can be kept.

        :raises MalformedParams: if they are too long.
        """
        if len(write(self.by_key)) > MAX_ANSWERS:
            raise MalformedParams(f"the answers of one call have more than {MAX_ANSWERS} bytes")


NO_ANSWERS = Answers({})


class InputNeeded(BaseException):
    """Ends the run of a method that needs answers. A method's ``except Exception`` does not catch it.

    :param has_run: Whether the method asks, rather than ``confirm=`` before it.
    """

    def __init__(self, questions: Mapping[str, Question], *, has_run: bool) -> None:
        super().__init__(", ".join(questions))
        self.questions = dict(questions)
        self.has_run = has_run
        self.suspended: dict[Any, Any] = {}
        """What the hooks of `Registry.around_requests` keep until the request goes on with the answers."""


def _checked_text(role: str, text: str) -> str:
    if is_lazy(text):
        return str(text)
    if not isinstance(text, str):
        raise TypeError(f"the {role} of a question must be a str, not {type(text).__name__}")
    return text


def _read_action(response: Any) -> Elicited:
    if not isinstance(response, Mapping) or response.get("action") not in ACTIONS:
        raise UnusableAnswer("action must be accept, decline or cancel")
    return Elicited(response["action"])
