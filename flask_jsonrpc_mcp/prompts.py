"""Prompts: methods that make the messages a person starts a conversation with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .calls import Call, Result
from .content import messages_of
from .declarations import checked_name, checked_text, naming
from .methods import CommonOptions, Method, check_options, common_members
from .rate_limits import RateLimits
from .schema import Function
from .schema.texts import read_texts

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(eq=False, repr=False)
class Prompt(Method):
    """A method that makes messages. Its arguments arrive as texts."""

    title: str | None = None

    @property
    def listed(self) -> bool:
        return True

    def bind(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = call.arguments
        return self.params.bind(read_texts(self.params.schema, arguments) if isinstance(arguments, dict) else arguments)

    def dump(self, returned: Any, call: Call) -> Result:
        return Result({"description": self.description, "messages": messages_of(returned)})

    @property
    def descriptor(self) -> dict[str, Any]:
        """The prompt as MCP lists it."""
        described: dict[str, Any] = {"name": self.name}
        if self.title is not None:
            described["title"] = self.title
        described["description"] = self.description
        schema = self.params.schema
        arguments = [_argument(name, rules, schema) for name, rules in schema["properties"].items()]
        return {**described, "arguments": arguments} if arguments else described


class PromptOptions(CommonOptions, total=False):
    """What can be said of a prompt besides its name; see `McpBlueprint.prompt`."""

    title: str | None


def make_prompt(
    func: Callable[..., Any], name: str | None, rate_limits: RateLimits, **options: Unpack[PromptOptions]
) -> Prompt:
    """Read everything a prompt will need off a function, once.

    :raises TypeError, ValueError: naming the function, what is wrong with it and the fix.
    """
    with naming(func):
        check_options("prompt", options, PromptOptions)
        name, title = checked_name(func, name), options.get("title")
        prompt = Prompt(
            name=name,
            **common_members(Function(func), name, rate_limits, options),
            title=None if title is None else checked_text("title", title),
        )
        _ = prompt.descriptor_json
    return prompt


def _argument(name: str, rules: Any, schema: dict[str, Any]) -> dict[str, Any]:
    argument: dict[str, Any] = {"name": name}
    if isinstance(rules, dict):
        argument |= {note: rules[note] for note in ("title", "description") if isinstance(rules.get(note), str)}
    if name in schema.get("required", ()):
        argument["required"] = True
    return argument
