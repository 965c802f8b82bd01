"""What a method may ask the client that called it: a form or a link for its person, its model, its folders.

A question is asked by ending the call and running the method again once there is an answer. So an answer must find its
question again: by its key, and by a digest of what was asked, because a form that has changed meanwhile is another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from .content import PromptMessage, messages_of
from .errors import InvalidParams, RpcError
from .schema.forms import compile_form
from .strict_json import to_plain, write
from .values import Value

ACTIONS = ("accept", "decline", "cancel")

CONFIRM_KEY = "confirm"
"""The key of the question that is put before a method runs at all."""
SENT_TO_MODELS = ("text", "image", "audio")
"""The kinds of content that a client's model can be asked with; resources are for its person."""


class CannotAsk(RpcError):
    """The server has no way to ask."""

    default_message = "This server cannot ask: its SECRET_KEY is not set"


class UnusableAnswer(Exception):
    """What came back is no answer to the question."""


class Question:
    """Something to ask a client. Use one of the classes below.

    :param feature: What the client must be able to do.
    :param method: The request that asks it.
    """

    feature: ClassVar[str]
    method: ClassVar[str]

    @property
    def params(self) -> dict[str, Any]:
        """The params of the request, as 2026-07-28 spells them."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """What tells this question from any other."""
        return hashlib.sha256(write([self.method, self.params])).hexdigest()[:32]

    def read(self, response: Any) -> Any:
        """Read what the client answered.

        :raises UnusableAnswer: when it is none.
        """
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Question) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.params})"


@dataclass(eq=False, repr=False)
class Elicited(Value):
    """What a person answered.

    :param action: ``accept``, ``decline``, or ``cancel`` when they only closed the form.
    :param content: What they filled in, loaded as the form says; ``None`` unless they accepted.
    """

    action: str
    content: Any = None

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


class Elicit(Question):
    """Ask the person at the client to fill in a form.

    :param message: Why, and what for.
    :param schema: A dict of type hints by name, a dataclass, a TypedDict, a marshmallow schema or a JSON Schema; flat,
        because forms are. Without one the person only accepts or declines.
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
    """Ask the person at the client to open a page, for what must not pass through the client.

    An ``accept`` says that they agreed to, not that they are done there.
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


@dataclass(eq=False, repr=False)
class Sampled(Value):
    """What the client's model answered.

    :param text: Its texts, in one piece.
    :param content: Its content blocks, as MCP spells them.
    """

    text: str
    content: list[dict[str, Any]]
    model: str
    stop_reason: str | None = None


class Sample(Question):
    """Ask the client's model.

    :param messages: A text, or messages of both roles.
    :param max_tokens: How much it may answer at most.
    :param options: What else MCP knows: ``temperature``, ``stopSequences``, ``modelPreferences``, ``metadata``.
    """

    feature = "sampling"
    method = "sampling/createMessage"

    def __init__(
        self,
        messages: str | PromptMessage | Sequence[str | PromptMessage],
        max_tokens: int = 1000,
        system_prompt: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.messages = messages
        self.max_tokens = max_tokens
        self.system_prompt = system_prompt
        self.options = {} if options is None else options

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = {"messages": messages_of(self.messages)}
        for message in params["messages"]:
            if message["content"]["type"] not in SENT_TO_MODELS:
                raise TypeError(f"a model can be sent texts, pictures and sounds, not a {message['content']['type']}")
        if self.system_prompt is not None:
            params["systemPrompt"] = self.system_prompt
        return {**params, **to_plain(self.options), "maxTokens": self.max_tokens}

    def read(self, response: Any) -> Sampled:
        if not isinstance(response, Mapping) or not isinstance(response.get("model"), str):
            raise UnusableAnswer("not the message of a model")
        content = response.get("content")
        blocks: list[Any] = content if isinstance(content, list) else [content]
        if not blocks or not all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in blocks):
            raise UnusableAnswer("content must be content blocks")
        texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
        reason = response.get("stopReason")
        return Sampled("".join(texts), blocks, response["model"], reason if isinstance(reason, str) else None)


@dataclass(eq=False, repr=False)
class Root(Value):
    """A folder that the client's person works in."""

    uri: str
    name: str | None = None


class ListRoots(Question):
    """Ask the client for the folders that its person works in."""

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
    """What a client has answered so far, by the keys of the questions.

    :param given: Each answer, with the digest of its question; ``None`` when nobody can vouch that it was ever put.
    :param state: What names the round of questions that the last of them came back with, where a client brings them by
        itself and could do so again.
    """

    given: Mapping[str, tuple[str | None, Any]]
    state: str | None = None

    @property
    def are_to_the_method(self) -> bool:
        """Whether the method has run before, and asked for certain what one of them is an answer to."""
        if not self.given:
            return False
        return any(digest is not None for key, (digest, _) in self.given.items() if key != CONFIRM_KEY)

    def to(self, key: str, question: Question, *, vouched: bool = False) -> Any:
        """Find the answer to a question.

        :param vouched: It must be certain that this very question was put to the client.
        :raises UnusableAnswer: when there is none, or none that can be read.
        :raises RpcError: when the client could not be asked.
        """
        if key not in self.given:
            raise UnusableAnswer("no answer yet")
        digest, response = self.given[key]
        if digest != question.digest and (vouched or digest is not None):
            raise UnusableAnswer("an answer to another question")
        if isinstance(response, RpcError):
            raise response
        return question.read(response)

    def with_responses(self, questions: Mapping[str, Question], responses: Mapping[str, Any]) -> Answers:
        """Add what a client answered to questions that were put to it, or the `RpcError` that came of asking."""
        added = {key: (question.digest, responses[key]) for key, question in questions.items() if key in responses}
        return Answers({**self.given, **added})


NO_ANSWERS = Answers({})


class InputNeeded(BaseException):
    """Ends a run of a method that needs answers first. No error: it must pass through ``except Exception``."""

    def __init__(self, questions: Mapping[str, Question]) -> None:
        super().__init__(", ".join(questions))
        self.questions = dict(questions)


def _checked_text(role: str, text: str) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the {role} of a question must be a str, not {type(text).__name__}")
    return text


def _read_action(response: Any) -> Elicited:
    if not isinstance(response, Mapping) or response.get("action") not in ACTIONS:
        raise UnusableAnswer("action must be accept, decline or cancel")
    return Elicited(response["action"])
