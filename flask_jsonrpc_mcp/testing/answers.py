"""Answers to what a running method asks: ``elicit``, ``sample`` and ``roots``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Question = Mapping[str, Any]
"""What a method asks, as the server sends it: ``{"method": "elicitation/create", "params": {...}}``."""

Answers = Mapping[str, Any] | Callable[[str, Question], Any] | None
"""An answer for each key, or a function that gets the key and the question; ``None`` is no answer."""

ACTIONS = ("accept", "decline", "cancel")


def find_answer(answers: Answers, key: str, question: Question) -> dict[str, Any] | None:
    """Find the answer to a question and spell it as a client does; ``None`` when there is none.

    A form is answered by a dict of its fields, or by ``"decline"`` or ``"cancel"``; a sampling by the text that the
    model writes; the roots by a list of URIs. What is spelled already stays as it is.
    """
    answer = answers(key, question) if callable(answers) else (answers or {}).get(key)
    if answer is None:
        return None
    return _SPELLINGS[question["method"]](answer)


def describe_question(key: str, question: Question) -> str:
    """Say what is asked, for whoever forgot to answer."""
    said = question.get("params", {}).get("message")
    return f"{key!r} ({question['method']}{f': {said}' if said else ''})"


def advise(answers: Answers, key: str, question: Question) -> str:
    """Say what to do about a question that was not answered, or not as it wants to be."""
    if callable(answers) or (answers or {}).get(key) is None:
        return f"answer it: answers={{{key!r}: ...}}"
    form = question.get("params", {}).get("requestedSchema")
    return f"the answer to {key!r} does not fit" + (f" this form: {form}" if form else "")


def _spell_elicitation(answer: Any) -> dict[str, Any]:
    if isinstance(answer, str):
        if answer not in ACTIONS:
            raise ValueError(f"{answer!r} is no answer to a form; give a dict of its fields, or one of {ACTIONS}")
        return {"action": answer}
    spelled = set(answer) <= {"action", "content", "_meta"} and answer.get("action") in ACTIONS
    return dict(answer) if spelled else {"action": "accept", "content": dict(answer)}


def _spell_sampling(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, str):
        return dict(answer)
    content = {"type": "text", "text": answer}
    return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}


def _spell_roots(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Mapping):
        return dict(answer)
    return {"roots": [{"uri": root} if isinstance(root, str) else dict(root) for root in answer]}


_SPELLINGS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "elicitation/create": _spell_elicitation,
    "sampling/createMessage": _spell_sampling,
    "roots/list": _spell_roots,
}
