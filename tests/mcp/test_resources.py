"""Resources: declared under a URI or a template, listed and read by clients of every version."""

from __future__ import annotations

import datetime
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from flask_limiter import Limiter

from flask_jsonrpc_mcp import EmbeddedResource, McpBlueprint, PromptMessage, RpcError, TextContent, ToolResult
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN, VERSIONS
from tests.conftest import Site, basic, make_app, make_auth
from tests.support.mcp_messages import LegacyClient, ModernClient, client_of, error, result


def read(site: Site, uri: str, version: str = MODERN, **options: Any) -> Any:
    return client_of(version, site.client, **options).post("resources/read", {"uri": uri})


def contents(response: Any) -> Any:
    return result(response)["contents"]


@pytest.fixture
def site() -> Site:
    return Site(McpBlueprint(), SECRET_KEY="key")


# Declaring


def test_the_decorator_returns_the_function() -> None:
    rpc = McpBlueprint()

    def article(id: int) -> str:
        return f"Article {id}"

    assert rpc.resource("articles://{id}")(article) is article
    assert rpc.add_resource("more://{id}", article) is article
    assert article(7) == "Article 7"


def no_parameters() -> str:
    return ""


def by_id(id: int) -> str:
    return ""


@pytest.mark.parametrize(
    ("uri", "func", "options", "problem"),
    [
        ("latest", no_parameters, {}, "no_parameters(): 'latest' cannot be a resource's URI; write one such as"),
        (7, no_parameters, {}, "a resource's URI must be a str such as 'articles://latest', not int"),
        ("a://{id", by_id, {}, "by_id(): the braces of 'a://{id' do not match"),
        ("a://{?id}", by_id, {}, "by_id(): {?id} in 'a://{?id}' cannot be matched with a URI"),
        ("a://{no}", by_id, {}, "by_id(): 'a://{no}' uses {no}, but the function has no parameter 'no' (it has: id)"),
        (
            "a://{id}",
            no_parameters,
            {},
            "no_parameters(): 'a://{id}' uses {id}, but the function has no parameter 'id' (it has: none)",
        ),
        ("a://b", by_id, {}, "by_id(): parameter 'id' is not in 'a://b'; put {id} into the URI"),
        ("a://b", no_parameters, {"name": "a b"}, "no_parameters(): 'a b' cannot be a method's name"),
        ("a://b", no_parameters, {"title": "\0"}, "no_parameters(): title has the invisible character U+0000"),
        ("a://b", no_parameters, {"mime_type": 1}, "no_parameters(): mime_type must be a str, not int"),
        (
            "a://b",
            no_parameters,
            {"max_age": -1},
            "no_parameters(): max_age must be a whole number of seconds",
        ),
        ("a://b", no_parameters, {"access": "write"}, "no_parameters(): access must be a list of permissions"),
        ("a://b", no_parameters, {"annotations": [1]}, "no_parameters(): annotations must be a dict"),
        ("a://b", no_parameters, {"size": 1}, "no_parameters(): a resource has no option 'size'; it has description"),
        ("a://b", no_parameters, {"rate_limit": "1/day"}, "no_parameters(): a rate limit needs a limiter"),
    ],
)
def test_mistakes_name_the_function_and_the_fix(uri: Any, func: Any, options: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(problem)):
        McpBlueprint().add_resource(uri, func, **options)


