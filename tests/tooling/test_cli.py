"""The commands that list and use tools, prompts and resources: in process, and once each as a real command."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from flask import Flask, abort, g
from flask_babel import Babel, lazy_gettext

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.cli import mcp
from flask_jsonrpc_mcp.invoke import method_called
from tests.apps.cli_app import create_app
from tests.conftest import make_app
from tests.support.servers import ROOT

TOOLS = [
    "stays.find",
    "stays.cancel",
    "broken",
    "picture",
    "text",
    "count",
    "delete",
    "greet",
    "sign",
    "where",
    "order",
    "think",
]
FLASK = [sys.executable, "-m", "flask", "--app", "tests.apps.cli_app"]


@pytest.fixture
def app() -> Flask:
    return create_app()


def run(app: Flask, *arguments: str, **options: Any) -> Result:
    """Run a command in process, where its output is no terminal."""
    return app.test_cli_runner().invoke(mcp, arguments, **options)


def answer(app: Flask, *arguments: str, **options: Any) -> Any:
    ran = run(app, *arguments, **options)
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def refusal(app: Flask, *arguments: str) -> str:
    """What is wrong with a command that cannot be run like this."""
    ran = run(app, *arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    return ran.stderr.rpartition("Error: ")[2].strip()


def in_terminal(*arguments: str, typed: str = "", columns: int = 100, **env: str) -> str:
    """Run a command as someone does who sits before a terminal, and types."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    attributes = termios.tcgetattr(theirs)
    attributes[3] &= ~termios.ECHO  # it would come before or after the question, as the machine pleases
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    process = subprocess.Popen(
        [*FLASK, "mcp", *arguments], cwd=ROOT, env={**environment, **env}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    os.write(ours, typed.encode())
    output = b""
    with os.fdopen(ours, "rb", buffering=0) as screen:
        while True:
            try:
                chunk = screen.read(4096)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            output += chunk
    process.wait(timeout=60)
    return output.decode().replace("\r\n", "\n")


def test_every_command_is_a_command_of_flask() -> None:
    """The entry point is there, and each command runs as people run it."""
    env = {**os.environ, "PYTHONWARNINGS": "error"}

    def flask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*FLASK, "mcp", *arguments], cwd=ROOT, env=env, capture_output=True, text=True)

    assert json.loads(flask("list").stdout)[0]["name"] == "stays.find"
    assert json.loads(flask("describe", "stays.find").stdout)["title"] == "Find stays"
    assert json.loads(flask("call", "stays.find", "place=Rome", "guests=3").stdout)["guests"] == 3
    assert flask("call", "stays.cancel", "id=7").returncode == 1
    assert flask("call", "stays.book").returncode == 2
    assert "mcpServers" in json.loads(flask("config", "claude-code").stdout)
    examined = flask("doctor")
    assert examined.returncode == 1, examined.stderr
    assert {finding["slug"] for finding in json.loads(examined.stdout)} >= {"name-dots", "public-write"}


