"""``completion/complete``: suggestions for an argument of a prompt, or for a variable of a resource's URI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..calls import COMPLETION
from ..completers import name_of
from ..errors import MalformedParams, MethodNotFound, UnknownPrompt, UnknownResource
from ..methods import Method
from .listing import text_in
from .session import Session
from .spelling import inline_references

MAX_SUGGESTIONS = 100


def complete(session: Session, params: Mapping[str, Any]) -> dict[str, Any]:
    """Suggest values: those of the argument's completer, else the choices that its schema has."""
    completed = _completed(session, _object_in(params, "ref"))
    argument = _object_in(params, "argument")
    name, typed = text_in(argument, "name"), text_in(argument, "value")
    if name not in completed.params.schema["properties"]:
        raise MalformedParams(f"there is no argument {name!r} to complete")
    completer, others = name_of(completed.name, name), _others(params)
    if _is_visible(session, completer):
        suggestions = session.core.dispatcher.invoke(session.call(COMPLETION, completer, (typed, others))).value
    else:
        suggestions = _choices(inline_references(completed.params.schema)["properties"][name], typed)
    shown = suggestions[:MAX_SUGGESTIONS]
    return {"completion": {"values": shown, "total": len(suggestions), "hasMore": len(shown) < len(suggestions)}}


def _completed(session: Session, ref: Mapping[str, Any]) -> Method:
    kind, sign_in = ref.get("type"), session.caller.may_sign_in
    if kind == "ref/prompt":
        name = text_in(ref, "name")
        try:
            return session.core.prompts.find(name, session.caller)
        except MethodNotFound as error:
            raise UnknownPrompt(name, sign_in=sign_in) from error
    if kind == "ref/resource":
        uri = text_in(ref, "uri")
        resource = session.core.resources.template_registry.get(uri)
        if resource is None or not session.caller.has(resource.access):
            raise UnknownResource(uri, sign_in=sign_in)
        return resource
    raise MalformedParams("params.ref.type must be ref/prompt or ref/resource")


def _is_visible(session: Session, completer: str) -> bool:
    try:
        session.core.completers.find(completer, session.caller)
    except MethodNotFound:
        return False
    return True


def _others(params: Mapping[str, Any]) -> dict[str, str]:
    """Read what the client already has of the other arguments."""
    context = params.get("context", {})
    arguments = context.get("arguments", {}) if isinstance(context, dict) else None
    if not isinstance(arguments, dict) or not all(isinstance(value, str) for value in arguments.values()):
        raise MalformedParams("params.context.arguments must be an object of strings")
    return dict(arguments)


def _choices(rules: Any, typed: str) -> list[str]:
    if not isinstance(rules, dict):
        return []
    branches = [rules, *(rule for rule in rules.get("anyOf", ()) if isinstance(rule, dict))]
    choices = [choice for branch in branches for choice in branch.get("enum", ()) if isinstance(choice, str)]
    return [choice for choice in choices if choice.lower().startswith(typed.lower())]


def _object_in(params: Mapping[str, Any], member: str) -> Mapping[str, Any]:
    value = params.get(member)
    if not isinstance(value, dict):
        raise MalformedParams(f"params.{member} must be an object")
    return value