def test_a_decorator_without_a_uri_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=re.escape("@rpc.resource needs a URI; write @rpc.resource('articles://{id}')")):
        McpBlueprint().resource(no_parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize(("uri", "func"), [("a://b", no_parameters), ("a://{id}", by_id)])
def test_a_uri_belongs_to_one_resource(uri: str, func: Any) -> None:
    rpc = McpBlueprint()
    rpc.add_resource(uri, func)
    with pytest.raises(ValueError, match=re.escape(f"the name {uri!r} already belongs to {func.__name__}()")):
        rpc.add_resource(uri, func)


# Listing


def declare_articles(rpc: McpBlueprint) -> None:
    @rpc.resource(
        "articles://latest",
        title="Latest",
        mime_type="text/markdown",
        annotations={"audience": ["user"], "priority": 0.5},
    )
    def latest() -> str:
        """The newest article."""
        return "# New"

    @rpc.resource("articles://{id}", name="article", title="Article", description="Any article.")
    def any_article(id: int) -> str | None:
        return f"Article {id}" if id < 10 else None


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_are_described_as_each_version_knows_them(site: Site, version: str) -> None:
    """Titles came with 2025-06-18."""
    declare_articles(site.rpc)
    client = client_of(version, site.client)
    fixed = {
        "uri": "articles://latest",
        "name": "latest",
        "title": "Latest",
        "description": "The newest article.",
        "mimeType": "text/markdown",
        "annotations": {"audience": ["user"], "priority": 0.5},
    }
    template = {
        "uriTemplate": "articles://{id}",
        "name": "article",
        "title": "Article",
        "description": "Any article.",
    }
    if version < "2025-06-18":
        del fixed["title"], template["title"]
    listed = result(client.post("resources/list"))
    assert (listed["resources"], "nextCursor" in listed) == ([fixed], False)
    assert result(client.post("resources/templates/list"))["resourceTemplates"] == [template]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(
    ("method", "member", "uri"),
    [("resources/list", "resources", "a://{}"), ("resources/templates/list", "resourceTemplates", "a://{}/{{id}}")],
)
def test_resources_are_listed_page_by_page(version: str, method: str, member: str, uri: str) -> None:
    site = Site(McpBlueprint(), SECRET_KEY="key", JSONRPC_MCP_PAGE_SIZE=2, JSONRPC_MCP_LIST_MAX_AGE=5)
    for name in "edcba":
        site.rpc.add_resource(uri.format(name), by_id if "{{" in uri else no_parameters, name=name)
    client = client_of(version, site.client)
    names: list[list[str]] = []
    params: dict[str, Any] = {}
    for _ in range(3):
        page = result(client.post(method, params))
        names.append([resource["name"] for resource in page[member]])
        params = {"cursor": page.get("nextCursor")}
        if version == MODERN:
            assert (page["ttlMs"], page["cacheScope"]) == (5000, "public")
    assert (names, params) == ([["e", "d"], ["c", "b"], ["a"]], {"cursor": None})
    assert error(client.post(method, {"cursor": "!"}))[1] == -32602


@pytest.mark.parametrize("version", VERSIONS)
def test_without_resources_there_is_nothing_to_ask_for(site: Site, version: str) -> None:
    client = client_of(version, site.client)

    def capabilities() -> Any:
        opened = client.initialize() if isinstance(client, LegacyClient) else client.post("server/discover")
        return result(opened)["capabilities"]

    for method in ("resources/list", "resources/templates/list", "resources/read", "resources/subscribe"):
        assert error(client.post(method, {"uri": "a://b"}))[1] == -32601
    assert "resources" not in capabilities()
    site.rpc.add_resource("a://b", lambda: "x", name="x")
    assert (capabilities()["resources"], "completions" in capabilities()) == ({}, False)
    assert contents(client.post("resources/read", {"uri": "a://b"}))[0]["text"] == "x"
    assert result(client.post("resources/templates/list"))["resourceTemplates"] == []
    site.rpc.add_resource("a://{id}", by_id)
    assert ("completions" in capabilities()) is (version >= "2025-03-26")


def test_what_is_added_or_removed_is_so_at_once(site: Site) -> None:
    declare_articles(site.rpc)
    assert contents(read(site, "articles://latest"))[0]["text"] == "# New"
    site.rpc.remove_resource("articles://latest")
    assert error(read(site, "articles://latest"))[1] == -32602  # the template takes a number
    assert result(ModernClient(site.client).post("resources/list"))["resources"] == []
    site.rpc.remove_resource("articles://{id}")
    assert error(read(site, "articles://7"))[1] == -32601
    for uri in ("articles://latest", "articles://{id}"):
        with pytest.raises(KeyError):
            site.rpc.remove_resource(uri)
    declare_articles(site.rpc)
    assert contents(read(site, "articles://7"))[0]["text"] == "Article 7"


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_resource_that_removes_itself_has_still_been_read(site: Site, version: str) -> None:
    def once() -> str:
        site.rpc.remove_resource("a://once")
        return "read"

    site.rpc.add_resource("a://once", once, max_age=5)
    site.rpc.add_resource("a://other", no_parameters)
    assert contents(read(site, "a://once", version))[0]["text"] == "read"
    assert error(read(site, "a://once", version))[1] == (-32602 if version == MODERN else -32002)


def test_two_blueprints_have_resources_of_their_own() -> None:
    one, two = McpBlueprint("one", url_prefix="/one"), McpBlueprint("two", url_prefix="/two")
    one.add_resource("a://same", lambda: "first", name="x")
    two.add_resource("a://same", lambda: "second", name="x")
    client = make_app(one, two).test_client()
    for prefix, said in (("/one", "first"), ("/two", "second")):
        response = ModernClient(client, path=f"{prefix}/mcp").post("resources/read", {"uri": "a://same"})
        assert contents(response)[0]["text"] == said


# Reading


PNG = b"\x89PNG\r\n"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("returned", "mime_type", "spelled"),
    [
        ("text", None, [{"uri": "a://b", "mimeType": "text/plain", "text": "text"}]),
        ("", None, [{"uri": "a://b", "mimeType": "text/plain", "text": ""}]),
        ("# x", "text/markdown", [{"uri": "a://b", "mimeType": "text/markdown", "text": "# x"}]),
        (PNG, "image/png", [{"uri": "a://b", "mimeType": "image/png", "blob": b64encode(PNG).decode()}]),
        (b"", None, [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": ""}]),
        (bytearray(b"1"), None, [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": "MQ=="}]),
        (memoryview(b"1"), None, [{"uri": "a://b", "mimeType": "application/octet-stream", "blob": "MQ=="}]),
        (
            {"é": datetime.date(2026, 1, 2)},
            None,
            [{"uri": "a://b", "mimeType": "application/json", "text": '{"é":"2026-01-02"}'}],
        ),
        ([], None, [{"uri": "a://b", "mimeType": "application/json", "text": "[]"}]),
        (False, None, [{"uri": "a://b", "mimeType": "application/json", "text": "false"}]),
        (0, None, [{"uri": "a://b", "mimeType": "application/json", "text": "0"}]),
        (EmbeddedResource("c://d", "e"), None, [{"uri": "c://d", "text": "e"}]),
        (
            [EmbeddedResource("c://1", "e", "text/x"), EmbeddedResource("c://2", b"1")],
            "a/b",
            [{"uri": "c://1", "mimeType": "text/x", "text": "e"}, {"uri": "c://2", "mimeType": "a/b", "blob": "MQ=="}],
        ),
        (
            (EmbeddedResource("c://1", "e"), "its own"),
            None,
            [{"uri": "c://1", "text": "e"}, {"uri": "a://b", "mimeType": "text/plain", "text": "its own"}],
        ),
    ],
)
def test_what_a_resource_returns_becomes_contents(
    site: Site, version: str, returned: Any, mime_type: str | None, spelled: Any
) -> None:
    site.rpc.add_resource("a://b", lambda: returned, name="x", mime_type=mime_type)
    got = result(read(site, "a://b", version))
    assert got["contents"] == spelled
    extra = {"resultType", "ttlMs", "cacheScope", "_meta"} if version == MODERN else set()
    assert set(got) == {"contents"} | extra


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_async_and_generator_functions_are_resources_too(site: Site, version: str) -> None:
    async def later() -> str:
        return "later"

    def lines() -> Iterator[str]:
        yield "a\n"
        yield "b\n"

    def several() -> Iterator[EmbeddedResource]:
        yield EmbeddedResource("a://1", "x")
        yield EmbeddedResource("a://2", b"y")

    for function in (later, lines, several):
        site.rpc.add_resource(f"a://{function.__name__}", function)
    assert contents(read(site, "a://later", version))[0]["text"] == "later"
    whole = {"uri": "a://lines", "mimeType": "text/plain", "text": "a\nb\n"}
    assert contents(read(site, "a://lines", version)) == [whole]
    assert [each["uri"] for each in contents(read(site, "a://several", version))] == ["a://1", "a://2"]


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(
    "wrong",
    [
        object(),
        float("nan"),
        "\ud800",
        {1: 2},
        TextContent("x"),
        ToolResult("x"),
        PromptMessage("x"),
        EmbeddedResource("a:b", 5),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_read_is_logged_and_not_told(
    site: Site, version: str, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    site.rpc.add_resource("a://b", lambda: wrong, name="x")
    status, code, message = error(read(site, "a://b", version))
    assert (status, code) == (200, -32603)
    assert message.rpartition(" ")[2] in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_none_means_that_there_is_nothing_under_this_uri(site: Site, version: str) -> None:
    """As if there were no such resource; its code changed with 2026-07-28."""
    declare_articles(site.rpc)
    nothing, absent = read(site, "articles://99", version), read(site, "nothing://99", version)
    assert nothing.status == absent.status
    assert nothing.data.replace(b"articles", b"nothing") == absent.data
    assert nothing.get_json()["error"] == {
        "code": -32602 if version == MODERN else -32002,
        "message": "Unknown resource: articles://99",
        "data": {"uri": "articles://99"},
    }
    assert nothing.status_code == (400 if version == MODERN else 200)


@pytest.mark.parametrize(
    ("uri", "value"),
    [("a://7", 7), ("a://-7", -7), ("a://%37", 7), ("a://7.0", 7)],
)
def test_what_a_uri_says_becomes_what_the_hints_say(site: Site, uri: str, value: int) -> None:
    got: list[int] = []

    def numbered(id: int) -> str:
        got.append(id)
        return ""

    site.rpc.add_resource("a://{id}", numbered)
    assert contents(read(site, uri)) == [{"uri": uri, "mimeType": "text/plain", "text": ""}]
    assert got == [value]


def test_a_parameter_that_is_not_in_the_uri_keeps_its_default(site: Site) -> None:
    site.rpc.add_resource("a://{day}", lambda day, size=5: f"{day} {size}", name="x", params=DAY)
    assert contents(read(site, "a://2026-01-02"))[0]["text"] == "2026-01-02 5"


DAY = {"properties": {"day": {"type": "string", "format": "date"}}, "required": ["day"]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_uri_that_breaks_the_schema_is_invalid_params(site: Site, version: str) -> None:
    declare_articles(site.rpc)
    response = read(site, "articles://x", version)
    body = response.get_json()["error"]
    assert response.status_code == (400 if version == MODERN else 200)
    assert (body["code"], body["message"]) == (-32602, "Invalid params")
    assert [problem["path"] for problem in body["data"]["errors"]] == ["/id"]


def test_a_fixed_uri_goes_before_a_template_and_the_first_template_before_others(site: Site) -> None:
    site.rpc.add_resource("a://{+path}", lambda path: f"path {path}", name="x")
    site.rpc.add_resource("a://{key}", lambda key: f"id {key}", name="x")
    site.rpc.add_resource("a://b", lambda: "fixed", name="x")
    assert contents(read(site, "a://b"))[0]["text"] == "fixed"
    assert contents(read(site, "a://c"))[0]["text"] == "path c"


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_params_that_name_no_uri_are_refused(site: Site, version: str) -> None:
    declare_articles(site.rpc)
    headers: dict[str, Any] = {"Mcp_Name": None} if version == MODERN else {}
    for params in ({}, {"uri": None}, {"uri": 7}, {"uri": ["articles://7"]}, {"name": "articles://7"}):
        body = client_of(version, site.client).post("resources/read", params, **headers).get_json()
        assert body["error"]["code"] in (-32602, -32020)


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "a",
        "a://",
        "a://" + "x" * 3000,
        "a://%ff",
        "a://x/y",
        "a://x?y",
        "b://x",
        "a://{id}",
        "a:// x\ny",
        "A://x",
        "\0",
        "a://é\0",
    ],
)
def test_hostile_uris_are_just_unknown(site: Site, version: str, uri: str) -> None:
    site.rpc.add_resource("a://{key}", lambda key: f"got {key!r}", name="x")
    encoded = f"=?base64?{b64encode(uri.encode()).decode()}?="
    headers = {"Mcp_Name": encoded} if version == MODERN else {}
    response = client_of(version, site.client).post("resources/read", {"uri": uri}, **headers)
    body = response.get_json()
    if "result" in body:
        assert body["result"]["contents"][0]["uri"] == uri
        assert uri in ("a://{id}", "a:// x\ny", "a://é\0")
        return
    assert body["error"]["code"] == (-32602 if version == MODERN else -32002)
    assert len(body["error"]["message"]) < 250
    assert len(body["error"]["data"]["uri"]) <= 200


def test_the_uri_is_repeated_in_a_header(site: Site) -> None:
    """In base64 when it has characters that headers have not."""
    site.rpc.add_resource("a://{key}", lambda key: key, name="x")
    client, uri = ModernClient(site.client), "a://é"
    encoded = f"=?base64?{b64encode(uri.encode()).decode()}?="
    assert contents(client.post("resources/read", {"uri": uri}, Mcp_Name=encoded))[0]["text"] == "é"
    assert contents(client.post("resources/read", {"uri": "a://x"}))[0]["text"] == "x"
    for wrong in (None, "a://y", uri, "x", encoded):
        assert error(client.post("resources/read", {"uri": "a://x"}, Mcp_Name=wrong))[:2] == (400, -32020)


def test_a_result_says_for_how_long_and_for_whom_it_is_good() -> None:
    for rpc, scope in ((McpBlueprint(), "public"), (McpBlueprint(auth=make_auth()), "private")):
        site = Site(rpc, JSONRPC_MCP_LIST_MAX_AGE=60)
        rpc.add_resource("a://kept", lambda: "x", name="x", max_age=5)
        rpc.add_resource("a://fresh", lambda: "x", name="x")
        for uri, ttl in (("a://kept", 5000), ("a://fresh", 0)):
            got = result(read(site, uri))
            assert (got["ttlMs"], got["cacheScope"]) == (ttl, scope)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_fails_in_a_resource_is_an_error_of_the_protocol(
    site: Site, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(how: str) -> str:
        if how == "expected":
            raise RpcError("the disk is full", code=-32044, data={"id": 7})
        raise ValueError("secret")

    site.rpc.add_resource("a://{how}", fail)
    response = read(site, "a://expected", version)
    assert response.status_code == 200
    assert response.get_json()["error"] == {"code": -32044, "message": "the disk is full", "data": {"id": 7}}
    response = read(site, "a://unexpected", version)
    assert response.get_json()["error"]["code"] == -32603
    assert "secret" not in response.text
    assert "secret" in caplog.text


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
def test_a_resource_can_have_a_time_limit_and_a_rate_limit(version: str) -> None:
    limiter = Limiter(lambda: "unused", storage_uri="memory://")
    site = Site(McpBlueprint(limiter=limiter), SECRET_KEY="key")
    limiter.init_app(site.app)
    over = threading.Event()
    site.rpc.add_resource("a://slow", lambda: str(over.wait(30)), name="x", timeout=0.01)
    site.rpc.add_resource("a://{id}", by_id, rate_limit="1/hour")
    assert error(read(site, "a://slow", version))[:2] == (200, -32003)
    over.set()
    result(read(site, "a://1", version))
    assert error(read(site, "a://2", version))[:2] == (429, -32005)


# Access


@pytest.fixture
def guarded() -> Site:
    site = Site(McpBlueprint(auth=make_auth()), SECRET_KEY="key")
    site.rpc.add_resource("open://all", lambda: "for all", name="open")
    site.rpc.add_resource("shut://one", lambda: "for some", name="shut", access=["write", "administer"])
    site.rpc.add_resource("tmpl://{key}", lambda key: f"for some {key}", name="tmpl", access=["write", "administer"])
    site.rpc.add_resource("many://{key}", lambda key: f"for all {key}", name="many")
    return site


@pytest.mark.parametrize("version", [MODERN, LEGACY[0], LEGACY[-1]])
@pytest.mark.parametrize("caller", [None, "reader", "writer", "admin"])
@pytest.mark.parametrize("hidden", ["shut://one", "tmpl://two"])
def test_a_resource_one_may_not_read_is_as_one_that_is_not_there(
    guarded: Site, version: str, caller: str | None, hidden: str
) -> None:
    client = client_of(version, guarded.client, headers=basic(caller) if caller else {})
    listed = result(client.post("resources/list"))["resources"]
    templates = result(client.post("resources/templates/list"))["resourceTemplates"]
    names = [resource["name"] for resource in [*listed, *templates]]
    assert contents(client.post("resources/read", {"uri": "open://all"}))[0]["text"] == "for all"
    assert contents(client.post("resources/read", {"uri": "many://x"}))[0]["text"] == "for all x"
    got = {uri: client.post("resources/read", {"uri": uri}) for uri in (hidden, "gone://one")}
    if caller == "admin":
        assert names == ["open", "shut", "tmpl", "many"]
        assert contents(got[hidden])[0]["text"].startswith("for some")
        return
    assert names == ["open", "many"]
    assert got[hidden].status == got["gone://one"].status
    assert got[hidden].data.replace(hidden.encode(), b"gone://one") == got["gone://one"].data
    assert list(got[hidden].headers) == list(got["gone://one"].headers)
    status = 401 if caller is None else 400 if version == MODERN else 200
    code = -32602 if version == MODERN else -32002
    assert error(got[hidden]) == (status, code, f"Unknown resource: {hidden}")
    assert ("WWW-Authenticate" in got[hidden].headers) is (caller is None)


def test_without_sign_in_an_unknown_resource_is_just_unknown(site: Site) -> None:
    site.rpc.add_resource("a://hidden", no_parameters, access=["write"])
    for uri in ("a://hidden", "a://absent"):
        assert error(read(site, uri)) == (400, -32602, f"Unknown resource: {uri}")
        assert error(read(site, uri, LEGACY[0])) == (200, -32002, f"Unknown resource: {uri}")


def test_a_template_for_all_serves_those_who_may_not_read_what_is_for_some(guarded: Site) -> None:
    """They cannot tell that there is anything else under that URI."""
    guarded.rpc.add_resource("many://secret", lambda: "for some", name="secret", access=["administer"])
    for caller, said in (("writer", "for all secret"), ("admin", "for some")):
        assert contents(read(guarded, "many://secret", headers=basic(caller)))[0]["text"] == said


@pytest.mark.parametrize("version", [MODERN, LEGACY[0]])
@pytest.mark.parametrize(("caller", "status"), [(None, 401), ("reader", 403), ("admin", 200)])
def test_listing_can_take_permissions_of_its_own(version: str, caller: str | None, status: int) -> None:
    site = Site(McpBlueprint(auth=make_auth(), discover_access=["administer"]), SECRET_KEY="key")
    declare_articles(site.rpc)
    client = client_of(version, site.client, headers=basic(caller) if caller else {})
    for method in ("resources/list", "resources/templates/list"):
        assert client.post(method).status_code == status
    assert contents(client.post("resources/read", {"uri": "articles://latest"}))[0]["text"] == "# New"