class TestList:
    def test_shows_the_tools_as_json_when_nobody_looks(self, app: Flask) -> None:
        tools = [item for item in answer(app, "list") if item["tool"]]
        assert [tool["name"] for tool in tools] == TOOLS
        assert tools[1] == {
            "name": "stays.cancel",
            "description": "Cancel a stay.",
            "inputSchema": tools[1]["inputSchema"],
            "outputSchema": {"type": "string"},
            "annotations": {"destructiveHint": True},
            "kind": "tool",
            "tool": True,
            "access": ["write"],
        }

    def test_shows_methods_that_are_no_tools_when_asked(self, app: Flask) -> None:
        [method] = [item for item in answer(app, "list", "--all") if item["kind"] == "method"]
        assert method["name"] == "whoami"

    def test_shows_what_a_user_may_use(self, app: Flask) -> None:
        def names(*options: str) -> list[str]:
            return [tool["name"] for tool in answer(app, "list", *options)]

        assert "stays.cancel" in names()
        assert "stays.cancel" in names("--user", "writer")
        assert "stays.cancel" not in names("--user", "reader")
        assert "stays.cancel" in names("--as-permissions", "read,write")
        assert "stays.cancel" not in names("--as-permissions", "")

    def test_shows_people_what_they_need_to_choose(self) -> None:
        lines = in_terminal("list", "--all", columns=72, NO_COLOR="1").splitlines()
        assert lines[:3] == [
            "Tools:",
            "  stays.find    Find places to stay.  [read-only]",
            "  stays.cancel  Cancel a stay.  [destructive; needs write]",
        ]
        assert lines[-10:] == [
            "",
            "Other methods:",
            "  whoami  Tell who is calling.",
            "",
            "Prompts:",
            "  welcome  Welcome a guest.",
            "",
            "Resources:",
            "  stays://all         All stays.",
            "  stays://{id}/photo  The photo of a stay.  [needs write]",
        ]

    def test_shows_prompts_and_resources_to_programs_by_their_kind(self, app: Flask) -> None:
        prompt, fixed, template = answer(app, "list")[len(TOOLS) :]
        assert (prompt["kind"], prompt["arguments"][0]) == ("prompt", {"name": "guest", "required": True})
        assert (fixed["kind"], fixed["uri"], fixed["access"]) == ("resource", "stays://all", [])
        assert (template["kind"], template["uriTemplate"], template["access"]) == (
            "resource",
            "stays://{id}/photo",
            ["write"],
        )
        assert answer(app, "list", "--user", "reader")[-1]["uri"] == "stays://all"

    def test_shows_lazy_texts_to_programs_too(self) -> None:
        rpc = McpBlueprint()
        rpc.add_tool(lambda: 1, "look", title=lazy_gettext("Look"), description=lazy_gettext("Look at the beds."))
        app = make_app(rpc)
        Babel(app)
        [listed] = answer(app, "list")
        assert (listed["title"], listed["description"]) == ("Look", "Look at the beds.")

    @pytest.mark.parametrize("columns", [30, 72, 80])
    def test_fits_the_terminal(self, columns: int) -> None:
        rpc = McpBlueprint()
        for name in ("short", "a.long.name.of.a.tool"):
            rpc.add_method(name, mcp_tool(lambda: 1), description="A few words " * 20, access=["a permission"] * 3)
        lines = run(make_app(rpc), "list", "--no-json-output", env={"COLUMNS": str(columns)}).stdout.splitlines()
        assert len(lines) > 3
        assert max(map(len, lines)) <= columns

    @pytest.mark.parametrize("columns", range(28, 38))
    def test_breaks_no_line_at_the_hyphen_of_read_only(self, columns: int) -> None:
        rpc = McpBlueprint()
        rpc.add_method("look", mcp_tool(annotations={"readOnlyHint": True})(lambda: 1), description="Look at the beds.")
        listed = run(make_app(rpc), "list", "--no-json-output", env={"COLUMNS": str(columns)}).stdout
        assert "[read-only]" in listed

    def test_has_colours_in_a_terminal_unless_nobody_wants_them(self) -> None:
        assert "\x1b[" in in_terminal("list")
        assert "\x1b[" not in in_terminal("list", NO_COLOR="1")

    def test_says_why_there_is_nothing(self) -> None:
        def said(*options: str) -> str:
            return run(make_app(rpc), "list", *options, "--no-json-output").stdout

        rpc = McpBlueprint()
        assert said() == "There are no tools; register functions with @rpc.tool\n"
        rpc.add_method("one", lambda: 1, access=["x"])
        assert said() == "There are no tools; register functions with @rpc.tool, or list all methods with --all\n"
        assert said("--as-permissions=") == "This caller may not use any method\n"


