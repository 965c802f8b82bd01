"""`Resource`, a method that is read by its URI, and `UriTemplate` for URIs with variables (RFC 6570)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

from .call import Call, Result
from .checks import checked_age, checked_annotations, checked_name, checked_text
from .content import ContentBlock, EmbeddedResource, PromptMessage, ToolResult
from .errors import MethodNotFound
from .method import CommonOptions, Method
from .schema import Function, read_texts
from .strict_json import to_plain, write

MAX_URI = 2_000
"""Maximum length of a URI that is matched with templates."""

_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_VARIABLE = re.compile(r"(\+?)([A-Za-z_][A-Za-z0-9_]*)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")


class ResourceOptions(CommonOptions, total=False):
    """The options of `McpBlueprint.resource`."""

    name: str | None
    title: str | None
    mime_type: str | None
    annotations: Mapping[str, Any] | None
    max_age: int | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Resource(Method):
    """A method that returns the contents of a URI, which is its ``name``.

    :param label: The ``name`` that MCP lists.
    :param template: Parses the arguments from a URI; ``None`` if it has just one URI.
    """

    kind: ClassVar[str] = "resource"
    options: ClassVar[type] = ResourceOptions
    tool = None
    listed = True

    label: str = ""
    title: str | None = None
    mime_type: str | None = None
    template: UriTemplate | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def fields_from(cls, function: Function, name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        title, mime_type, uri = options.get("title"), options.get("mime_type"), checked_uri(name)
        return {
            "name": uri,
            "label": checked_name(function.func, options.get("name")),
            "title": None if title is None else checked_text("title", title),
            "mime_type": None if mime_type is None else checked_text("mime_type", mime_type),
            "template": parse_template(uri) if is_template(uri) else None,
            "annotations": checked_annotations(options.get("annotations")),
            "max_age": checked_age(options.get("max_age")),
        }

    def check(self) -> None:
        """Check that the variables of the URI are the parameters of the function."""
        variables = set() if self.template is None else set(self.template.variables)
        properties, required = self.params.schema["properties"], self.params.schema.get("required", ())
        for name in sorted(variables - set(properties)):
            known = ", ".join(properties) or "none"
            raise TypeError(
                f"{self.name!r} uses {{{name}}}, but the function has no parameter {name!r} (it has: {known})"
            )
        for name in required:
            if name not in variables:
                raise TypeError(f"parameter {name!r} is not in {self.name!r}; put {{{name}}} into the URI")

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        variables = {} if self.template is None else self.template.match(call.name)
        return self.params.bind(read_texts(self.params.schema, variables or {}))

    def dump(self, returned: Any, call: Call) -> Result:
        if returned is None:
            raise MethodNotFound(call.name)
        has_contents = isinstance(returned, (list, tuple)) and any(
            isinstance(each, EmbeddedResource) for each in returned
        )
        several = returned if has_contents else [returned]
        return Result([self._contents(item, call.name) for item in several], max_age=self.max_age or 0)

    def _contents(self, item: Any, uri: str) -> dict[str, Any]:
        if isinstance(item, EmbeddedResource):
            embedded = replace(item, mime_type=item.mime_type or self.mime_type)
        else:
            mime_type, contents = _as_contents(item)
            embedded = EmbeddedResource(uri, contents, self.mime_type or mime_type)
        contents_json: dict[str, Any] = embedded.to_json()["resource"]
        return contents_json

    @property
    def descriptor(self) -> dict[str, Any]:
        """The resource or resource template as 2026-07-28 lists it."""
        described: dict[str, Any] = {"uri" if self.template is None else "uriTemplate": self.name, "name": self.label}
        if self.title is not None:
            described["title"] = self.title
        described["description"] = self.description
        if self.mime_type is not None:
            described["mimeType"] = self.mime_type
        return {**described, "annotations": dict(self.annotations)} if self.annotations else described


class UriTemplate(NamedTuple):
    """A URI template that can also be matched: ``{name}`` and ``{+path}`` of RFC 6570."""

    variables: tuple[str, ...]
    pattern: re.Pattern[str]

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the percent-decoded variables of a URI; ``None`` if it does not match."""
        found = self.pattern.fullmatch(uri) if len(uri) <= MAX_URI else None
        if found is None:
            return None
        try:
            return {name: unquote(value, errors="strict") for name, value in found.groupdict().items()}
        except UnicodeDecodeError:
            return None


def is_template(uri: str) -> bool:
    return "{" in uri or "}" in uri


def checked_uri(uri: Any) -> str:
    """Check that a URI has a scheme, and only characters that need no percent-encoding.

    :raises TypeError, ValueError: if not.
    """
    if not isinstance(uri, str):
        raise TypeError(f"a resource's URI must be a str such as 'articles://latest', not {type(uri).__name__}")
    if not _URI.fullmatch(uri):
        raise ValueError(f"{uri!r} cannot be a resource's URI; write one such as 'articles://latest'")
    return uri


def parse_template(text: str) -> UriTemplate:
    """Parse a URI template.

    ``{name}`` matches a part without a slash, ``{+path}`` may contain slashes. A variable ends at the first occurrence
    of the text that follows it; a ``{+path}`` ends at the last one.

    :raises ValueError: for a template that cannot be matched unambiguously.
    """
    if is_template(_EXPRESSION.sub("", text)):
        raise ValueError(f"the braces of {text!r} do not match")
    expressions = list(_EXPRESSION.finditer(text))
    variables: dict[str, str] = {}
    pattern, end, resumed = "", 0, ""
    for position, expression in enumerate(expressions):
        variable = _VARIABLE.fullmatch(expression[1])
        if variable is None:
            raise ValueError(f"{expression[0]} in {text!r} cannot be matched with a URI; use {{name}} or {{+path}}")
        reserved, name = variable.groups()
        if name in variables:
            raise ValueError(f"{text!r} has the variable {name!r} twice; give one of them another name")
        if reserved and "+" in variables.values():
            raise ValueError(f"{text!r} has two variables with a '+'; it would be ambiguous where the first one ends")
        if variables and expression.start() == end:
            raise ValueError(f"{expression[0]} in {text!r} follows another variable at once; put a text between them")
        variables[name] = reserved
        pattern += re.escape(text[end : expression.start()])
        end = expression.end()
        # Each variable excludes the text that follows it, so that the pattern never backtracks.
        following = text[end : expressions[position + 1].start()] if position + 1 < len(expressions) else ""
        if reserved:
            pattern += f"(?P<{name}>.+)"
            resumed = f"(?!{re.escape(following)})" if following else ""
        else:
            character = f"[^/?#{re.escape(following[:1])}]"
            pattern += f"(?P<{name}>(?:{resumed}{character})+)" if resumed else f"(?P<{name}>{character}+)"
    return UriTemplate(tuple(variables), re.compile(pattern + re.escape(text[end:]), re.DOTALL))


def _as_contents(value: Any) -> tuple[str, str | bytes]:
    """Return the MIME type and the contents for what a method returned."""
    if isinstance(value, str):
        return "text/plain", value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "application/octet-stream", bytes(value)
    if isinstance(value, (ContentBlock, PromptMessage, ToolResult)):
        raise TypeError(f"a resource cannot be a {type(value).__name__}; return a str, bytes or an EmbeddedResource")
    return "application/json", write(to_plain(value)).decode("utf-8")
