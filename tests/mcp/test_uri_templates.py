"""URI templates: what they read out of a URI, what they refuse, and that no URI keeps them busy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flask_jsonrpc_mcp.resources import MAX_URI, checked_uri, is_template, parse_template


@pytest.mark.parametrize(
    ("template", "uri", "variables"),
    [
        ("a://{id}", "a://7", {"id": "7"}),
        ("a://{id}", "a://7/8", None),
        ("a://{id}", "a://", None),
        ("a://{id}", "b://7", None),
        ("a://{id}", "A://7", None),
        ("a://{id}", "a://7?x=1", None),
        ("a://{id}", "a://7#x", None),
        ("a://{id}", "a://7\n", {"id": "7\n"}),
        ("a://{id}/data", "a://7/data", {"id": "7"}),
        ("a://{id}/data", "a://7/data/", None),
        ("a://{x}/{y}", "a://1/2", {"x": "1", "y": "2"}),
        ("a://{x}-{y}", "a://1-2-3", {"x": "1", "y": "2-3"}),
        ("a://{x}?day={y}", "a://1?day=2", {"x": "1", "y": "2"}),
        ("a://{name}.json", "a://x.y.json", {"name": "x.y"}),
        ("a://{+path}", "a://x/y/z", {"path": "x/y/z"}),
        ("a://{+path}/raw", "a://x/raw/raw", {"path": "x/raw"}),
        ("a://{+path}.{kind}", "a://x.y/z.tar.gz", {"path": "x.y/z.tar", "kind": "gz"}),
        ("a://{+path}.{kind}", "a://x.y/z", None),
        ("a://{host}/{+path}", "a://h/x/y", {"host": "h", "path": "x/y"}),
        ("a.b://{id}", "aXb://1", None),
        ("a:{_id2}", "a:1", {"_id2": "1"}),
    ],
)
def test_a_uri_is_read_by_its_template(template: str, uri: str, variables: Any) -> None:
    assert parse_template(template).match(uri) == variables


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("%20", " "),
        ("a+b", "a+b"),
        ("%C3%A9", "é"),
        ("é", "é"),
        ("x%2Fy", "x/y"),
        ("%2F..%2F", "/../"),
        ("%252F", "%2F"),
        ("%00", "\0"),
        ("50%", "50%"),
        ("%zz", "%zz"),
        ("%FF", None),
        ("%ED%A0%80", None),
        ("%C3", None),
    ],
)
def test_values_are_percent_decoded_once(encoded: str, value: str | None) -> None:
    """What is no UTF-8 is no text, so there is nothing under such a URI."""
    found = parse_template("a://{id}").match(f"a://{encoded}")
    assert found == (None if value is None else {"id": value})


def test_a_uri_that_is_too_long_is_not_looked_at() -> None:
    template = parse_template("a://{id}")
    longest = "a://" + "x" * (MAX_URI - 4)
    assert template.match(longest) == {"id": "x" * (MAX_URI - 4)}
    assert template.match(longest + "x") is None


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        ("a://{id", "the braces of 'a://{id' do not match"),
        ("a://id}", "the braces of 'a://id}' do not match"),
        ("a://{{id}}", "the braces of 'a://{{id}}' do not match"),
        ("a://{}", "{} in 'a://{}' cannot be matched with a URI; use {name} or {+path}"),
        ("a://{?x,y}", "{?x,y} in 'a://{?x,y}' cannot be matched with a URI; use {name} or {+path}"),
        ("a://{x*}", "{x*} in 'a://{x*}' cannot be matched with a URI; use {name} or {+path}"),
        ("a://{x}/{x}", "'a://{x}/{x}' has the variable 'x' twice; give one of them another name"),
        ("a://{x}{y}", "{y} in 'a://{x}{y}' follows another variable at once; put a text between them"),
        (
            "a://{+x}/{+y}",
            "'a://{+x}/{+y}' has two variables with a '+'; it would be ambiguous where the first one ends",
        ),
    ],
)
def test_what_could_not_be_read_back_is_refused(template: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        parse_template(template)


@pytest.mark.parametrize("uri", ["latest", "://x", "a:", "a://x y", "a://é", "1a://x", "", "a://x\n"])
def test_what_is_no_uri_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be a resource's URI; write one such as 'articles://latest'"):
        checked_uri(uri)


def test_braces_make_a_template() -> None:
    assert is_template("a://{id}")
    assert is_template("a://id}")
    assert not is_template("a://id")


TEMPLATES = [
    "a://{x}",
    "a://{x}.json",
    "a://{x}-{y}-{z}",
    "a://{+path}",
    "a://{+path}.{kind}",
    "a://{+path}.v{kind}-{number}",
    "a://{x}/{+path}.{kind}",
    "a://{+path}aa{x}aa{y}aa",
]
TRAPS = ["/", ".", "-", "a", "aa", "x", ".v", ".v1-", "ax", "%", "%41", "\0"]


@pytest.mark.parametrize("template", TEMPLATES)
def test_traps_of_any_length_are_left_soon(template: str) -> None:
    """Each of these took fifty milliseconds when the time grew with the square of the length; now this is no wait."""
    parsed = parse_template(template)
    for trap in TRAPS:
        for end in ("", "/", "?"):
            uri = ("a://x/" + trap * MAX_URI)[: MAX_URI - 1] + end
            for _ in range(3):
                parsed.match(uri)


def test_a_path_goes_on_to_the_last_of_what_ends_it() -> None:
    """This is also why a URI can be read in one go: what comes after it is never looked for twice."""
    template = parse_template("a://{+path}.v{major}-{minor}")
    assert template.match("a://x.v1-2/y.v3-4") == {"path": "x.v1-2/y", "major": "3", "minor": "4"}
    assert template.match("a://x.v1-2.5") == {"path": "x", "major": "1", "minor": "2.5"}
    assert template.match("a://x.v1-2.v3") is None