class TestDescribe:
    def test_shows_everything_about_a_method(self, app: Flask) -> None:
        described = run(app, "describe", "stays.find", "--no-json-output", env={"COLUMNS": "80"}).stdout
        assert described == DESCRIBED

    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            ({"type": "string", "format": "date"}, "string (date)"),
            ({"type": ["integer", "null"], "minimum": 1}, "integer | null [minimum: 1]"),
            ({"type": "string", "maxLength": 9}, "string [maxLength: 9]"),
            ({"anyOf": [{"type": "integer", "maximum": 3}, {"type": "null"}]}, "integer | null [maximum: 3]"),
            ({"enum": list(range(10))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | …"),
            ({"const": "a"}, '"a"'),
            ({"$ref": "#/$defs/size"}, "size"),
            (True, "anything"),
        ],
    )
    def test_says_in_a_few_words_what_an_argument_may_be(self, schema: Any, words: str) -> None:
        rpc = McpBlueprint()
        params = {"properties": {"it": schema}, "$defs": {"size": {"type": "integer"}}}
        rpc.add_method("echo", mcp_tool(lambda it=None: it), params=params)
        lines = run(make_app(rpc), "describe", "echo", "--no-json-output").stdout.splitlines()
        [line] = [line for line in lines if line.startswith("  it ")]
        assert line.split() == ["it", *words.split()]

    def test_is_the_descriptor_for_programs(self, app: Flask) -> None:
        [listed] = [tool for tool in answer(app, "list") if tool["name"] == "stays.find"]
        assert answer(app, "describe", "stays.find") == listed

    def test_shows_methods_that_are_no_tools(self, app: Flask) -> None:
        assert answer(app, "describe", "whoami")["tool"] is False

    def test_helps_whoever_misspells_a_name(self, app: Flask) -> None:
        assert refusal(app, "describe", "stay.find") == "There is no method 'stay.find'; did you mean stays.find?"
        assert refusal(app, "describe", "xyz").startswith(
            "There is no method 'xyz'; there are stays.find, stays.cancel,"
        )


DESCRIBED = """\
stays.find  Find stays

Find places to stay.

The cheapest come first.

Arguments:
  place string                  Where to go  [required]
  guests integer                How many people  [minimum: 1; maximum: 12;
                                default: 2]
  price number | null           [default: null]
  pets boolean                  [default: false]
  rooms array of string | null  [default: null]
  period object | null          [default: null]
  order "price" | "distance"    [default: "price"]

Kind:     tool, read-only
Access:   everyone
Returns:  object
Example:  flask mcp call stays.find place=...
"""


