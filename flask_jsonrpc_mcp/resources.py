"""Resources: methods that give something to read under a URI, or under every URI of a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .access import Caller
from .calls import Call, Result
from .catalogue import Catalogue
from .content import ContentBlock, EmbeddedResource, PromptMessage, ToolResult
from .declarations import checked_age, checked_annotations, checked_name, checked_text, naming
from .errors import MethodNotFound
from .methods import CommonOptions, Method, check_options, common_members
from .rate_limits import RateLimits
from .registry import Registry
from .schema import Function
from .schema.texts import read_texts
from .strict_json import to_plain, write
from .uri_templates import UriTemplate, checked_uri, is_template, parse_template

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(eq=False, repr=False)
class Resource(Method):
    """A method that gives something to read. It is called by its URI, which is its name here.

    :param label: The name that people see.
    :param template: How its arguments are found in a URI; ``None`` when it has just one URI, and no arguments.
    """

    label: str = ""
    title: str | None = None
    mime_type: str | None = None
    template: UriTemplate | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def listed(self) -> bool:
        return True

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        texts = {} if self.template is None else self.template.match(call.name)
        return self.params.bind(read_texts(self.params.schema, texts or {}))

    def dump(self, returned: Any, call: Call) -> Result:
        if returned is None:
            raise MethodNotFound(call.name)
        several = returned if _has_contents(returned) else [returned]
        return Result([self._contents(item, call.name) for item in several], max_age=self.max_age or 0)

    def _contents(self, item: Any, uri: str) -> dict[str, Any]:
        if isinstance(item, EmbeddedResource):
            embedded = replace(item, mime_type=item.mime_type or self.mime_type)
        else:
            kind, contents = _readable(item)
            embedded = EmbeddedResource(uri, contents, self.mime_type or kind)
        contents_json: dict[str, Any] = embedded.to_json()["resource"]
        return contents_json

    @property
    def descriptor(self) -> dict[str, Any]:
        """The resource as MCP lists it."""
        described: dict[str, Any] = {"uri" if self.template is None else "uriTemplate": self.name, "name": self.label}
        if self.title is not None:
            described["title"] = self.title
        described["description"] = self.description
        if self.mime_type is not None:
            described["mimeType"] = self.mime_type
        return {**described, "annotations": dict(self.annotations)} if self.annotations else described


class ResourceOptions(CommonOptions, total=False):
    """What can be said of a resource besides its URI; see `McpBlueprint.resource`."""

    name: str | None
    title: str | None
    mime_type: str | None
    annotations: Mapping[str, Any] | None
    max_age: int | None


def make_resource(
    func: Callable[..., Any], uri: str, rate_limits: RateLimits, **options: Unpack[ResourceOptions]
) -> Resource:
    """Read everything a resource will need off a function, once.

    :raises TypeError, ValueError: naming the function, what is wrong with it and the fix.
    """
    with naming(func):
        check_options("resource", options, ResourceOptions)
        label, title, mime_type = (
            checked_name(func, options.get("name")),
            options.get("title"),
            options.get("mime_type"),
        )
        template = parse_template(checked_uri(uri)) if is_template(checked_uri(uri)) else None
        resource = Resource(
            name=uri,
            **common_members(Function(func), label, rate_limits, options),
            label=label,
            title=None if title is None else checked_text("title", title),
            mime_type=None if mime_type is None else checked_text("mime_type", mime_type),
            template=template,
            annotations=checked_annotations(options.get("annotations")),
            max_age=checked_age(options.get("max_age")),
        )
        _check_variables(resource)
        _ = resource.descriptor_json
    return resource


class TemplateRegistry(Registry[Resource]):
    """Resources whose URIs have variables, found by any URI that fits."""

    def named(self, name: str) -> tuple[Resource, ...]:
        return tuple(r for r in self if r.template is not None and r.template.match(name) is not None)


class Resources:
    """The resources of a blueprint as callers see them: those with one URI, and templates."""

    def __init__(self) -> None:
        self.registry, self.template_registry = Registry[Resource](), TemplateRegistry()
        self.fixed, self.templates = Catalogue(self.registry), Catalogue(self.template_registry)

    def __len__(self) -> int:
        return len(self.registry) + len(self.template_registry)

    def registry_of(self, uri: str) -> Registry[Resource]:
        return self.template_registry if is_template(uri) else self.registry

    def find(self, name: str, caller: Caller, *, listed_only: bool = True) -> Resource:
        """Find what gives the contents of a URI.

        :raises MethodNotFound: when there is none, or none this caller may know of.
        """
        try:
            return self.fixed.find(name, caller)
        except MethodNotFound:
            return self.templates.find(name, caller)


def _check_variables(resource: Resource) -> None:
    """A resource is called by its URI alone, so every argument must be in it."""
    variables = set() if resource.template is None else set(resource.template.variables)
    properties, required = resource.params.schema["properties"], resource.params.schema.get("required", ())
    for name in sorted(variables - set(properties)):
        known = ", ".join(properties) or "none"
        raise TypeError(f"{{{name}}} of {resource.name!r} is none of its parameters; there are {known}")
    for name in required:
        if name not in variables:
            raise TypeError(f"parameter {name!r} is not in {resource.name!r}; put {{{name}}} into the URI")


def _has_contents(returned: Any) -> bool:
    return isinstance(returned, (list, tuple)) and any(isinstance(item, EmbeddedResource) for item in returned)


def _readable(value: Any) -> tuple[str, str | bytes]:
    """The type and the contents of what a method returned: text, bytes, or anything else as JSON."""
    if isinstance(value, str):
        return "text/plain", value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "application/octet-stream", bytes(value)
    if isinstance(value, (ContentBlock, PromptMessage, ToolResult)):
        raise TypeError(f"a resource cannot be a {type(value).__name__}; return a text, bytes or an EmbeddedResource")
    return "application/json", write(to_plain(value)).decode("utf-8")
