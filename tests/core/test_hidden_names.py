"""A name one may not use cannot be told from one that does not exist: every caller, tool and face, generated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations, product
from typing import Annotated, Any

import pytest
from flask_httpauth import MultiAuth
from werkzeug.test import TestResponse

from flask_jsonrpc_mcp import McpBlueprint, mcp_tool
from flask_jsonrpc_mcp.mcp.protocol import LEGACY
from tests.conftest import Site, asking, basic, make_auth, make_token_auth
from tests.support.faces import (
    Asked,
    Face,
    batch,
    by_query,
    jsonrpc,
    jsonrpc_get,
    mcp_legacy,
    mcp_modern,
    notification,
    own_url,
    own_url_get,
    rest,
)
from tests.support.mcp_messages import modern_headers, modern_meta

ABSENT = "absent"

READ = mcp_tool(annotations={"readOnlyHint": True})
WRITE = mcp_tool


@dataclass(frozen=True)
class Caller:
    headers: Mapping[str, str]
    permissions: frozenset[str] = frozenset()


CALLERS = {
    "anonymous": Caller({}),
    "one permission": Caller(basic("writer"), frozenset({"write"})),
    "all permissions": Caller(basic("admin"), frozenset({"write", "administer"})),
    "bearer": Caller({"Authorization": "Bearer writer-token"}, frozenset({"write"})),
}


@dataclass(frozen=True)
class Declared:
    """A method of the site. All names have six letters, so that answers have one length."""

    access: frozenset[str] = frozenset()
    mark: Any = READ
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_tool(self) -> bool:
        return self.mark is not None

    @property
    def by_get(self) -> bool:
        return self.mark is READ


ONE, BOTH = frozenset({"write"}), frozenset({"write", "administer"})

METHODS = {
    "public": Declared(),
    "single": Declared(ONE),
    "double": Declared(BOTH),
    "change": Declared(BOTH, WRITE),
    "cached": Declared(BOTH, READ, {"max_age": 60}),
    "inward": Declared(mark=None),
    "closed": Declared(BOTH, mark=None),
}
# Such methods show more of themselves to a call than that they are there.
NEEDY = {
    "sample": Declared(BOTH, mcp_tool(requires=["sampling"])),
    "region": Declared(BOTH, READ),
}


@pytest.fixture(scope="module")
def ran() -> list[str]:
    return []


@pytest.fixture(scope="module")
def site(ran: list[str]) -> Site:
    site = Site(McpBlueprint(auth=MultiAuth(make_auth(), make_token_auth())))
    for name, declared in METHODS.items():
        # What is declared as required is the one argument of GOOD.

        def method(number: int, name: str = name) -> str:
            ran.append(name)
            return f"ran {name}"

        marked = method if declared.mark is None else declared.mark(method)
        site.rpc.add_method(name, marked, access=declared.access, **declared.options)
        declare_prompt_and_resources(site.rpc, name, method, declared.access)

    def mirrored(number: Annotated[int, {"x-mcp-header": "Number"}]) -> None:
        ran.append("region")

    site.rpc.add_method("sample", NEEDY["sample"].mark(lambda: ran.append("sample")), access=BOTH)
    site.rpc.add_method("region", NEEDY["region"].mark(mirrored), access=BOTH)
    return site


def declare_prompt_and_resources(rpc: McpBlueprint, name: str, run: Any, access: frozenset[str]) -> None:
    """Under the same name: a prompt, a resource with one URI, a template, and completers."""
    rpc.add_prompt(name, run, access=access)
    rpc.add_resource(f"fixed://{name}", lambda: run(1), name=name, access=access)
    rpc.add_resource(f"{name}://{{number}}", lambda number: run(number), name=name, access=access)
    rpc.completer(name, "number")(lambda value: run(value))
    rpc.completer(f"{name}://{{number}}", "number")(lambda value: run(value))


def describe(name: str, arguments: Any) -> Asked:
    return Asked(f"/mcp/tools/describe?name={name}")


def modern(method: str, params: Any) -> Asked:
    return Asked("/mcp", asking(method, {**params, "_meta": modern_meta()}), modern_headers(method, params))


def legacy(method: str, params: Any) -> Asked:
    return Asked("/mcp", asking(method, params), {"MCP-Protocol-Version": LEGACY[0]})


def prompt(name: str, arguments: Any) -> Asked:
    return modern("prompts/get", {"name": name, "arguments": arguments})


def prompt_legacy(name: str, arguments: Any) -> Asked:
    return legacy("prompts/get", {"name": name, "arguments": arguments})


def resource(name: str, arguments: Any) -> Asked:
    return modern("resources/read", {"uri": f"fixed://{name}"})


def resource_legacy(name: str, arguments: Any) -> Asked:
    return legacy("resources/read", {"uri": f"fixed://{name}"})


def template(name: str, arguments: Any) -> Asked:
    return modern("resources/read", {"uri": f"{name}://{len(arguments)}"})


def template_legacy(name: str, arguments: Any) -> Asked:
    return legacy("resources/read", {"uri": f"{name}://{len(arguments)}"})


def completed(ref: Any, arguments: Any) -> Any:
    """What is wrong with the arguments is wrong with the argument here."""
    return {"ref": ref, "argument": {"name": "number", "value": "1"} if arguments == GOOD else arguments}


def completion(name: str, arguments: Any) -> Asked:
    return modern("completion/complete", completed({"type": "ref/prompt", "name": name}, arguments))


def completion_legacy(name: str, arguments: Any) -> Asked:
    return legacy("completion/complete", completed({"type": "ref/prompt", "name": name}, arguments))


def template_completion(name: str, arguments: Any) -> Asked:
    ref = {"type": "ref/resource", "uri": f"{name}://{{number}}"}
    return modern("completion/complete", completed(ref, arguments))


NOT_METHODS: list[Face] = [
    prompt,
    prompt_legacy,
    resource,
    resource_legacy,
    template,
    template_legacy,
    completion,
    completion_legacy,
    template_completion,
]
CALLING: list[Face] = [
    rest,
    own_url,
    own_url_get,
    jsonrpc,
    jsonrpc_get,
    batch,
    notification,
    mcp_modern,
    mcp_legacy,
    *NOT_METHODS,
]
TOOLS_ONLY = {describe, rest, own_url, own_url_get, mcp_modern, mcp_legacy}
BY_GET = {own_url_get, jsonrpc_get}

GOOD = {"number": 1}
PAIRS = list(permutations(["public", "double", ABSENT], 2))
BAD: list[Any] = [{}, {"number": "x"}, {"other": 1}, [], [1, 2, 3], {"name": "public"}]


def may_know(caller: Caller, declared: Declared, face: Face) -> bool:
    """The one truth that every face must tell."""
    return declared.access <= caller.permissions and (declared.is_tool or face not in TOOLS_ONLY)


def whole(response: TestResponse, name: str) -> Any:
    """Everything there is to see of an answer, but for the name that was asked for."""
    return response.status, response.data.replace(name.encode(), b"NAME"), sorted(response.headers)


def matrix(methods: Mapping[str, Declared], faces: list[Face], *, known: bool) -> list[Any]:
    """Every caller, method and face for which the caller may know of the method, or may not."""
    return [
        pytest.param(caller, name, face, id=f"{who}-{name}-{face.__name__}")
        for (who, caller), (name, declared), face in product(CALLERS.items(), methods.items(), faces)
        if may_know(caller, declared, face) is known
    ]


@pytest.mark.parametrize(("caller", "name", "face"), matrix({**METHODS, **NEEDY}, [describe, *CALLING], known=False))
def test_a_hidden_name_is_answered_as_one_that_is_absent(
    site: Site, ran: list[str], caller: Caller, name: str, face: Face
) -> None:
    ran.clear()
    for arguments in (GOOD, *BAD):
        hidden = face(name, arguments).send(site.client, caller.headers)
        absent = face(ABSENT, arguments).send(site.client, caller.headers)
        assert whole(hidden, name) == whole(absent, ABSENT)
    assert ran == []


@pytest.mark.parametrize(("caller", "name", "face"), matrix(METHODS, CALLING, known=True))
def test_a_name_one_may_use_runs_on_every_face(
    site: Site, ran: list[str], caller: Caller, name: str, face: Face
) -> None:
    """The other half: were everything hidden, the test above would be content."""
    ran.clear()
    response = face(name, GOOD).send(site.client, caller.headers)
    if face in BY_GET and not METHODS[name].by_get:
        assert (response.status_code, ran) == (405, [])
        return
    assert ran == [name]
    assert response.status_code == (204 if face is notification else 200)
    assert face is notification or f"ran {name}" in response.text


@pytest.mark.parametrize(("caller", "name", "face"), matrix(METHODS, [describe], known=True))
def test_a_tool_one_may_use_is_described(site: Site, caller: Caller, name: str, face: Face) -> None:
    response = face(name, None).send(site.client, caller.headers)
    assert response.get_json()["tool"]["name"] == name


def modern_list() -> Asked:
    return Asked("/mcp", asking("tools/list", {"_meta": modern_meta()}), modern_headers("tools/list", {}))


LISTS: dict[str, tuple[Asked, list[str], bool]] = {
    "REST": (Asked("/mcp/tools/list"), ["tools"], True),
    "MCP": (modern_list(), ["result", "tools"], True),
    **{
        f"MCP {version}": (
            Asked("/mcp", asking("tools/list", {}), {"MCP-Protocol-Version": version}),
            ["result", "tools"],
            True,
        )
        for version in LEGACY
    },
    "OpenRPC": (Asked("/jsonrpc", asking("rpc.discover")), ["result", "methods"], False),
    "OpenRPC by GET": (Asked(by_query("/jsonrpc", asking("rpc.discover"))), ["result", "methods"], False),
}
"""The request, where in its answer the list is, and whether it has tools only."""


@pytest.mark.parametrize("face", LISTS)
@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_a_list_has_what_its_caller_may_use_and_nothing_of_the_rest(site: Site, caller: Caller, face: str) -> None:
    asked, place, tools_only = LISTS[face]
    response = asked.send(site.client, caller.headers)
    listed = response.get_json()
    for member in place:
        listed = listed[member]
    everything = {**METHODS, **NEEDY}
    visible = [
        name
        for name, declared in everything.items()
        if declared.access <= caller.permissions and (declared.is_tool or not tools_only)
    ]
    assert [entry["name"] for entry in listed] == visible
    assert not [name for name in everything if name not in visible and name in response.text]


@pytest.mark.parametrize("ask", [modern, legacy])
@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ],
)
@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_so_have_the_lists_of_what_is_no_method(
    site: Site, caller: Caller, method: str, member: str, ask: Face
) -> None:
    response = ask(method, {}).send(site.client, caller.headers)
    visible = [name for name, declared in METHODS.items() if declared.access <= caller.permissions]
    assert [entry["name"] for entry in response.get_json()["result"][member]] == visible
    assert not [name for name in METHODS if name not in visible and name in response.text]


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_the_well_known_page_names_no_method_to_anyone(site: Site, caller: Caller) -> None:
    response = Asked("/.well-known/mcp.json").send(site.client, caller.headers)
    assert response.status_code == 200
    assert not [name for name in (*METHODS, *NEEDY) if f'"{name}"' in response.text]
    assert response.data == Asked("/.well-known/mcp.json").send(site.client).data


@pytest.mark.parametrize("verb", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(("caller", "name", "face"), matrix(METHODS, [own_url_get], known=False))
def test_no_other_verb_tells_either(site: Site, caller: Caller, name: str, face: Face, verb: str) -> None:
    hidden, absent = (
        site.client.open(face(asked, GOOD).path, method=verb, headers=caller.headers) for asked in (name, ABSENT)
    )
    assert whole(hidden, name) == whole(absent, ABSENT)


@pytest.mark.parametrize("caller", [CALLERS["anonymous"], CALLERS["all permissions"]], ids=["anonymous", "admin"])
@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_a_path_and_a_body_with_two_names_run_nothing(
    site: Site, ran: list[str], caller: Caller, here: str, there: str
) -> None:
    ran.clear()
    path, asked = f"/mcp/tools/{here}", asking(there, GOOD)
    for sent in (Asked(path, asked), Asked(by_query(path, asked)), Asked(path, [asking(here, GOOD), asked])):
        response = sent.send(site.client, caller.headers)
        assert response.status_code == 400
        assert response.get_json()["error"]["code"] == -32600
    twice = json.dumps(asking(here, GOOD))[:-1] + f', "method": "{there}"}}'
    assert site.rpc_post(twice, path, headers=caller.headers).get_json()["error"]["code"] == -32700
    assert site.rpc_post(asking(there, GOOD, id=...), path, headers=caller.headers).status_code == 400
    assert ran == []


@pytest.mark.parametrize("caller", [CALLERS["anonymous"], CALLERS["all permissions"]], ids=["anonymous", "admin"])
@pytest.mark.parametrize(("here", "there"), PAIRS)
def test_a_header_and_a_body_with_two_names_run_nothing(
    site: Site, ran: list[str], caller: Caller, here: str, there: str
) -> None:
    ran.clear()
    asked = mcp_modern(there, GOOD)
    for named in ([here], [there, here], [there, there]):
        headers = [*caller.headers.items(), *(("Mcp-Name", name) for name in named)]
        headers += [(name, value) for name, value in asked.headers.items() if name != "Mcp-Name"]
        response = site.client.post(asked.path, json=asked.payload, headers=headers)
        assert response.status_code == 400
        assert response.get_json()["error"]["code"] == -32020
    assert ran == []
