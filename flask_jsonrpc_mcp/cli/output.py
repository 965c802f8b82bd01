"""Print to the terminal and prompt there: text in the layout of click's help pages, or JSON for programs.

Results go to stdout. Failures, progress and questions go to stderr.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from ..ask import Elicit, ElicitUrl, ListRoots, Question, UnusableAnswer
from ..call import Result
from ..doctor import ERROR, INFO, WARNING, Finding, by_problem
from ..errors import InternalError, InvalidParams, RpcError
from ..method import Method
from ..strict_json import to_plain
from .arguments import likely_name

FAILED, WRONG_USAGE = 1, 2
"""Exit codes; click's own for wrong options is 2 as well."""

HEADINGS = {"tool": "Tools", "method": "Other methods", "prompt": "Prompts", "resource": "Resources"}
MAX_CHOICES = 8
SHOWN = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "default")
"""The rules of an argument that are worth a place next to its description."""
COLORS = {ERROR: "red", WARNING: "yellow", INFO: "blue"}

# Those that control the terminal, and those that change the direction of text.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_CLEAR_LINE = "\x1b[K"
_HYPHEN = "\u2011"  # stands for one where no line may break
_TYPES: dict[str, click.ParamType[Any]] = {"integer": click.INT, "number": click.FLOAT, "boolean": click.BOOL}

json_option = click.option(
    "--json-output/--no-json-output",
    "json_output",
    default=None,
    help="Print JSON, or text. By default text in a terminal, and JSON elsewhere.",
)


def wants_json(json_output: bool | None) -> bool:
    """Return whether to print JSON, given the value of ``--json-output``."""
    return not sys.stdout.isatty() if json_output is None else json_output


def echo_json(value: Any, *, err: bool = False) -> None:
    click.echo(printable(json.dumps(value, indent=2, ensure_ascii=False)), err=err)


def printable(text: str) -> str:
    """Escape control characters of untrusted text, as JSON does."""
    return _CONTROL_CHARACTERS.sub(lambda found: json.dumps(found[0])[1:-1], text)


def terminal_width() -> int:
    return max(20, shutil.get_terminal_size().columns)


# Methods, prompts and resources.


def describe(method: Method) -> dict[str, Any]:
    """Describe a method, prompt or resource for programs: as MCP does, with its kind and the permissions it needs."""
    is_tool = method.tool is not None
    own: dict[str, Any] = {"kind": "tool" if is_tool else method.kind, "tool": is_tool, "access": sorted(method.access)}
    if method.scopes:
        own["scopes"] = sorted(method.scopes)
    return {**to_plain(method.descriptor), **own}