class TestCall:
    def test_types_what_it_is_given_by_the_schema(self, app: Flask) -> None:
        pairs = ["place=7", "guests=3", "price=9.5", "pets=yes", 'rooms=["a", "b"]', "order=distance"]
        assert answer(app, "call", "stays.find", *pairs) == {
            "place": "7",
            "guests": 3,
            "price": 9.5,
            "pets": True,
            "rooms": ["a", "b"],
            "order": "distance",
        }

    @pytest.mark.parametrize(
        ("schema", "text", "value"),
        [
            ({"type": "string"}, "true", "true"),
            ({"type": "string"}, '"quoted"', '"quoted"'),
            ({"type": ["string", "null"]}, "null", None),
            ({"type": ["string", "integer"]}, "7", 7),
            ({"type": "number"}, "7", 7),
            ({"type": "integer"}, "7.0", 7),
            ({"type": "boolean"}, "No", False),
            ({"enum": [1, 2, "all"]}, "2", 2),
            ({"enum": [1, 2, "all"]}, "all", "all"),
            ({"const": 5}, "5", 5),
            ({"$ref": "#/$defs/size"}, "3", 3),
            ({"oneOf": [{"type": "integer"}, {"type": "array"}]}, "[1, 2]", [1, 2]),
            ({"type": "object"}, '{"a": 1}', {"a": 1}),
            ({}, "7", 7),
            ({}, '"7"', "7"),
            ({}, "seven", "seven"),
        ],
    )
    def test_a_text_becomes_what_the_schema_wants(self, schema: Any, text: str, value: Any) -> None:
        rpc = McpBlueprint()
        params = {"properties": {"it": schema, "a.b": schema}, "$defs": {"size": {"type": "integer"}}}
        rpc.add_method("echo", lambda it=..., **rest: it if it is not ... else rest["a.b"], params=params)
        assert answer(make_app(rpc), "call", "echo", f"it={text}") == value
        assert answer(make_app(rpc), "call", "echo", f"a.b={text}") == value

    def test_reaches_into_objects(self, app: Flask) -> None:
        found = answer(app, "call", "stays.find", "place=Rome", "period.start=2026-05-01", "period.end=null")
        assert found["period"] == {"start": "2026-05-01", "end": None}

    def test_takes_json(self, app: Flask, tmp_path: Path) -> None:
        text = '{"place": "Rome", "guests": 1}'
        (tmp_path / "arguments.json").write_text(text)
        expected = answer(app, "call", "stays.find", "--json", text)
        assert expected["guests"] == 1
        assert answer(app, "call", "stays.find", "--json", f"@{tmp_path / 'arguments.json'}") == expected
        assert answer(app, "call", "stays.find", "--json", "-", input=text) == expected
        assert answer(app, "call", "stays.find", "--json", '{"place": "Rome"}', "guests=1") == expected

    @pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1, "a": 2}', "@nowhere.json"])
    def test_says_what_is_wrong_with_json(self, app: Flask, text: str) -> None:
        assert refusal(app, "call", "stays.find", "--json", text).startswith("--json")

    @pytest.mark.parametrize(
        ("pairs", "why"),
        [
            (["place"], "'place' is not an argument; write key=value, or all of them as --json '{...}'"),
            (["=Rome"], "'=Rome' is not an argument; write key=value, or all of them as --json '{...}'"),
            (["place=a", "place=b"], "place is given twice; write an array as JSON: place='[1, 2]'"),
            (["period=5", "period.start=x"], "period.start: period is given twice, as a value and as an object"),
            (["rooms=a"], "rooms must be JSON, such as rooms='[\"...\"]'"),
            (["period=a"], 'period must be JSON, such as period=\'{"...": "..."}\''),
        ],
    )
    def test_says_what_is_wrong_with_an_argument(self, app: Flask, pairs: list[str], why: str) -> None:
        assert refusal(app, "call", "stays.find", *pairs) == why

    def test_lists_every_argument_that_breaks_the_schema(self, app: Flask) -> None:
        ran = run(app, "call", "stays.find", "guests=many", "rooms=7", "period.start=x", "when=now")
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert ran.stderr.splitlines() == [
            "The arguments of stays.find are not valid:",
            "  /guests  must be of type integer, not string",
            "  /rooms  must be of type array or null, not integer",
            "  /period/start  must be a valid date",
            "  /place  is required",
            "  /when  is not expected here",
        ]

    def test_says_which_argument_was_probably_meant(self, app: Flask) -> None:
        said = run(app, "call", "stays.find", "plac=Rome", 'period={"begin": 1, "stat": "x"}', "perod.start=x").stderr
        assert "  /plac  is not expected here; did you mean place?\n" in said
        assert "  /perod  is not expected here; did you mean period?\n" in said
        assert "  /period/stat  is not expected here; did you mean start?\n" in said
        assert "  /period/begin  is not expected here\n" in said

    def test_a_failing_tool_is_exit_code_1_and_its_text(self, app: Flask) -> None:
        ran = run(app, "call", "stays.cancel", "id=7")
        assert (ran.exit_code, ran.stdout, ran.stderr) == (1, "", "stays.cancel failed: Stay 7 has begun\n")

    def test_programs_get_failures_as_json_when_they_ask_for_it(self, app: Flask) -> None:
        ran = run(app, "call", "stays.cancel", "id=7", "--json-output")
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert json.loads(ran.stderr) == {"error": {"code": "execution_error", "message": "Stay 7 has begun"}}
        ran = run(app, "call", "stays.cancel", "id=x", "--json-output")
        assert ran.exit_code == 2
        [problem] = json.loads(ran.stderr)["error"]["errors"]
        assert problem["path"] == "/id"

    def test_a_tool_that_fails_unexpectedly_leaves_its_traceback_in_the_log(
        self, app: Flask, caplog: pytest.LogCaptureFixture
    ) -> None:
        ran = run(app, "call", "broken")
        assert ran.exit_code == 1
        assert "broken failed: see the log for id " in ran.stderr
        assert "It ran without a user; if it needs one, pass --user NAME" in ran.stderr
        assert "the reason" in caplog.text

    def test_ctrl_c_gives_up(self) -> None:
        def wait() -> None:
            raise KeyboardInterrupt

        rpc = McpBlueprint()
        rpc.add_method("wait", wait)
        ran = run(make_app(rpc), "call", "wait")
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr.endswith("Aborted!\n")

    def test_a_user_without_the_permission_is_told_which(self, app: Flask) -> None:
        assert refusal(app, "call", "stays.cancel", "id=7", "--user", "reader") == (
            "'stays.cancel' needs permissions that 'reader' does not have: 'write'"
        )

    def test_runs_as_a_user_inside_a_request_of_the_app(self, app: Flask) -> None:
        assert answer(app, "call", "whoami", "--user", "writer") == {
            "user": "writer",
            "path": "/mcp",
            "prepared": "mcp.mcp",
        }
        assert answer(app, "call", "whoami")["user"] is None

    def test_a_developer_is_not_the_user_that_was_in_g_before(self, app: Flask) -> None:
        app.before_request(lambda: setattr(g, "flask_httpauth_user", "admin"))
        assert answer(app, "call", "whoami")["user"] is None
        assert answer(app, "call", "whoami", "--user", "writer")["user"] == "writer"

    def test_is_told_apart_by_whoever_listens(self, app: Flask) -> None:
        heard = []

        def listen(sender: Flask, call: Any, **rest: Any) -> None:
            heard.append((call.face, call.caller.name, call.caller.scheme))

        with method_called.connected_to(listen, app):
            run(app, "call", "text", "--user", "writer")
            run(app, "call", "text")
        assert heard == [("cli", "writer", "local"), ("cli", "developer", "local")]

    def test_a_teardown_runs_when_the_call_is_over(self, app: Flask) -> None:
        ended: list[object] = []
        app.teardown_request(ended.append)
        run(app, "call", "stays.cancel", "id=7")
        assert ended == [None]

    @pytest.mark.parametrize("answer", [lambda: ("not today", 503), lambda: abort(503)])
    def test_says_when_the_app_itself_answers_before_a_method_can(self, app: Flask, answer: Any) -> None:
        app.before_request(answer)
        ran = run(app, "call", "text")
        assert ran.exit_code == 1
        assert "A before_request function of the app returned a response: 503" in ran.stderr

    def test_hosts_that_the_app_trusts_are_no_hindrance(self) -> None:
        app = create_app(TRUSTED_HOSTS=[".site.example"])
        assert answer(app, "call", "whoami")["prepared"] == "mcp.mcp"

    def test_shows_texts_and_pictures_to_people_and_obeys_no_control_characters(self, app: Flask) -> None:
        shown = run(app, "call", "picture", "--no-json-output").stdout
        assert shown == "a \\u001b[31mpicture\n[image: image/png]\n7\n"
        ran = run(app, "call", "text", "--no-json-output")
        assert ran.stdout == "first\n\\u001b[31msecond\\u009b31m\\u202ethird\n"
        assert run(app, "call", "text").stdout == '"first\\n\\u001b[31msecond\\u009b31m\\u202ethird"\n'
        assert answer(app, "call", "text") == "first\n\x1b[31msecond\x9b31m\u202ethird"
        unknown = run(app, "call", "text", "--json", '{"\\u202e31m": 1}').stderr
        assert "\u202e" not in unknown
        assert "\\u202e31m" in unknown

    def test_takes_a_name_without_dots_where_clients_do(self) -> None:
        app = create_app(JSONRPC_MCP_TOOL_NAME_STYLE="no-dots")
        assert answer(app, "call", "stays_find", "place=Rome")["place"] == "Rome"


