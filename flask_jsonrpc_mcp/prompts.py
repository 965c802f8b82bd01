"""`Prompt`, a method that returns messages, and `Completer`, which suggests values for an argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from .call import Call, Result
from .checks import checked_name, checked_text
from .content import messages_of
from .method import CommonOptions, Method
from .schema import Function, read_texts
from .strict_json import to_plain


class PromptOptions(CommonOptions, total=False):
    """The options of `McpBlueprint.prompt`."""

    title: str | None


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Prompt(Method):
    """A method that returns messages. Clients send its arguments as strings."""

    kind: ClassVar[str] = "prompt"
    options: ClassVar[type] = PromptOptions
    tool = None
    listed = True

    title: str | None = None

    @classmethod
    def fields_from(cls, function: Function, name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        title = options.get("title")
        return {
            "name": checked_name(function.func, name),
            "title": None if title is None else checked_text("title", title),
        }

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = call.arguments
        return self.params.bind(read_texts(self.params.schema, arguments) if isinstance(arguments, dict) else arguments)

    def dump(self, returned: Any, call: Call) -> Result:
        return Result({"description": self.description, "messages": messages_of(returned)})

    @property
    def descriptor(self) -> dict[str, Any]:
        """The prompt as 2026-07-28 lists it."""
        described: dict[str, Any] = {"name": self.name}
        if self.title is not None:
            described["title"] = self.title
        described["description"] = self.description
        schema = self.params.schema
        arguments = [_argument(name, rules, schema) for name, rules in schema["properties"].items()]
        return {**described, "arguments": arguments} if arguments else described


class Completer(Method):
    """A method that suggests values. It gets the value typed so far, and other arguments it has parameters for."""

    kind: ClassVar[str] = "completer"
    options: ClassVar[type] = CommonOptions
    tool = None
    listed = True

    @classmethod
    def fields_from(cls, function: Function, name: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name}

    def check(self) -> None:
        """Check that the function takes the value, and that all other parameters have defaults."""
        schema = self.params.schema
        if not schema["properties"]:
            raise TypeError("a completer takes the value typed so far; give it a parameter: def complete(value: str)")
        for other in list(schema["properties"])[1:]:
            if other in schema.get("required", ()):
                raise TypeError(f"parameter {other!r} may not be known yet; give it a default")

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        value, others = cast("tuple[str, dict[str, str]]", call.arguments)
        properties = self.params.schema["properties"]
        first = next(iter(properties))
        known = {name: text for name, text in others.items() if name in properties and name != first}
        return self.params.bind(read_texts(self.params.schema, {first: value, **known}))

    def dump(self, returned: Any, call: Call) -> Result:
        suggestions = list(returned) if isinstance(returned, Iterable) and not isinstance(returned, str) else [returned]
        if not all(isinstance(suggestion, str) for suggestion in suggestions):
            raise TypeError("a completer must return a list of strings")
        return Result(to_plain(suggestions))

    def collect(self, items: list[Any]) -> Any:
        return items


def completer_name(completed: str, argument: str) -> str:
    """Return the name of a completer. Neither the name of a prompt nor a URI contains a space."""
    return f"{completed} {argument}"


def _argument(name: str, rules: Any, schema: dict[str, Any]) -> dict[str, Any]:
    argument: dict[str, Any] = {"name": name}
    if isinstance(rules, dict):
        argument |= {note: rules[note] for note in ("title", "description") if rules.get(note)}
    if name in schema.get("required", ()):
        argument["required"] = True
    return argument
