"""Completion: values suggested for the arguments of prompts and the variables of templates."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from flask_limiter import Limiter

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from tests.conftest import Site, basic, make_auth
from tests.support.mcp_messages import ModernClient, client_of, error, result

CITIES = ["Berlin", "Bern", "Bonn"]


class Colour(Enum):
    RED = "red"
    ROSE = "rose"
    BLUE = "blue"


@pytest.fixture
def site() -> Site:
    site = Site(McpBlueprint(), SECRET_KEY="key")

    @site.rpc.prompt
    def travel(
        city: str, style: Annotated[Literal["Slow", "short"] | None, "How"] = None, colour: Colour = Colour.RED
    ) -> str:
        return f"Travel to {city}."

    @site.rpc.resource("trains://{city}/{train}")
    def train(city: str, train: int) -> str:
        return ""

    return site


def complete(
    site: Site,
    name: str,
    value: str,
    version: str = MODERN,
    /,
    *,
    ref: Any = None,
    headers: dict[str, str] | None = None,
    **context: Any,
) -> Any:
    ref = {"type": "ref/prompt", "name": "travel"} if ref is None else ref
    params: dict[str, Any] = {"ref": ref, "argument": {"name": name, "value": value}}
    if context:
        params["context"] = {"arguments": context}
    return client_of(version, site.client, headers=headers or {}).post("completion/complete", params)


TRAINS = {"type": "ref/resource", "uri": "trains://{city}/{train}"}


def values(response: Any) -> list[str]:
    completion = result(response)["completion"]
    assert set(completion) == {"values", "total", "hasMore"}
    found: list[str] = completion["values"]
    return found


# Declaring


def test_the_decorator_returns_the_function(site: Site) -> None:
    def cities(value: str) -> list[str]:
        return CITIES

    assert site.rpc.completer("travel", "city")(cities) is cities
    assert cities("") == CITIES


def good(value: str) -> list[str]:
    return []


def takes_nothing() -> list[str]:
    return []


def wants_more(value: str, style: str) -> list[str]:
    return []


def wants_more_by_name(value: str = "", *, style: str) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("func", "completed", "argument", "options", "problem"),
    [
        (good, "absent", "city", {}, "good(): there is no prompt or resource template 'absent'; register it before"),
        (good, "trains://absent", "city", {}, "good(): there is no prompt or resource template 'trains://absent'"),
        (
            good,
            "travel",
            "cty",
            {},
            "good(): site.<locals>.travel() has no argument 'cty' (it has: city, style, colour)",
        ),
        (good, "plain", "city", {}, "<lambda>() has no argument 'city' (it has: none)"),
        (takes_nothing, "travel", "city", {}, "takes_nothing(): a completer takes the value typed so far; give it a"),
        (wants_more, "travel", "city", {}, "wants_more(): parameter 'style' may not be known yet; give it a default"),
        (
            wants_more_by_name,
            "travel",
            "city",
            {},
            "wants_more_by_name(): parameter 'style' may not be known yet; give it a default",
        ),
        (good, "travel", "city", {"title": "x"}, "good(): a completer has no option 'title'; it has description"),
    ],
)
def test_mistakes_name_the_function_and_the_fix(
    site: Site, func: Any, completed: str, argument: str, options: Any, problem: str
) -> None:
    site.rpc.add_prompt("plain", lambda: "")
    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        site.rpc.completer(completed, argument, **options)(func)


def test_an_argument_has_one_completer(site: Site) -> None:
    site.rpc.completer("travel", "city")(good)
    with pytest.raises(ValueError, match=re.escape("already belongs to good(); give one of them another name")):
        site.rpc.completer("travel", "city")(good)


def test_a_completer_goes_with_what_it_completes(site: Site) -> None:
    site.rpc.completer("travel", "city")(good)
    site.rpc.completer(TRAINS["uri"], "city")(good)
    site.rpc.remove_prompt("travel")
    site.rpc.remove_resource(TRAINS["uri"])
    site.rpc.add_prompt("travel", lambda city: city)
    assert values(complete(site, "city", "B")) == []
    site.rpc.completer("travel", "city")(lambda value: ["Bonn"])
    assert values(complete(site, "city", "B")) == ["Bonn"]


# Answering


@pytest.mark.parametrize("version", VERSIONS)
def test_a_completer_suggests_for_what_was_typed(site: Site, version: str) -> None:
    @site.rpc.completer("travel", "city")
    def cities(value: str) -> list[str]:
        return [city for city in CITIES if city.startswith(value)]

    @site.rpc.completer(TRAINS["uri"], "train")
    def trains(value: str) -> list[str]:
        return [value + "0"]

    assert values(complete(site, "city", "Be", version)) == ["Berlin", "Bern"]
    assert values(complete(site, "city", "", version)) == CITIES
    assert values(complete(site, "train", "1", version, ref=TRAINS)) == ["10"]
    got = result(complete(site, "city", "Bo", version))
    assert got["completion"] == {"values": ["Bonn"], "total": 1, "hasMore": False}
    assert set(got) - {"completion"} == ({"resultType", "_meta"} if version == MODERN else set())


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_what_is_known_of_the_other_arguments_arrives_as_the_hints_say(site: Site, version: str) -> None:
    got: list[Any] = []

    @site.rpc.completer(TRAINS["uri"], "train")
    def trains(value: str, city: str = "?", day: int = 0) -> list[str]:
        got.append((value, city, day))
        return []

    complete(site, "train", "1", version, ref=TRAINS)
    complete(site, "train", "1", version, ref=TRAINS, city="Bonn", day="5", unknown="x", value="not this")
    assert got == [("1", "?", 0), ("1", "Bonn", 5)]


@pytest.mark.parametrize("version", [MODERN, LEGACY[-1]])
def test_fixed_choices_need_no_completer(site: Site, version: str) -> None:
    assert values(complete(site, "style", "s", version)) == ["Slow", "short"]
    assert values(complete(site, "colour", "RO", version)) == ["rose"]
    assert values(complete(site, "city", "", version)) == []
    assert values(complete(site, "train", "", version, ref=TRAINS)) == []


def test_choices_are_found_behind_a_reference(site: Site) -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/c"}, "b": True}, "$defs": {"c": {"enum": ["x", "y", 1]}}}
    site.rpc.add_prompt("p", lambda **_: "", params=schema)
    ref = {"type": "ref/prompt", "name": "p"}
    assert values(complete(site, "a", "", ref=ref)) == ["x", "y"]
    assert values(complete(site, "b", "", ref=ref)) == []


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_no_more_than_a_hundred_are_sent(site: Site, version: str) -> None:
    site.rpc.completer("travel", "city")(lambda value: [f"{value}{n}" for n in range(int(value))])
    for count, more in ((100, False), (101, True)):
        completion = result(complete(site, "city", str(count), version))["completion"]
        assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, count, more)


def test_suggestions_may_come_one_by_one(site: Site) -> None:
    def some(value: str) -> Iterator[str]:
        yield "a"
        yield "b"

    async def some_later(value: str) -> AsyncIterator[str]:
        yield "c"
        yield "d"

    async def later(value: str) -> tuple[str, ...]:
        return ("e",)

    site.rpc.completer("travel", "city")(some)
    site.rpc.completer("travel", "style")(some_later)
    site.rpc.completer(TRAINS["uri"], "city")(later)
    site.rpc.completer(TRAINS["uri"], "train")(lambda value: "just one")
    assert values(complete(site, "city", "")) == ["a", "b"]
    assert values(complete(site, "style", "")) == ["c", "d"]
    assert values(complete(site, "city", "", ref=TRAINS)) == ["e"]
    assert values(complete(site, "train", "", ref=TRAINS)) == ["just one"]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize("wrong", [None, 5, [1], ["a", None], ["\ud800"], [["a"]]])
def test_what_is_no_suggestion_is_logged_and_not_told(
    site: Site, version: str, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site.rpc.completer("travel", "city")(lambda value: wrong)
    status, code, message = error(complete(site, "city", "", version))
    assert (status, code) == (200, -32603)
    assert message.rpartition(" ")[2] in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_what_fails_in_a_completer_is_an_error_of_the_protocol(
    site: Site, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    @site.rpc.completer("travel", "city")
    def fail(value: str) -> list[str]:
        raise RpcError("not today") if value == "expected" else ValueError("secret")

    assert error(complete(site, "city", "expected", version)) == (200, -32000, "not today")
    response = complete(site, "city", "unexpected", version)
    assert error(response)[:2] == (200, -32603)
    assert "secret" not in response.text
    assert "secret" in caplog.text


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_what_was_typed_may_not_fit_yet(site: Site, version: str) -> None:
    site.rpc.completer(TRAINS["uri"], "train")(numbers)
    assert values(complete(site, "train", "7", version, ref=TRAINS)) == ["70"]
    assert error(complete(site, "train", "x", version, ref=TRAINS))[1] == -32602


def numbers(value: int) -> list[str]:
    return [f"{value * 10}"]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_completer_cannot_ask(site: Site, version: str) -> None:
    """There is no person to ask for each letter that is typed, and no version knows such an answer."""

    @site.rpc.completer("travel", "city")
    def ask(value: str) -> list[str]:
        return [current_call.elicit("Which?").action]

    client = client_of(version, site.client, capabilities={"elicitation": {}})
    params = {"ref": {"type": "ref/prompt", "name": "travel"}, "argument": {"name": "city", "value": ""}}
    assert client.post("completion/complete", params).get_json()["error"]["code"] == -32021


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_completer_can_have_a_rate_limit(version: str) -> None:
    limiter = Limiter(lambda: "unused", storage_uri="memory://")
    site = Site(McpBlueprint(limiter=limiter), SECRET_KEY="key")
    limiter.init_app(site.app)
    site.rpc.add_prompt("travel", lambda city: city)
    site.rpc.completer("travel", "city", rate_limit="1/hour")(good)
    assert values(complete(site, "city", "", version)) == []
    assert error(complete(site, "city", "", version))[:2] == (429, -32005)


PROMPT = {"type": "ref/prompt", "name": "travel"}
ARGUMENT = {"name": "city", "value": ""}


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"argument": ARGUMENT}, "params.ref must be an object"),
        ({"ref": "travel", "argument": ARGUMENT}, "params.ref must be an object"),
        ({"ref": {}, "argument": ARGUMENT}, "params.ref.type must be ref/prompt or ref/resource"),
        ({"ref": {"type": "ref/tool", "name": "x"}, "argument": ARGUMENT}, "params.ref.type must be ref/prompt or"),
        ({"ref": {"type": "ref/prompt"}, "argument": ARGUMENT}, "params.name must be a string"),
        ({"ref": {"type": "ref/resource", "uri": 7}, "argument": ARGUMENT}, "params.uri must be a string"),
        ({"ref": PROMPT}, "params.argument must be an object"),
        ({"ref": PROMPT, "argument": {"name": "city"}}, "params.value must be a string"),
        ({"ref": PROMPT, "argument": {"name": "city", "value": 7}}, "params.value must be a string"),
        ({"ref": PROMPT, "argument": {"name": "cty", "value": ""}}, "there is no argument 'cty' to complete"),
        ({"ref": PROMPT, "argument": ARGUMENT, "context": []}, "params.context.arguments must be an object of strings"),
        ({"ref": PROMPT, "argument": ARGUMENT, "context": {"arguments": {"a": 1}}}, "params.context.arguments must be"),
        ({"ref": PROMPT, "argument": {"name": "c\n" * 999, "value": ""}}, "there is no argument 'c"),
    ],
)
def test_params_that_ask_for_nothing_we_know_are_refused(site: Site, version: str, params: Any, problem: str) -> None:
    status, code, message = error(client_of(version, site.client).post("completion/complete", params))
    assert (status, code) == (400 if version == MODERN else 200, -32602)
    assert message.startswith(problem)
    assert len(message) <= 1000


def test_completion_needs_no_name_in_a_header(site: Site) -> None:
    response = ModernClient(site.client).post(
        "completion/complete", {"ref": PROMPT, "argument": ARGUMENT}, Mcp_Name=None
    )
    assert values(response) == []


# Access


@pytest.fixture
def guarded() -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
    for access, prompt, template in (([], "public", "open://{city}"), (["write"], "hidden", "shut://{city}")):
        site.rpc.add_prompt(prompt, lambda city: city, access=access)
        site.rpc.add_resource(template, lambda city: city, name="x", access=access)
        site.rpc.completer(prompt, "city")(lambda value: CITIES)
        site.rpc.completer(template, "city")(lambda value: CITIES)
    return site


REFERENCES = [
    ({"type": "ref/prompt", "name": "public"}, {"type": "ref/prompt", "name": "hidden"}, "hidden", "absent"),
    (
        {"type": "ref/resource", "uri": "open://{city}"},
        {"type": "ref/resource", "uri": "shut://{city}"},
        "shut://{city}",
        "gone://{city}",
    ),
]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0], LEGACY[-1]])
@pytest.mark.parametrize("caller", [None, "reader", "writer"])
@pytest.mark.parametrize(("public", "hidden", "there", "absent"), REFERENCES)
@pytest.mark.parametrize("argument", [{"name": "city", "value": ""}, {"name": "x", "value": ""}, {}, None])
def test_what_one_may_not_use_cannot_be_completed(
    guarded: Site, version: str, caller: str | None, public: Any, hidden: Any, there: str, absent: str, argument: Any
) -> None:
    client = client_of(version, guarded.client, headers=basic(caller) if caller else {})

    def ask(ref: Any) -> Any:
        return client.post("completion/complete", {"ref": ref, "argument": argument})

    gone = {name: absent if value == there else value for name, value in hidden.items()}
    if argument == ARGUMENT:
        assert values(ask(public)) == CITIES
    if caller == "writer":
        assert (argument != ARGUMENT) or values(ask(hidden)) == CITIES
        return
    refused, unknown = ask(hidden), ask(gone)
    assert refused.status == unknown.status
    assert refused.data.replace(there.encode(), absent.encode()) == unknown.data
    assert list(refused.headers) == list(unknown.headers)
    status = 401 if caller is None else 400 if version == MODERN else 200
    assert error(refused)[:2] == (status, -32602)


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(("caller", "suggested"), [(None, ["a"]), ("reader", ["a"]), ("admin", CITIES)])
def test_a_completer_with_permissions_of_its_own_is_not_there_for_others(
    version: str, caller: str | None, suggested: list[str]
) -> None:
    """The prompt is: so what it has by itself is suggested."""
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")

    @site.rpc.prompt
    def travel(city: Literal["a"]) -> str:
        return ""

    site.rpc.completer("travel", "city", access=["administer"])(lambda value: CITIES)
    assert values(complete(site, "city", "", version, headers=basic(caller) if caller else {})) == suggested