def echo_list(items: Iterable[Mapping[str, Any]]) -> None:
    """Print the name and a summary of what `describe` has described, a section for each kind."""
    rows: dict[str, list[tuple[str, str]]] = {kind: [] for kind in HEADINGS}
    for item in items:
        summary = printable(" ".join(item["description"].partition("\n\n")[0].split()))
        notes = [*_hints(item), *_needs(item)]
        color = "green" if "read-only" in notes else "red" if "destructive" in notes else "yellow"
        note = click.style(_in_brackets(notes).replace("-", _HYPHEN), fg=color) if notes else ""
        rows[item["kind"]].append((_styled_name(item), f"{summary}  {note}".rstrip()))
    formatter = click.HelpFormatter(width=terminal_width())
    for kind in filter(rows.get, rows):
        with formatter.section(HEADINGS[kind]):
            formatter.write_dl(rows[kind], col_max=formatter.width // 3)
    click.echo(formatter.getvalue().replace(_HYPHEN, "-"), nl=False)


def echo_method(method: Mapping[str, Any]) -> None:
    """Print everything about a method that `describe` has described."""
    schema = method["inputSchema"]
    required = [name for name in schema["properties"] if name in schema.get("required", ())]
    formatter = click.HelpFormatter(width=terminal_width())
    formatter.write("  ".join(filter(None, [_styled_name(method), method.get("title")])) + "\n\n")
    formatter.write_text(method["description"])
    if schema["properties"]:
        with formatter.section("Arguments"):
            rows = [_argument_row(name, rules, name in required) for name, rules in schema["properties"].items()]
            formatter.write_dl(rows, col_max=formatter.width // 2)
    facts = {
        "Kind": ", ".join(["tool" if method["tool"] else "method, not a tool", *_hints(method)]),
        "Access": "".join(_needs(method)) or "everyone",
        "Returns": _type_in_words(method["outputSchema"], members=True) if "outputSchema" in method else "",
        "Example": " ".join(["flask mcp call", shlex.quote(method["name"]), *(f"{name}=..." for name in required)]),
    }
    formatter.write_paragraph()
    formatter.write_dl([(f"{name}:", fact) for name, fact in facts.items() if fact])
    click.echo(formatter.getvalue(), nl=False)


def _styled_name(item: Mapping[str, Any]) -> str:
    name = item.get("uri") or item.get("uriTemplate") or item["name"]
    return click.style(printable(name), fg="cyan", bold=True)


def _hints(item: Mapping[str, Any]) -> list[str]:
    annotations = item.get("annotations", {})
    if annotations.get("readOnlyHint") is True:
        return ["read-only"]
    return ["destructive"] if annotations.get("destructiveHint") else []


def _needs(item: Mapping[str, Any]) -> list[str]:
    needs = [*item["access"], *(f"scope {scope}" for scope in item.get("scopes", ()))]
    return [printable(f"needs {', '.join(needs)}")] if needs else []


def _argument_row(name: str, schema: Any, required: bool) -> tuple[str, str]:
    rules = schema if isinstance(schema, dict) else {}
    for alternative in rules.get("anyOf", ()):
        rules = {**rules, **(alternative if isinstance(alternative, dict) else {})}
    notes = [*(["required"] if required else []), *(f"{key}: {in_json(rules[key])}" for key in SHOWN if key in rules)]
    text = "  ".join(filter(None, [rules.get("description"), _in_brackets(notes)]))
    return f"{click.style(name, fg='cyan')} {_type_in_words(schema)}", text


def _in_brackets(notes: list[str]) -> str:
    return f"[{'; '.join(notes)}]" if notes else ""


def _type_in_words(schema: Any, *, members: bool = False) -> str:
    """Name the types that a schema accepts, and for a result the members of an object."""
    if not isinstance(schema, dict):
        return "anything"
    if "enum" in schema or "const" in schema:
        choices = [in_json(choice) for choice in schema.get("enum", [schema.get("const")])]
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


def in_json(value: Any) -> str:
    """Serialise a value on one line."""
    return json.dumps(value, ensure_ascii=False)


# Calls.


def end(
    outcome: Result | RpcError,
    name: str,
    echo: Callable[[Result], None],
    json_output: bool | None,
    hints: Iterable[str] = (),
    schema: Mapping[str, Any] | None = None,
) -> None:
    """Print the outcome of a call, and exit with 1 or 2 if it failed.

    :param echo: Prints a result as text.
    :param schema: Of the arguments, to suggest names for those that it does not have.
    """
    if isinstance(outcome, RpcError):
        # People read stderr, so JSON only if asked for.
        _echo_failure(outcome, name, hints, schema or {}, as_json=bool(json_output))
        raise click.exceptions.Exit(WRONG_USAGE if isinstance(outcome, InvalidParams) else FAILED)
    if wants_json(json_output):
        echo_json(outcome.plain)
    else:
        echo(outcome)


def echo_result(result: Result) -> None:
    """Print a result: texts as they are, values as JSON, and of other content its kind."""
    for block in result.content or ():
        _echo_block(block)
    if isinstance(result.value, str):
        click.echo(printable(result.value))
    elif result.value is not None or result.content is None:
        echo_json(result.value)


def echo_messages(result: Result) -> None:
    """Print the messages of a prompt, each below its role."""
    for message in result.value["messages"]:
        click.secho(f"{message['role']}:", fg="cyan", bold=True)
        _echo_block(message["content"])


def echo_contents(result: Result) -> None:
    """Print the contents of a resource: texts as they are, of others the URI and the MIME type."""
    for contents in result.value:
        _echo_block({"type": "resource", **contents})


def echo_suggestions(result: Result) -> None:
    """Print suggested values, one on each line."""
    for value in result.value:
        click.echo(printable(value))


def _echo_block(block: Mapping[str, Any]) -> None:
    inner = block.get("resource", block)
    facts = ", ".join(str(inner[key]) for key in ("name", "uri", "mimeType") if key in inner)
    click.echo(printable(block["text"] if "text" in block else f"[{block['type']}: {facts}]"))


def _echo_failure(
    error: RpcError, name: str, hints: Iterable[str], schema: Mapping[str, Any], *, as_json: bool
) -> None:
    """Print why a call failed, and hints; or as JSON what the REST endpoint would return."""
    if as_json:
        problems = error.data if isinstance(error, InvalidParams) else {}
        echo_json({"error": {"code": error.slug, "message": error.message, **problems}}, err=True)
        return
    if isinstance(error, InvalidParams):
        click.secho(f"The arguments of {name} are not valid:", fg="red", err=True)
        for problem in error.problems:
            likely = likely_name(problem.path, schema)
            message = f"{problem.message}; did you mean {likely}?" if likely else problem.message
            click.echo(f"  {click.style(printable(problem.path or '/'), bold=True)}  {printable(message)}", err=True)
    else:
        text = f"see the log for id {error.error_id}" if isinstance(error, InternalError) else printable(error.message)
        click.echo(f"{click.style(f'{name} failed:', fg='red')} {text}", err=True)
    for hint in hints:
        click.echo(hint, err=True)


class Progress:
    """Shows the progress of a call on one line, if stderr is a terminal, and what the method logs."""

    def __init__(self) -> None:
        self._is_shown = False

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        if sys.stderr.isatty():
            line = (f"{done:g} of {total:g}" if total else f"{done:g}") + (f"  {printable(message)}" if message else "")
            # Back to the start of the line, where the next output replaces it.
            click.echo(f"{_CLEAR_LINE}{line[: terminal_width() - 1]}\r", nl=False, err=True)
            self._is_shown = True

    def log(self, level: str, data: Any, logger: str | None) -> None:
        self.clear()
        click.echo(f"{level}: {f'{logger}: ' if logger else ''}{printable(str(data))}", err=True)

    def clear(self) -> None:
        """Remove the line before other output."""
        if self._is_shown:
            click.echo(_CLEAR_LINE, nl=False, err=True)
            self._is_shown = False


# Questions.


def can_ask() -> bool:
    """Return whether there is a person at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def capabilities(*, asking: bool) -> frozenset[str]:
    """Return what this client can do for a method. It has no model, so no sampling."""
    return frozenset({ListRoots.feature, *([Elicit.feature, ElicitUrl.feature] if asking else [])})


def ask(questions: Mapping[str, Question]) -> dict[str, Any]:
    """Ask the person every question, again if an answer does not fit, and return the responses by key."""
    return {key: _ask(question) for key, question in questions.items()}


def _ask(question: Question) -> dict[str, Any]:
    if isinstance(question, ListRoots):
        return {"roots": [{"uri": Path.cwd().as_uri(), "name": Path.cwd().name}]}
    while True:
        try:
            response = _prompt(question.params)
            question.read(response)
        except UnusableAnswer as error:
            click.secho(printable(str(error)), fg="red", err=True)
        except click.Abort:  # Ctrl-C or Ctrl-D
            click.echo(err=True)
            return {"action": "cancel"}
        else:
            return response


def _prompt(params: Mapping[str, Any]) -> dict[str, Any]:
    message, form = printable(params["message"]), params.get("requestedSchema", {})
    if params["mode"] == "url":
        click.echo(f"{message}\n{printable(params['url'])}", err=True)
        message = "Have you opened it?"
    if not form.get("properties"):
        return {"action": "accept" if click.confirm(message, err=True) else "decline"}
    click.echo(f"{message} (Ctrl-C to cancel)", err=True)
    values = {name: _prompt_field(name, rules, form) for name, rules in form["properties"].items()}
    return {"action": "accept", "content": {name: value for name, value in values.items() if value is not None}}


def _prompt_field(name: str, rules: Mapping[str, Any], form: Mapping[str, Any]) -> Any:
    is_list = rules.get("type") == "array"
    item = rules["items"] if is_list else rules
    choices = item.get("enum") or [option["const"] for option in item.get("oneOf") or item.get("anyOf") or ()]
    kind = click.Choice(choices) if choices else _TYPES.get(item.get("type", ""), click.STRING)

    def convert(entered: Any) -> Any:
        if entered == "":
            return None
        if not isinstance(entered, str):
            return entered  # the default
        return [kind(part.strip()) for part in entered.split(",")] if is_list else kind(entered)

    label = [rules.get("title") or name, rules.get("description"), "separated by commas" if is_list else None]
    return click.prompt(
        printable(", ".join(filter(None, label))),
        default=rules.get("default", None if name in form.get("required", ()) else ""),
        show_default="default" in rules,
        type=kind,
        value_proc=convert,
        err=True,
    )


# Findings of the doctor.


def echo_findings(findings: list[Finding], tools: int, ignored: list[str], *, name_blueprints: bool) -> None:
    """Print findings, errors first, the same problem of several tools once; then how many there are."""
    for alike in by_problem(findings):
        found = alike[0]
        names = [": ".join(filter(None, [each.blueprint if name_blueprints else None, each.tool])) for each in alike]
        click.echo(
            f"{click.style(found.severity, fg=COLORS[found.severity], bold=True)}  {click.style(found.slug, bold=True)}"
        )
        _echo_wrapped(", ".join(filter(None, names)), fg="cyan")
        # Not the first letter of a URL.
        why = found.why if "://" in found.why.partition(" ")[0] else found.why[0].upper() + found.why[1:]
        _echo_wrapped(f"{why}.")
        _echo_wrapped(f"Fix: {found.fix}.", fg="green")
        click.echo()
    severities = [finding.severity for finding in findings]
    counts = [_count(severities.count(severity), severity) for severity in COLORS if severity in severities]
    color = next((color for severity, color in COLORS.items() if severity in severities), "green")
    click.secho(f"{_count(tools, 'tool')} checked: {', '.join(counts) or 'no problems found'}.", fg=color, bold=True)
    if findings:
        _echo_wrapped("To ignore what is intended, use --ignore SLUG or JSONRPC_MCP_DOCTOR_IGNORE.", indent="")
    if ignored:
        _echo_wrapped(f"Ignored: {', '.join(ignored)}", indent="", dim=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 or noun == INFO else f"{number} {noun}s"


def _echo_wrapped(text: str, *, indent: str = "  ", **style: Any) -> None:
    if text:
        click.secho(click.wrap_text(text, terminal_width(), indent, indent), **style)