class TestPromptsAndResources:
    def test_the_messages_of_a_prompt_are_shown(self, app: Flask) -> None:
        shown = run(app, "prompt", "welcome", "guest=7", "nights=2", "--no-json-output").stdout
        assert shown == "user:\nWrite a warm welcome for 7, who stays 2 nights.\nassistant:\n[image: image/png]\n"
        value = answer(app, "prompt", "welcome", "--json", '{"guest": "Ada"}')
        assert value["description"] == "Welcome a guest."
        assert [message["role"] for message in value["messages"]] == ["user", "assistant"]

    def test_wrong_arguments_of_a_prompt_are_listed(self, app: Flask) -> None:
        ran = run(app, "prompt", "welcome", "gest=Ada", "nights=many")
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert ran.stderr.splitlines() == [
            "The arguments of welcome are not valid:",
            "  /nights  must be of type integer, not string",
            "  /guest  is required",
            "  /gest  is not expected here; did you mean guest?",
        ]

    def test_a_resource_is_read_by_its_uri(self, app: Flask) -> None:
        assert run(app, "read", "stays://all", "--no-json-output").stdout == "Rome\\u001b\nOslo\n"
        shown = run(app, "read", "stays://7/photo", "--no-json-output").stdout
        assert shown == "[resource: stays://7/photo, image/png]\n"
        assert answer(app, "read", "stays://7/photo") == [
            {"uri": "stays://7/photo", "mimeType": "image/png", "blob": "cG5n"}
        ]

    def test_a_uri_without_contents_has_failed(self, app: Flask) -> None:
        ran = run(app, "read", "stays://8/photo")
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert ran.stderr == "stays://8/photo failed: Unknown resource: stays://8/photo\n"
        assert run(app, "read", "stays://x/photo").exit_code == 2

    def test_values_are_suggested(self, app: Flask) -> None:
        assert answer(app, "complete", "welcome", "guest", "A") == ["Ada", "Alan\x1b"]
        assert run(app, "complete", "welcome", "guest", "A", "--no-json-output").stdout == "Ada\nAlan\\u001b\n"
        assert answer(app, "complete", "welcome", "tone") == ["warm", "cool"]
        assert answer(app, "complete", "stays://{id}/photo", "id") == []

    def test_a_template_is_completed_although_another_one_matches_it(self) -> None:
        rpc = McpBlueprint()
        rpc.resource("files://{+path}", name="file")(lambda path: path)
        rpc.resource("files://{user}/home", name="home")(lambda user: user)
        rpc.completer("files://{user}/home", "user")(lambda value: ["ada"])
        assert answer(make_app(rpc), "complete", "files://{user}/home", "user") == ["ada"]

    @pytest.mark.parametrize(
        ("command", "why"),
        [
            (["prompt", "welcom"], "There is no prompt 'welcom'; did you mean welcome?"),
            (["read", "stays://al"], "There is no resource 'stays://al'; did you mean stays://all?"),
            (["complete", "welcom", "guest"], "There is no prompt 'welcom'; did you mean welcome?"),
            (["complete", "welcome", "gest"], "welcome has no argument 'gest'; did you mean guest?"),
            (["complete", "stays://all", "id"], "stays://all has no argument 'id'; there are none"),
            (
                ["read", "stays://7/photo", "--user", "reader"],
                "'stays://7/photo' needs permissions that 'reader' does not have: 'write'",
            ),
            (
                ["complete", "stays://{id}/photo", "id", "--user", "reader"],
                "'stays://{id}/photo' needs permissions that 'reader' does not have: 'write'",
            ),
        ],
    )
    def test_what_cannot_be_used_is_explained(self, app: Flask, command: list[str], why: str) -> None:
        assert refusal(app, *command) == why


