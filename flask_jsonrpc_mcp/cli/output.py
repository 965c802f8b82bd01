"""Print the output of commands: text for people, in the layout of click's help pages, or JSON for programs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, TypeVar

import click

from ..call import Result
from ..doctor import ERROR, INFO, WARNING, Finding
from ..errors import InternalError, InvalidParams, RpcError
from ..method import Method

F = TypeVar("F", bound=Callable[..., Any])

MAX_CHOICES = 8
SHOWN = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default")
"""The rules of an argument that are worth a place next to its description."""
COLORS = {ERROR: "red", WARNING: "yellow", INFO: "blue"}

# Those that a terminal obeys, and those that turn the direction of the text.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def json_option(command: F) -> F:
    """Add ``--json-output``."""
    return click.option(
        "--json-output/--no-json-output",
        "json_output",
        default=None,
        help="Print JSON, or text; by default JSON if stdout is not a terminal.",
    )(command)


def wants_json(json_output: bool | None) -> bool:
    """Return whether to print JSON, given the value of ``--json-output``."""
    return not sys.stdout.isatty() if json_output is None else json_output


def echo_json(value: Any, *, err: bool = False) -> None:
    click.echo(printable(json.dumps(value, indent=2, ensure_ascii=False)), err=err)


def printable(text: str) -> str:
    """Escape control characters of a text that may come from anyone, as JSON does."""
    return _CONTROL_CHARACTERS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size().columns)


# Methods.


def descriptor(method: Method) -> dict[str, Any]:
    """Describe a method for programs: as MCP does, and whether it is a tool, and which permissions it needs."""
    return {**method.descriptor, "tool": method.tool is not None, "access": sorted(method.access)}


def echo_methods(methods: Iterable[Method]) -> None:
    """Print the name and a summary of each method, tools first."""
    rows: dict[str, list[tuple[str, str]]] = {"Tools": [], "Other methods": []}
    for method in methods:
        summary = " ".join(method.description.partition("\n\n")[0].split())
        notes = [*_hints(method), *([f"needs {', '.join(sorted(method.access))}"] if method.access else [])]
        color = "green" if method.read_only else "red" if "destructive" in notes else "yellow"
        row = (_styled_name(method), "  ".join([summary, *_in_brackets(notes, color)]))
        rows["Other methods" if method.tool is None else "Tools"].append(row)
    formatter = click.HelpFormatter(width=terminal_width())
    for heading in filter(rows.get, rows):
        with formatter.section(heading):
            formatter.write_dl(rows[heading], col_max=formatter.width // 3)
    click.echo(formatter.getvalue(), nl=False)


def echo_method(method: Method) -> None:
    """Print everything about a method."""
    properties = method.params.schema["properties"]
    required = [name for name in properties if name in method.params.schema.get("required", ())]
    formatter = click.HelpFormatter(width=terminal_width())
    title = method.tool.title if method.tool is not None else None
    formatter.write("  ".join(filter(None, [_styled_name(method), title])) + "\n\n")
    formatter.write_text(method.description)
    if properties:
        with formatter.section("Arguments"):
            rows = [_argument_row(name, schema, name in required) for name, schema in properties.items()]
            formatter.write_dl(rows, col_max=formatter.width // 2)
    facts = {
        "Kind": ", ".join(["method, not a tool" if method.tool is None else "tool", *_hints(method)]),
        "Access": f"needs {', '.join(sorted(method.access))}" if method.access else "everyone",
        "Returns": "" if method.output is None else _type_in_words(method.output.schema, members=True),
        "Example": " ".join(["flask mcp call", shlex.quote(method.name), *(f"{name}=..." for name in required)]),
    }
    formatter.write_paragraph()
    formatter.write_dl([(f"{name}:", fact) for name, fact in facts.items() if fact])
    click.echo(formatter.getvalue(), nl=False)


def _styled_name(method: Method) -> str:
    return click.style(method.name, fg="cyan", bold=True)


def _hints(method: Method) -> list[str]:
    if method.read_only:
        return ["read-only"]
    return ["destructive"] if method.tool is not None and method.tool.annotations.get("destructiveHint") else []


def _argument_row(name: str, schema: Any, required: bool) -> tuple[str, str]:
    rules = {} if not isinstance(schema, dict) else schema
    for alternative in rules.get("anyOf", ()):
        rules = {**rules, **(alternative if isinstance(alternative, dict) else {})}
    notes = [*(["required"] if required else []), *(f"{key}: {_in_json(rules[key])}" for key in SHOWN if key in rules)]
    text = "  ".join([*filter(None, [rules.get("description")]), *_in_brackets(notes)])
    return f"{click.style(name, fg='cyan')} {_type_in_words(schema)}", text


def _in_brackets(notes: list[str], color: str | None = None) -> list[str]:
    text = f"[{'; '.join(notes)}]"
    return [text if color is None else click.style(text, fg=color)] if notes else []


def _type_in_words(schema: Any, *, members: bool = False) -> str:
    """Name the types that a schema accepts, and for a result the members of an object."""
    if not isinstance(schema, dict):
        return "anything"
    if "enum" in schema or "const" in schema:
        choices = [_in_json(choice) for choice in schema.get("enum", [schema.get("const")])]
        return " | ".join(choices if len(choices) <= MAX_CHOICES else [*choices[:MAX_CHOICES], "…"])
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        return " | ".join(dict.fromkeys(_type_in_words(alternative, members=members) for alternative in alternatives))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    name = schema.get("type", "anything")
    if name == "array":
        return f"array of {_type_in_words(schema.get('items'), members=members)}"
    if name == "object" and members and schema.get("properties"):
        return f"object with {', '.join(schema['properties'])}"
    words = " | ".join(name) if isinstance(name, list) else str(name)
    return f"{words} ({schema['format']})" if "format" in schema else words


def _in_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# Results of a call.


def echo_result(result: Result) -> None:
    """Print a result: texts as they are, values as JSON, and of other content its kind."""
    for block in result.content or ():
        click.echo(printable(block["text"] if block["type"] == "text" else _block_in_words(block)))
    if isinstance(result.value, str):
        click.echo(printable(result.value))
    elif result.value is not None or result.content is None:
        echo_json(result.value)


def echo_failure(error: RpcError, name: str, hints: Iterable[str]) -> None:
    """Print why a call failed to stderr, and hints."""
    if isinstance(error, InvalidParams):
        click.secho(f"The arguments of {name} are not valid:", fg="red", err=True)
        for problem in error.problems:
            path, message = printable(problem.path or "/"), printable(problem.message)
            click.echo(f"  {click.style(path, bold=True)}  {message}", err=True)
    else:
        text = f"see the log for id {error.error_id}" if isinstance(error, InternalError) else printable(error.message)
        click.echo(f"{click.style(f'{name} failed:', fg='red')} {text}", err=True)
    for hint in hints:
        click.echo(hint, err=True)


def echo_failure_as_json(error: RpcError) -> None:
    """Print why a call failed to stderr, as the REST endpoint would return it."""
    problems = error.data if isinstance(error, InvalidParams) else {}
    echo_json({"error": {"code": error.slug, "message": error.message, **problems}}, err=True)


def _block_in_words(block: Mapping[str, Any]) -> str:
    inner = block.get("resource", block)
    return f"[{block['type']}: {', '.join(str(inner[key]) for key in ('name', 'uri', 'mimeType') if key in inner)}]"


# Findings of the doctor.


def echo_findings(findings: Iterable[Finding], *, name_blueprints: bool) -> None:
    """Print findings, errors first; the same problem of several tools is printed once."""
    by_severity = sorted(findings, key=lambda finding: list(COLORS).index(finding.severity))
    for (severity, slug, why, fix), group in groupby(by_severity, lambda f: (f.severity, f.slug, f.why, f.fix)):
        names = [(finding.blueprint if name_blueprints else None, finding.tool) for finding in group]
        about = ", ".join(filter(None, (": ".join(filter(None, pair)) for pair in names)))
        click.echo(f"{click.style(severity, fg=COLORS[severity], bold=True)}  {click.style(slug, bold=True)}")
        if about:
            _echo_indented(about, fg="cyan")
        _echo_indented(f"{why[0].upper()}{why[1:]}.")
        _echo_indented(f"Fix: {fix}.", fg="green")
        click.echo()


def echo_summary(tools: int, findings: list[Finding], ignored: list[str]) -> None:
    """Print how many tools were checked and what was found and ignored."""
    severities = [finding.severity for finding in findings]
    counts = [_count(severities.count(severity), severity) for severity in COLORS if severity in severities]
    color = next((color for severity, color in COLORS.items() if severity in severities), "green")
    click.secho(f"{_count(tools, 'tool')} checked: {', '.join(counts) or 'no problems found'}.", fg=color, bold=True)
    if findings:
        _echo_indented("To ignore what is intended, use --ignore SLUG or JSONRPC_MCP_DOCTOR_IGNORE.", indent="")
    if ignored:
        _echo_indented(f"Ignored: {', '.join(ignored)}", indent="", dim=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 or noun == INFO else f"{number} {noun}s"


def _echo_indented(text: str, *, indent: str = "  ", **style: Any) -> None:
    click.secho(click.wrap_text(text, terminal_width(), indent, indent), **style)
