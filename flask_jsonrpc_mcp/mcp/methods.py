"""The handlers of MCP's methods. Each takes the context and the params, and returns the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..call import COMPLETION, LOG_LEVELS, METHOD, PROMPT, RESOURCE, Detach
from ..envelope import Prepared
from ..errors import (
    PROTOCOL_ERRORS,
    InvalidCursor,
    MalformedParams,
    MethodNotFound,
    RpcError,
    UnknownPrompt,
    UnknownResource,
    UnknownTool,
)
from ..invoke import invoke
from ..mailbox import announces_changes
from ..method import M, Method
from ..prompts import completer_name
from ..registry import Collection, Page, decode_cursor
from ..resources import Resource
from ..schema.walk import inline_references
from ..strict_json import write
from . import versions
from .protocol import MODERN, RequestContext

MAX_SUGGESTIONS = 100
RESOURCE_NOT_FOUND = -32002
"""The code of an unknown resource before 2026-07-28, which uses -32602."""

Params = Mapping[str, Any]


def list_tools(context: RequestContext, params: Params) -> Prepared:
    style = context.setting("TOOL_NAME_STYLE")

    def describe(tool: Method, version: str) -> dict[str, Any]:
        return versions.describe_tool(tool.descriptor, version, style)

    more: list[dict[str, Any]] = []
    if context.waits_for_tasks:
        from .tasks_extension import DESCRIPTORS  # SQLAlchemy is an extra

        more = [versions.describe_tool(descriptor, context.version, style) for descriptor in DESCRIPTORS]
    return _list(context, params, context.registry.methods, "tools", describe, style, more)


def call_tool(context: RequestContext, params: Params) -> dict[str, Any]:
    """Call a tool. A failure of the tool is a result with ``isError``, not a JSON-RPC error.

    :raises UnknownTool: if there is none, or none visible to this caller.
    """
    name, arguments = _text(params, "name"), _object(params, "arguments", {})
    if context.registry.extensions and context.waits_for_tasks:
        from .tasks_extension import find_tool  # SQLAlchemy is an extra

        task_tool = find_tool(name)
        if task_tool is not None:
            return task_tool(context, arguments)
    try:
        result = invoke(context.call(METHOD, context.tool_name(name), arguments), context.registry)
    except Detach as detached:
        from . import tasks_extension

        create = tasks_extension.create_and_wait if context.waits_for_tasks else tasks_extension.create_task
        return create(context, detached.call)
    except MethodNotFound as error:
        raise UnknownTool(name, sign_in=context.caller.may_sign_in) from error
    except PROTOCOL_ERRORS:
        raise
    except RpcError as error:
        return versions.tool_failure(error)
    return versions.tool_result(result, context.version)


def list_prompts(context: RequestContext, params: Params) -> Prepared:
    return _list(context, params, context.registry.prompts, "prompts", versions.describe_prompt)


def get_prompt(context: RequestContext, params: Params) -> dict[str, Any]:
    """Return the messages of a prompt.

    :raises UnknownPrompt: if there is none, or none visible to this caller.
    """
    name = _text(params, "name")
    try:
        prompt = invoke(context.call(PROMPT, name, _object(params, "arguments", {})), context.registry).value
    except MethodNotFound as error:
        raise UnknownPrompt(name, sign_in=context.caller.may_sign_in) from error
    messages = [
        {**message, "content": versions.content_block(message["content"], context.version)}
        for message in prompt["messages"]
    ]
    return {**prompt, "messages": messages}


def list_resources(context: RequestContext, params: Params) -> Prepared:
    return _list(context, params, context.registry.resources.fixed, "resources", versions.describe_resource)


def list_templates(context: RequestContext, params: Params) -> Prepared:
    templates = context.registry.resources.templates
    return _list(context, params, templates, "resourceTemplates", versions.describe_resource)


def read_resource(context: RequestContext, params: Params) -> dict[str, Any]:
    """Return the contents of a URI.

    :raises UnknownResource: if there are none, or none visible to this caller.
    """
    uri = _text(params, "uri")
    try:
        result = invoke(context.call(RESOURCE, uri, {}), context.registry)
    except MethodNotFound as error:
        raise _unknown_resource(context, uri) from error
    contents = {"contents": result.value}
    return {**contents, "ttlMs": result.max_age * 1000} if context.version == MODERN else contents


def visible_resource(context: RequestContext, params: Params) -> Resource:
    """Find the resource that serves a URI.

    :raises UnknownResource: if there is none, or none visible to this caller.
    """
    uri = _text(params, "uri")
    try:
        return context.registry.resources.find(uri, context.caller)
    except MethodNotFound as error:
        raise _unknown_resource(context, uri) from error


def subscribe(context: RequestContext, params: Params) -> dict[str, Any]:
    """Accept a subscription of an older client. Over HTTP these versions have no request to send updates on."""
    if not announces_changes():
        raise MethodNotFound("resources/subscribe")
    visible_resource(context, params)
    return {}


def complete(context: RequestContext, params: Params) -> dict[str, Any]:
    """Suggest values for an argument: from its completer, else from the ``enum`` of its schema."""
    completed = _completed(context, _object(params, "ref"))
    argument = _object(params, "argument")
    name, typed = _text(argument, "name"), _text(argument, "value")
    if name not in completed.params.schema["properties"]:
        raise MalformedParams(f"there is no argument {name!r} to complete")
    completer = context.registry.completers.get(completer_name(completed.name, name))
    others = _other_arguments(params)
    if not context.caller.has_scopes(completed.scopes if completer is None else completer.scopes):
        suggestions = []  # an error would open a sign-in page while the user types
    elif completer is not None and context.caller.has(completer.access):
        suggestions = invoke(context.call(COMPLETION, completer.name, (typed, others)), context.registry).value
    else:
        suggestions = _choices(inline_references(completed.params.schema)["properties"][name], typed)
    shown = suggestions[:MAX_SUGGESTIONS]
    return {"completion": {"values": shown, "total": len(suggestions), "hasMore": len(shown) < len(suggestions)}}


def ping(context: RequestContext, params: Params) -> dict[str, Any]:
    return {}


def set_log_level(context: RequestContext, params: Params) -> dict[str, Any]:
    level = params.get("level")
    if level not in LOG_LEVELS:
        raise MalformedParams(f"params.level must be one of {', '.join(LOG_LEVELS)}")
    context.log_level.set(level)
    return {}


def is_streaming(context: RequestContext, kind: str, name: str) -> bool:
    """Whether a tool, prompt or resource runs while its response is sent."""
    if kind == METHOD and context.waits_for_tasks:
        from .tasks_extension import is_waiting

        if is_waiting(context, name):
            return True
    try:
        found = context.registry.finders[kind].find(context.tool_name(name) if kind == METHOD else name, context.caller)
    except MethodNotFound:
        return False
    return found.streams and context.caller.has_scopes(found.scopes)


def _list(
    context: RequestContext,
    params: Params,
    collection: Collection[M],
    member: str,
    describe: Callable[[M, str], dict[str, Any]],
    style: str = "",
    more: Sequence[dict[str, Any]] = (),
) -> Prepared:
    """Return a page of a list.

    :param member: The name of the list in the result.
    :param describe: Describes one item to a client of a version.
    :param style: Part of the cache key, if descriptions depend on it.
    :param more: Descriptions at the end of the list.
    """
    context.registry.auth.require_discovery(context.caller)
    cursor = params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise MalformedParams("cursor must be a string")
    try:
        offset = 0 if cursor is None else decode_cursor(cursor)
    except InvalidCursor as error:
        raise MalformedParams(error.message) from error

    def make(items: tuple[M, ...], next_cursor: str | None) -> Page:
        page: dict[str, Any] = {member: [describe(item, context.version) for item in items]}
        if next_cursor is not None:
            page["nextCursor"] = next_cursor  # left out at the end, because clients would send null back
        else:
            page[member] += more
        return Page(write(page))

    listing = collection.listing_for(context.caller)
    form = f"mcp {context.version} {style} {len(more)}"
    return Prepared(listing.page(form, offset, context.setting("PAGE_SIZE"), make).body)


def _completed(context: RequestContext, ref: Params) -> Method:
    """Find the prompt or resource template that a completion is for."""
    kind, sign_in = ref.get("type"), context.caller.may_sign_in
    if kind == "ref/prompt":
        name = _text(ref, "name")
        try:
            return context.registry.prompts.find(name, context.caller)
        except MethodNotFound as error:
            raise UnknownPrompt(name, sign_in=sign_in) from error
    if kind == "ref/resource":
        uri = _text(ref, "uri")
        resource = context.registry.resources.templates.get(uri)
        if resource is None or not context.caller.has(resource.access):
            raise UnknownResource(uri, sign_in=sign_in)
        return resource
    raise MalformedParams("params.ref.type must be ref/prompt or ref/resource")


def _other_arguments(params: Params) -> dict[str, str]:
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


def _unknown_resource(context: RequestContext, uri: str) -> UnknownResource:
    code = None if context.version == MODERN else RESOURCE_NOT_FOUND
    return UnknownResource(uri, sign_in=context.caller.may_sign_in, code=code)


def _text(params: Params, member: str) -> str:
    text = params.get(member)
    if not isinstance(text, str):
        raise MalformedParams(f"params.{member} must be a string")
    return text


def _object(params: Params, member: str, default: Params | None = None) -> Params:
    value = params.get(member, default)
    if not isinstance(value, dict):
        raise MalformedParams(f"params.{member} must be an object")
    return value