class TestTalking:
    """What a method says and asks while it runs, at a real terminal."""

    def test_progress_and_messages_are_shown_and_taken_away(self) -> None:
        shown = in_terminal("call", "count", columns=60)
        assert shown == (
            "\x1b[K1 of 2  at 1\r\x1b[K2 of 2  at 2\r\x1b[Kwarning: counter: that was all\n\x1b[K3\r\x1b[K2\n"
        )

    def test_a_log_is_not_spoiled_by_progress(self, app: Flask) -> None:
        ran = run(app, "call", "count")
        assert (ran.stdout, ran.stderr) == ("2\n", "warning: counter: that was all\n")

    def test_a_confirmation_is_asked_for(self) -> None:
        assert in_terminal("call", "delete", "id=7", typed="y\n").endswith("Delete 7? [y/N]: 7 deleted\n")
        assert "the user declined" in in_terminal("call", "delete", "id=7", typed="n\n")
        assert in_terminal("call", "delete", "id=7", "--no-input") == "7 deleted\n"

    def test_a_form_is_filled_in_until_it_fits(self) -> None:
        shown = in_terminal("call", "greet", typed="Ada\nold\n36\n\n")
        assert shown == (
            "Who are you? (Ctrl-C to cancel)\n"
            "name: age: Error: 'old' is not a valid integer.\n"
            "age: title: Hello Ada, 36\n"
        )

    def test_a_form_that_breaks_its_schema_is_asked_again(self) -> None:
        """Each field is checked as it is entered, as far as its type says; the rest when the form is complete."""
        shown = in_terminal("call", "order", "--json-output", typed="loud\nred\n0\n\nred, green\n\nno\n", NO_COLOR="1")
        colors = "colors, as many as you like, separated by commas (red, green): "
        assert shown == (
            "What would you like? (Ctrl-C to cancel)\n"
            f"{colors}Error: 'loud' is not one of 'red', 'green'.\n"
            f"{colors}number [1]: wrapped: Invalid arguments: /number: must be at least 1\n"
            "What would you like? (Ctrl-C to cancel)\n"
            f"{colors}number [1]: wrapped: "
            '{\n  "colors": [\n    "red",\n    "green"\n  ],\n  "number": 1,\n  "wrapped": false\n}\n'
        )

    def test_a_form_can_be_left(self) -> None:
        """By Ctrl-D here, which stays in the terminal until someone reads it; Ctrl-C is at once."""
        assert in_terminal("call", "greet", typed="\x04").endswith("cancel\n")

    def test_a_page_is_shown(self) -> None:
        shown = in_terminal("call", "sign", typed="y\n")
        assert "Sign in\nhttps://site.example/sign-in\n" in shown
        assert shown.endswith("accept\n")

    def test_without_a_terminal_nobody_is_asked(self, app: Flask) -> None:
        assert answer(app, "call", "delete", "id=7") == "7 deleted"
        ran = run(app, "call", "greet")
        assert ran.exit_code == 1
        assert "It asks the caller a question; call it in a terminal, without --no-input" in ran.stderr

    def test_the_folder_of_the_caller_is_the_current_one(
        self, app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert answer(app, "call", "where") == [tmp_path.as_uri()]

    def test_there_is_no_model_to_ask(self, app: Flask) -> None:
        ran = run(app, "call", "think")
        assert (ran.exit_code, ran.stderr) == (
            1,
            "think failed: This needs an MCP client with the capability sampling\n",
        )


class TestWho:
    def test_an_unknown_user_is_refused(self, app: Flask) -> None:
        assert refusal(app, "list", "--user", "nobody") == "There is no user 'nobody'"

    def test_without_a_user_loader_there_is_a_hint(self) -> None:
        assert refusal(make_app(McpBlueprint()), "list", "--user", "ada") == (
            "--user needs a function that finds users; register one with @rpc.user_loader"
        )

    def test_a_permission_that_nothing_needs_is_pointed_out(self, app: Flask) -> None:
        ran = run(app, "list", "--as-permissions", "wirte")
        assert ran.exit_code == 0
        assert ran.stderr == "Nothing here needs the permission 'wirte'\n"

    def test_prompts_resources_and_completers_need_permissions_too(self) -> None:
        rpc = McpBlueprint(discover_access=["look"])
        rpc.method("work", access=["work"])(lambda: 1)
        rpc.prompt("greet", access=["greet"])(lambda name: f"Hello {name}")
        rpc.resource("plan://today", name="today", access=["read"])(lambda: "dig")
        rpc.resource("plan://days/{day}", name="day", access=["read days"])(lambda day: "plant")
        rpc.completer("greet", "name", access=["guess"])(lambda value: ["Ada"])
        needed = "look,work,greet,read,read days,guess"
        assert run(make_app(rpc), "list", "--as-permissions", needed).stderr == ""

    def test_a_user_can_be_tried_with_other_permissions(self, app: Flask) -> None:
        assert refusal(app, "call", "stays.cancel", "id=7", "--user", "writer", "--as-permissions", "") == (
            "'stays.cancel' needs permissions that 'writer' does not have: 'write'"
        )


class TestBlueprints:
    def two(self) -> Flask:
        first, second = McpBlueprint("first", url_prefix="/first"), McpBlueprint("second", url_prefix="/second")
        first.add_method("one", mcp_tool(lambda: 1))
        second.add_method("two", mcp_tool(lambda: 2))
        return make_app(first, second)

    def test_of_several_one_must_be_chosen(self) -> None:
        assert refusal(self.two(), "list") == (
            "This app has several McpBlueprints, 'first', 'second';"
            " choose one with --blueprint, or in a test with blueprint="
        )
        assert [tool["name"] for tool in answer(self.two(), "list", "--blueprint", "second")] == ["two"]
        assert answer(self.two(), "call", "two", "--blueprint", "second") == 2

    def test_one_that_is_not_there_is_refused(self) -> None:
        assert refusal(self.two(), "list", "--blueprint", "third") == (
            "This app has no McpBlueprint 'third'; it has 'first', 'second'"
        )

    @pytest.mark.parametrize("command", [["list"], ["call", "x"], ["doctor"], ["config", "vscode"]])
    def test_an_app_without_any_says_so(self, command: list[str]) -> None:
        assert refusal(Flask("site"), *command).startswith("This app has no McpBlueprint")

    def test_a_prefix_with_variables_is_no_hindrance(self) -> None:
        rpc = McpBlueprint(url_prefix="/<tenant>")
        rpc.add_method("one", mcp_tool(lambda: 1))
        assert answer(make_app(rpc), "call", "one") == 1


class TestCompletion:
    def complete(self, words: str, **env: str) -> list[str]:
        typed = {"_FLASK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        command = [sys.executable, "-c", "from flask.cli import cli; cli(prog_name='flask')"]
        ran = subprocess.run(command, cwd=ROOT, env={**os.environ, **typed, **env}, capture_output=True, text=True)
        return [line.partition(",")[2] for line in ran.stdout.split()]

    def test_of_names(self) -> None:
        assert self.complete("flask --app tests.apps.cli_app mcp call stays.") == ["stays.find", "stays.cancel"]
        assert self.complete("flask mcp describe who", FLASK_APP="tests.apps.cli_app") == ["whoami"]

    def test_of_prompts_resources_and_their_arguments(self) -> None:
        assert self.complete("flask --app tests.apps.cli_app mcp prompt w") == ["welcome"]
        assert self.complete("flask --app tests.apps.cli_app mcp read sta") == ["stays://all", "stays://{id}/photo"]
        assert self.complete("flask --app tests.apps.cli_app mcp complete welcome n") == ["nights"]

    def test_of_blueprints_and_slugs(self) -> None:
        assert self.complete("flask --app tests.apps.cli_app mcp list --blueprint m") == ["mcp"]
        assert self.complete("flask --app tests.apps.cli_app mcp doctor --ignore name") == ["name-dots", "name-long"]

    def test_of_an_app_that_cannot_be_loaded_is_empty(self) -> None:
        assert self.complete("flask --app tests.nowhere mcp call stays.") == []
