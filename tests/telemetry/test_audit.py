"""The audit trail: who has changed what, by which credentials, and never a secret."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import pytest
from marshmallow import Schema, fields
from opentelemetry.trace import NoOpTracerProvider
from pydantic import BaseModel, SecretStr
from sqlalchemy import create_engine, insert

from flask_jsonrpc_mcp import McpBlueprint, RpcError, Secret
from flask_jsonrpc_mcp.oauth import OAuthResource
from flask_jsonrpc_mcp.telemetry import audit_table
from flask_jsonrpc_mcp.telemetry.audit import Audit, AuditLog
from flask_jsonrpc_mcp.telemetry.audit_table import AuditTable
from flask_jsonrpc_mcp.telemetry.tracing import OpenTelemetry
from tests.conftest import Site, basic, make_auth
from tests.support import faces
from tests.support.answering import Respondent
from tests.support.issuer import issuing
from tests.support.mcp_messages import ModernClient, modern_meta
from tests.support.services import postgres, postgres_url
from tests.support.tokens import bearer
from tests.telemetry.spans import Recorder

__all__ = ["postgres", "postgres_url"]


class Kept(Audit):
    """An audit trail in a list."""

    def __init__(self, **options: bool) -> None:
        super().__init__(**options)
        self.records: list[dict[str, Any]] = []

    def write(self, record: Mapping[str, Any]) -> None:
        json.dumps(record)
        self.records.append(dict(record))

    def take(self) -> dict[str, Any]:
        [record] = self.records
        self.records.clear()
        return record


def make_site(audit: Audit | Sequence[Audit], **options: Any) -> Site:
    site = Site(McpBlueprint(audit=audit, auth=make_auth(), **options), SECRET_KEY="a key")

    @site.rpc.tool("articles.delete", access=["write"], confirm="Delete {id}?", confirm_required=False)
    def delete(id: int, reason: str = "") -> bool:
        if id == 404:
            raise RpcError("Article 404 does not exist")
        return True

    @site.rpc.tool("articles.get", read_only=True)
    def get(id: int) -> int:
        return id

    @site.rpc.method("reindex")
    def reindex() -> None: ...

    @site.rpc.tool("crash")
    def crash() -> None:
        raise LookupError("gone")

    return site


def test_a_record_says_who_has_done_what_with_what_and_how_it_ended() -> None:
    audit = Kept()
    site = make_site(audit)
    before = datetime.now(timezone.utc)
    response = faces.rest("articles.delete", {"id": 7, "reason": "spam"}).send(site.client, basic("writer"))
    assert response.get_json() == {"result": True}
    record = audit.take()
    assert before - timedelta(seconds=1) <= datetime.fromisoformat(record.pop("time")) <= datetime.now(timezone.utc)
    assert len(record.pop("id")) == 12
    assert record.pop("ms") >= 0
    assert record == {
        "trace_id": None,
        "blueprint": "mcp",
        "face": "rest",
        "tool": "articles.delete",
        "caller": "writer",
        "credential": "basic",
        "address": "127.0.0.1",
        "client": response.request.headers["User-Agent"],
        "client_id": None,
        "scopes": None,
        "access": ["write"],
        "confirmation": "not asked",
        "outcome": "ok",
        "arguments": {"id": "[hidden]", "reason": "[hidden]"},
    }


@pytest.mark.parametrize("face", [faces.rest, faces.jsonrpc, faces.own_url, faces.batch, faces.mcp_modern])
def test_every_face_is_recorded_and_only_what_may_change_something(face: faces.Face) -> None:
    audit = Kept()
    site = make_site(audit)
    face("articles.get", {"id": 7}).send(site.client, basic("writer"))
    face("no such tool", {}).send(site.client, basic("writer"))
    face("articles.delete", {"id": 7}).send(site.client, basic("reader"))  # hidden from readers
    assert audit.records == []
    face("articles.delete", {"id": 7}).send(site.client, basic("writer"))
    face("articles.delete", {"id": 404}).send(site.client, basic("writer"))
    face("articles.delete", {"id": "x"}).send(site.client, basic("writer"))
    face("crash", {}).send(site.client)
    outcomes = [(record["tool"], record["caller"], record["outcome"]) for record in audit.records]
    assert outcomes == [
        ("articles.delete", "writer", "ok"),
        ("articles.delete", "writer", "execution_error"),
        ("articles.delete", "writer", "invalid_arguments"),
        ("crash", "", "execution_error"),
    ]


def test_a_method_that_is_not_a_tool_may_change_something_too() -> None:
    audit = Kept()
    faces.jsonrpc("reindex", {}).send(make_site(audit).client)
    assert audit.take()["tool"] == "reindex"


def test_a_long_name_of_a_client_is_cut() -> None:
    audit = Kept()
    faces.rest("crash", {}).send(make_site(audit).client, {"User-Agent": "x" * 1000})
    assert audit.take()["client"] == "x" * 199 + "…"


def test_reads_are_recorded_if_switched_on() -> None:
    audit = Kept(reads=True, arguments=True)
    faces.rest("articles.get", {"id": 7}).send(make_site(audit).client)
    record = audit.take()
    assert (record["tool"], record["credential"], record["arguments"]) == ("articles.get", None, {"id": 7})


@pytest.mark.parametrize(("action", "outcome"), [("accept", "ok"), ("decline", "execution_error")])
def test_a_call_with_a_confirmation_is_one_record_with_the_answer(action: str, outcome: str) -> None:
    audit = Kept()
    client = ModernClient(make_site(audit).client, basic("writer"), {"elicitation": {}})
    answer = {"action": action, "content": {}} if action == "accept" else {"action": action}
    Respondent(client, [answer]).call("articles.delete", {"id": 7})
    record = audit.take()
    assert (record["confirmation"], record["outcome"], record["client"]) == (action, outcome, "test 1")


def test_the_trace_is_that_of_the_span_or_else_that_of_the_client() -> None:
    sent = "4bf92f3577b34da6a3ce929d0e0e4736"
    meta = {**modern_meta(), "traceparent": f"00-{sent}-00f067aa0ba902b7-01"}
    params = {"name": "articles.delete", "arguments": {"id": 7}, "_meta": meta}
    audit = Kept()
    ModernClient(make_site(audit).client, basic("writer")).post("tools/call", params)
    assert audit.take()["trace_id"] == sent
    recorder = Recorder()
    site = make_site(audit, telemetry=[recorder.telemetry])
    recorder.instrument(site.app)
    faces.rest("articles.delete", {"id": 7}).send(site.client, basic("writer"))
    http = recorder.exporter.get_finished_spans()[-1]
    assert http.name == "POST /mcp/tools/invoke"
    assert audit.take()["trace_id"] == f"{http.context.trace_id:032x}"


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("face", [faces.rest, faces.jsonrpc, faces.mcp_modern])
def test_without_a_span_of_the_http_request_the_trace_is_that_of_the_method(
    face: faces.Face, timeout: float | None
) -> None:
    audit, recorder = Kept(), Recorder()
    site = Site(McpBlueprint(audit=audit, telemetry=[recorder.telemetry]))
    site.tool(lambda: None, name="change", timeout=timeout)
    face("change", {}).send(site.client)
    [span, *_] = recorder.exporter.get_finished_spans()
    assert (span.name, audit.take()["trace_id"]) == ("execute_tool change", f"{span.context.trace_id:032x}")


def test_without_an_sdk_there_is_no_trace() -> None:
    audit = Kept()
    site = make_site(audit, telemetry=[OpenTelemetry(tracer_provider=NoOpTracerProvider())])
    faces.jsonrpc("reindex", {}).send(site.client)
    assert audit.take()["trace_id"] is None


def test_a_call_that_runs_no_method_has_no_trace() -> None:
    audit = Kept()
    site = make_site(audit, telemetry=[Recorder().telemetry])
    faces.rest("articles.delete", {"id": 7}).send(site.client, basic("writer"))
    assert audit.take()["trace_id"] is not None
    faces.rest("articles.delete", {"id": "x"}).send(site.client, basic("writer"))
    assert audit.take()["trace_id"] is None


def test_the_client_and_the_scopes_of_an_access_token_are_recorded() -> None:
    audit = Kept()
    with issuing() as issuer:
        rpc = McpBlueprint(audit=audit, auth=OAuthResource(issuer.url))
        site = Site(rpc, JSONRPC_MCP_PUBLIC_URL="https://site.example")
        site.tool(lambda: None, name="change", scopes=["articles:write"])
        token = issuer.token(scope="articles:read articles:write", client_id="claude")
        assert faces.rest("change", {}).send(site.client, bearer(token)).status_code == 200
    record = audit.take()
    assert (record["credential"], record["client_id"]) == ("bearer", "claude")
    assert record["scopes"] == ["articles:read", "articles:write"]


@dataclass
class Account:
    name: str
    password: Annotated[str, Secret]


class Login(BaseModel):
    name: str
    password: SecretStr


class LoginSchema(Schema):
    name = fields.String()
    password = fields.String(metadata={"writeOnly": True})


def plain(
    name: str, password: Annotated[str, "The password", Secret], more: Annotated[str | None, Secret] = None
) -> None: ...
def nested(account: Account, others: list[Account] | None = None) -> None: ...
def model(login: Login) -> None: ...
def loaded(name: str = "", password: Any = "") -> None: ...


PIN: dict[str, Any] = {"properties": {"pin": {"writeOnly": True}}}

REFERENCES: list[tuple[dict[str, Any], dict[str, Any], Any]] = [
    ({"$ref": "#/$defs/a/anyOf/1"}, {}, {"pin": "[secret]"}),
    # References that are not followed: what is below may be a secret.
    ({"$ref": "#pin"}, {"$anchor": "pin"}, "[hidden]"),
    ({"$ref": "pin.json"}, {"$id": "pin.json"}, "[hidden]"),
    ({"$dynamicRef": "#pin"}, {"$dynamicAnchor": "pin"}, "[hidden]"),
    (
        {"$id": "own.json", "$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{}, PIN]}}},
        {"properties": {}},
        "[hidden]",
    ),
]

SECRETS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (
        plain,
        {},
        {"name": "ada", "password": "hunter2", "more": "hunter3"},
        {"name": "ada", "password": "[secret]", "more": "[secret]"},
    ),
    (plain, {}, ["ada", "hunter2"], {"name": "ada", "password": "[secret]"}),
    (plain, {}, {"name": "ada", "password": 7}, {"name": "ada", "password": "[secret]"}),
    (
        nested,
        {},
        {"account": {"name": "ada", "password": "hunter2"}, "others": [{"name": "bob", "password": "hunter3"}]},
        {"account": {"name": "ada", "password": "[secret]"}, "others": [{"name": "bob", "password": "[secret]"}]},
    ),
    (model, {}, {"login": {"name": "ada", "password": "hunter2"}}, {"login": {"name": "ada", "password": "[secret]"}}),
    (plain, {}, {"pasword": "hunter2"}, {"pasword": "[hidden]"}),
    (loaded, {"params": LoginSchema}, {"name": "ada", "password": "hunter2"}, {"name": "ada", "password": "[secret]"}),
    *(
        (
            loaded,
            {"params": {"type": "object", "properties": {"name": {"type": "string"}, "password": rules}}},
            {"name": "ada", "password": password},
            {"name": "ada", "password": shown},
        )
        for rules, password, shown in [
            ({"allOf": [{"writeOnly": True}]}, {"is": "hunter2"}, "[secret]"),
            ({"if": {"minLength": 1}, "then": {"writeOnly": True}}, "hunter2", "[secret]"),
            ({"prefixItems": [{}, {"writeOnly": True}]}, ["a", "hunter2"], ["a", "[secret]"]),
            ({"patternProperties": {"^pin": {"writeOnly": True}}}, {"pin": "hunter2"}, {"pin": "[secret]"}),
            ({"additionalProperties": {"writeOnly": True}}, {"pin": "hunter2"}, {"pin": "[secret]"}),
            ({"unevaluatedProperties": {"writeOnly": True}}, {"pin": "hunter2"}, {"pin": "[secret]"}),
            ({"dependentSchemas": {"a": PIN}}, {"a": 1, "pin": "hunter2"}, {"a": 1, "pin": "[secret]"}),
            ({"dependencies": {"a": PIN, "b": ["a"]}}, {"a": 1, "pin": "hunter2"}, {"a": 1, "pin": "[secret]"}),
            ({"unevaluatedItems": {"writeOnly": True}}, ["hunter2"], ["[secret]"]),
            ({"contains": {"writeOnly": True}}, ["hunter2"], ["[secret]"]),
        ]
    ),
    (
        loaded,
        {
            "params": {
                "type": "object",
                "properties": {"password": {"$ref": "#/$defs/ring"}},
                "$defs": {"ring": {"properties": {"key": {"writeOnly": True}, "ring": {"$ref": "#/$defs/ring"}}}},
            }
        },
        {"password": {"key": "hunter2", "ring": {"key": "hunter3"}}},
        {"password": {"key": "[secret]", "ring": {"key": "[secret]"}}},
    ),
    (
        loaded,
        {"params": {"type": "object", "properties": {"name": {}, "password": {"writeOnly": True}}}},
        ["ada", "hunter2", "hunter3"],
        {"name": "ada", "password": "[secret]", "2": "[hidden]"},
    ),
    (
        loaded,
        {
            "params": {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "type": "object",
                "properties": {"password": {"items": [{}], "additionalItems": {"writeOnly": True}}},
            }
        },
        {"password": ["a", "hunter2"]},
        {"password": ["[secret]", "[secret]"]},
    ),
    *(
        (
            loaded,
            {
                "params": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "password": reference},
                    "$defs": {"a": {"anyOf": [{"type": "null"}, {"type": "object", **PIN, **definition}]}},
                }
            },
            {"name": "ada", "password": {"pin": "hunter2"}},
            {"name": "ada", "password": shown},
        )
        for reference, definition, shown in REFERENCES
    ),
]


@pytest.mark.parametrize(("func", "options", "arguments", "shown"), SECRETS)
def test_secrets_are_never_shown(func: Any, options: Any, arguments: Any, shown: Any) -> None:
    """Whatever describes the arguments, and whether or not they are valid."""
    audit = Kept(arguments=True)
    site = Site(McpBlueprint(audit=audit))
    site.rpc.add_method("login", func, **options)
    faces.jsonrpc("login", arguments).send(site.client)
    record = audit.take()
    assert record["arguments"] == shown
    assert "hunter" not in json.dumps(record)


def test_an_exception_is_not_recorded_if_a_reference_that_is_not_followed_may_be_a_secret() -> None:
    recorder = Recorder(record_arguments=True)
    site = Site(McpBlueprint(telemetry=[recorder.telemetry]))

    def refuse(**arguments: Any) -> None:
        raise LookupError(f"no {arguments}")

    pin = {"$anchor": "pin", "type": "string"}
    for name, reference, events in (("unclear", "#pin", None), ("clear", "#/$defs/pin", ["exception"])):
        properties = {"pin": {"$ref": reference}}
        site.rpc.add_method(name, refuse, params={"type": "object", "properties": properties, "$defs": {"pin": pin}})
        faces.jsonrpc(name, {"pin": "hunter2"}).send(site.client)
        [span] = recorder.take()
        assert span.get("events") == events


def test_a_secret_is_published_as_write_only(site: Site) -> None:
    site.tool(plain, name="login")
    properties = site.describe("login").get_json()["tool"]["inputSchema"]["properties"]
    assert properties["password"] == {"type": "string", "description": "The password", "writeOnly": True}


@pytest.mark.parametrize("arguments", [True, False])
def test_long_arguments_do_not_fill_the_trail(arguments: bool) -> None:
    audit = Kept(arguments=arguments)
    site = Site(McpBlueprint(audit=audit))
    site.tool(lambda **values: None, name="store", params={"type": "object", "properties": {}})
    faces.jsonrpc("store", {"x" * 5000: "y" * 5000, "z": "z" * 9000}).send(site.client)
    assert len(json.dumps(audit.take()["arguments"])) < 9000


def test_several_trails_have_the_same_calls_each_as_its_options_say() -> None:
    class Broken(Audit):
        def write(self, record: Mapping[str, Any]) -> None:
            raise OSError("the disk is full")

    full, names = Kept(arguments=True, reads=True), Kept()
    site = make_site([Broken(), full, names])
    faces.rest("articles.delete", {"id": 7}).send(site.client, basic("writer"))
    shown, hidden = full.take(), names.take()
    assert shown["id"] == hidden["id"]
    assert (shown["arguments"], hidden["arguments"]) == ({"id": 7}, {"id": "[hidden]"})
    faces.rest("articles.get", {"id": 7}).send(site.client)
    assert (full.take()["tool"], names.records) == ("articles.get", [])


def test_a_logger_gets_json_on_one_line_and_the_record_for_formatters(caplog: pytest.LogCaptureFixture) -> None:
    site = make_site(AuditLog("tests.audit", arguments=True))
    with caplog.at_level(logging.INFO, "tests.audit"):
        faces.rest("articles.delete", {"id": 7, "reason": "a\nb"}).send(site.client, basic("writer"))
    [logged] = [record for record in caplog.records if record.name == "tests.audit"]
    text = logged.getMessage()
    assert "\n" not in text
    assert json.loads(text) == logged.__dict__["audit"]
    assert json.loads(text)["arguments"] == {"id": 7, "reason": "a\nb"}


@pytest.mark.parametrize(("level", "written"), [(logging.INFO, 1), (logging.WARNING, 0)])
def test_a_logger_has_only_records_of_its_level(caplog: pytest.LogCaptureFixture, level: int, written: int) -> None:
    logger = logging.Logger("audit", level)
    logger.addHandler(caplog.handler)
    faces.jsonrpc("reindex", {}).send(make_site(AuditLog(logger)).client)
    assert [record.name for record in caplog.records].count("audit") == written


def test_a_logger_that_nothing_configures_writes_to_stderr() -> None:
    """Were it left at its default level, the trail would be lost."""
    script = (
        "import flask\nfrom flask_jsonrpc_mcp import McpBlueprint\n"
        "from flask_jsonrpc_mcp.telemetry.audit import AuditLog\n"
        "rpc = McpBlueprint(audit=AuditLog())\nrpc.add_tool(lambda: None, 'change')\n"
        "app = flask.Flask('app'); app.register_blueprint(rpc)\n"
        "app.test_client().post('/mcp/tools/invoke', json={'name': 'change', 'arguments': {}})"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(ran.stderr)["tool"] == "change"


@pytest.fixture
def table(tmp_path: Path) -> Iterator[AuditTable]:
    engine = create_engine(f"sqlite:///{tmp_path}/audit.sqlite3")
    yield AuditTable(engine, page_size=2, retention=timedelta(days=90))
    engine.dispose()


def test_a_table_has_the_records_in_pages_the_newest_first(table: AuditTable) -> None:
    kept = Kept()
    site = make_site(table)
    kept.observe(site.rpc._registry)
    for article in (1, 404, 3, 4, 5):
        faces.rest("articles.delete", {"id": article}).send(site.client, basic("writer"))
    faces.jsonrpc("reindex", {}).send(site.client, basic("admin"))
    pages, before = [], None
    while page := table.page(before):
        pages.append([record.pop("number") for record in page])
        before = pages[-1][-1]
        for record in page:
            expected = kept.records.pop()
            assert {**record, "ms": None, "time": None} == {**expected, "ms": None, "time": None}
            apart = datetime.fromisoformat(record["time"]) - datetime.fromisoformat(expected["time"])
            assert abs(apart) < timedelta(minutes=10), "which is less than a zone"
    assert pages == [[6, 5], [4, 3], [2, 1]]
    assert [record["number"] for record in table.page(outcome="execution_error")] == [2]
    assert [record["tool"] for record in table.page(caller="admin")] == ["reindex"]


def test_old_records_are_deleted(table: AuditTable, monkeypatch: pytest.MonkeyPatch) -> None:
    site = make_site(table)
    faces.rest("crash", {}).send(site.client)
    old = {**table.page()[0], "number": 77, "time": datetime.now(timezone.utc) - timedelta(days=91)}
    engine = table._open()
    with engine.begin() as connection:
        connection.execute(insert(table.table).values(old))
    faces.rest("crash", {}).send(site.client)
    assert [record["number"] for record in table.page()] == [78, 77], (
        "deleting costs a query, so it is not done each time"
    )
    monkeypatch.setattr(table, "_purge_at", 0.0)
    faces.rest("crash", {}).send(site.client)
    assert 77 not in [record["number"] for record in table.page() + table.page(78)]
    assert audit_table.PURGE_EVERY == 3600


def test_postgresql_stores_every_text_that_a_caller_can_choose(postgres_url: str) -> None:
    """It refuses a text that is longer than its column, or that has a NUL."""
    engine = create_engine(postgres_url)
    table = AuditTable(engine, arguments=True)
    with issuing() as issuer:
        rpc = McpBlueprint(audit=table, auth=OAuthResource(issuer.url))
        site = Site(rpc, JSONRPC_MCP_PUBLIC_URL="https://site.example")
        site.tool(lambda **values: None, name="change", params={"type": "object", "properties": {}})
        for client_id in ("c" * 1500, "c" * 2100, "nul\0"):
            token = issuer.token(client_id=client_id, sub="ada\0" + "a" * 600)
            headers = {**bearer(token), "User-Agent": "u" * 600}
            assert faces.rest("change", {"title\0": "a\0"}).send(site.client, headers).status_code == 200
    assert [record["client_id"] for record in table.page()] == ["nul ", "c" * 2047 + "…", "c" * 1500]
    assert len(table.page(client_id="c" * 1500)) == len(table.page(client_id="c" * 2100)) == 1
    engine.dispose()


def test_a_rollback_of_the_app_does_not_remove_the_record(table: AuditTable) -> None:
    site = make_site(table)
    faces.rest("crash", {}).send(site.client)
    assert [record["outcome"] for record in table.page()] == ["execution_error"]


def test_a_table_that_cannot_be_written_loses_no_record_and_fails_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    site = make_site(AuditTable(f"sqlite:///{tmp_path}/no/such/folder/audit.sqlite3"))
    response = faces.rest("articles.delete", {"id": 7}).send(site.client, basic("writer"))
    assert response.get_json() == {"result": True}
    [logged] = [record for record in caplog.records if record.levelno == logging.ERROR]
    facts = logged.__dict__
    assert (facts["tool"], facts["caller"], facts["audit"]["outcome"]) == ("articles.delete", "writer", "ok")
    assert "the audit record could not be stored" in logged.getMessage()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"retention": timedelta(0)}, "retention must be longer"), ({"page_size": 0}, "page_size must be at least 1")],
)
def test_mistakes_are_found_when_the_table_is_declared(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AuditTable("sqlite://", **options)


def test_a_plain_logger_is_refused_with_the_way_to_write_it() -> None:
    with pytest.raises(TypeError, match=r"audit= takes objects of .*, such as AuditLog\(logger\), not <Logger"):
        McpBlueprint(audit=logging.getLogger("audit"))  # type: ignore[arg-type]
