"""``GET /mcp/metrics``: who may read it, what is in it, and that callers cannot make it grow."""

from __future__ import annotations

import json
import math
import signal
import threading
import time
import urllib.parse
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call
from flask_jsonrpc_mcp.mcp.protocol import LEGACY, MODERN
from flask_jsonrpc_mcp.telemetry import metrics
from flask_jsonrpc_mcp.telemetry.metrics import Prometheus
from tests.conftest import Site, asking, basic, make_auth
from tests.support import faces
from tests.support.answering import Respondent
from tests.support.mcp_messages import LegacyClient, ModernClient
from tests.support.servers import ROOT, Server, free_port, gunicorn, need, running

BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Those of the conventions, in seconds."""

LABELS = (
    *("tool", "face", "outcome", "queue"),
    *("mcp_method_name", "gen_ai_tool_name", "gen_ai_prompt_name"),
    *("mcp_protocol_version", "network_transport", "error_type", "le"),
)
"""The order of labels in the tuples of `samples`."""


def samples(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The samples of a text by name, each by the values of its labels, as Prometheus' own parser reads them."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in LABELS if name in sample.labels)
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def make_site(access: Any = (), **options: Any) -> Site:
    """A site whose metrics are its own, and not those of the process."""
    site = Site(McpBlueprint(telemetry=[Prometheus(access=access, registry=CollectorRegistry())], **options))

    @site.rpc.tool("add", read_only=True)
    def add(a: int, b: int) -> int:
        return a + b

    @site.rpc.tool("refuse", access=["write"] if "auth" in options else [])
    def refuse() -> None:
        raise RpcError("no")

    return site


def metrics_of(site: Site, **options: Any) -> dict[str, dict[tuple[str, ...], float]]:
    response = site.client.get("/mcp/metrics", **options)
    assert (response.status_code, response.headers["Cache-Control"]) == (200, "no-store")
    return samples(response.text)


def test_without_the_option_there_are_no_metrics(site: Site) -> None:
    assert site.client.get("/mcp/metrics").get_json() == {
        "error": {"code": "not_found", "message": "Nothing is served at this path"}
    }


def test_metrics_need_permissions_like_a_method() -> None:
    """Signed in without the permission, they look like a path that does not exist."""
    site = make_site(["administer"], auth=make_auth())
    replies = [site.client.get("/mcp/metrics", headers=who) for who in ({}, basic("reader"), basic("admin"))]
    assert [reply.status_code for reply in replies] == [401, 404, 200]
    assert replies[0].headers["WWW-Authenticate"].startswith("Basic ")
    assert replies[1].get_json()["error"]["code"] == "not_found"
    assert replies[2].headers["Content-Type"].startswith("text/plain; version=")
    assert site.client.post("/mcp/metrics").status_code == 405


def test_open_metrics_are_served_to_those_who_ask_for_them() -> None:
    response = make_site().client.get("/mcp/metrics", headers={"Accept": "application/openmetrics-text"})
    assert response.content_type.startswith("application/openmetrics-text")
    assert response.text.endswith("# EOF\n")


def test_the_permissions_must_be_given() -> None:
    with pytest.raises(TypeError, match="access"):
        Prometheus()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="access"):
        Prometheus(access="administer")


def test_calls_are_counted_by_tool_face_and_outcome() -> None:
    site = make_site()
    for face in (faces.rest, faces.jsonrpc, faces.mcp_modern):
        face("add", {"a": 1, "b": 2}).send(site.client)
    faces.rest("refuse", {}).send(site.client)
    faces.rest("add", {}).send(site.client)
    faces.rest("invented", {}).send(site.client)
    found = metrics_of(site)
    assert found["mcp_calls_total"] == {
        ("add", "rest", "ok"): 1,
        ("add", "jsonrpc", "ok"): 1,
        ("add", "mcp", "ok"): 1,
        ("refuse", "rest", "execution_error"): 1,
        ("add", "rest", "invalid_arguments"): 1,
        ("_OTHER", "rest", "tool_not_found"): 1,
    }
    assert found["mcp_call_duration_seconds_count"] == {
        ("add", "rest"): 2,
        ("add", "jsonrpc"): 1,
        ("add", "mcp"): 1,
        ("refuse", "rest"): 1,
        ("_OTHER", "rest"): 1,
    }


def test_mcp_requests_have_the_histogram_of_the_conventions() -> None:
    site = make_site()
    modern = ModernClient(site.client)
    modern.list()
    modern.call("add", {"a": 1, "b": 2})
    modern.call("refuse")
    modern.call("invented")
    modern.post("invented/method")
    found = metrics_of(site)
    assert found["mcp_server_operation_duration_seconds_count"] == {
        ("tools/list", "", "", MODERN, "tcp", ""): 1,
        ("tools/call", "add", "", MODERN, "tcp", ""): 1,
        ("tools/call", "refuse", "", MODERN, "tcp", "tool_error"): 1,
        ("tools/call", "_OTHER", "", MODERN, "tcp", "-32602"): 1,
        ("_OTHER", "", "", MODERN, "tcp", "-32601"): 1,
    }
    buckets = found["mcp_server_operation_duration_seconds_bucket"]
    assert {float(labels[-1]) for labels in buckets} == {*BUCKETS, math.inf}


def test_a_request_with_a_question_is_one_operation_that_lasts_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(McpBlueprint(telemetry=[Prometheus(access=[], registry=CollectorRegistry())]), SECRET_KEY="a key")
    clock = {"seconds": 0}
    monkeypatch.setattr(metrics, "time", SimpleNamespace(perf_counter=lambda: clock["seconds"]))

    def ask() -> str:
        clock["seconds"] += 10
        return current_call.elicit("Sure?").action

    site.tool(ask, name="ask")
    client = LegacyClient(site.client, capabilities={"elicitation": {}})
    assert Respondent(client, [{"action": "accept", "content": {}}]).call("ask") == "accept"
    found = metrics_of(site)
    counts, sums = (found[f"mcp_server_operation_duration_seconds_{each}"] for each in ("count", "sum"))
    assert [(labels[0], labels[3], count, sums[labels]) for labels, count in counts.items()] == [
        ("initialize", LEGACY[0], 1, 0),
        ("tools/call", LEGACY[0], 1, 20),
    ]


def test_refusals_of_rate_limits_are_an_outcome() -> None:
    limiter = Limiter(get_remote_address, storage_uri="memory://")
    site = make_site(limiter=limiter)
    limiter.init_app(site.app)
    site.tool(lambda: "done", name="once", rate_limit="1/day")
    statuses = [faces.rest("once", {}).send(site.client).status_code for _ in range(3)]
    assert statuses == [200, 429, 429]
    assert metrics_of(site)["mcp_calls_total"] == {("once", "rest", "ok"): 1, ("once", "rest", "rate_limited"): 2}


def test_running_waiting_and_overdue_methods_and_streams_are_gauges() -> None:
    site = make_site()
    site.app.secret_key = "a key"
    seen: list[dict[str, float]] = []
    may_end = threading.Event()

    def look() -> None:
        found = metrics_of(site)
        names = ("mcp_running_calls", "mcp_streams", "mcp_waiting_threads", "mcp_overdue_methods")
        seen.append({name.removeprefix("mcp_"): found[name][()] for name in names})

    def stream() -> Iterator[str]:
        look()
        yield "item"

    site.tool(stream, name="stream")
    site.tool(lambda: may_end.wait(30), name="overdue", timeout=0.01)
    site.tool(lambda: current_call.elicit("Sure?").action, name="ask")
    idle = {"running_calls": 0, "streams": 0, "waiting_threads": 0, "overdue_methods": 0}
    look()
    params = {"name": "stream", "arguments": {}, "_meta": {"progressToken": 1}}
    ModernClient(site.client).post("tools/call", params)

    def answer(question: Any) -> Any:
        look()
        return {"action": "accept", "content": {}}

    Respondent(LegacyClient(site.client, capabilities={"elicitation": {}}), answer).call("ask")
    assert faces.rest("overdue", {}).send(site.client).status_code == 504
    look()
    may_end.set()
    deadline = time.monotonic() + 30
    while seen[-1] != idle and time.monotonic() < deadline:
        look()
    assert [seen[0], seen[1], seen[2], seen[3], seen[-1]] == [
        idle,
        {**idle, "running_calls": 1, "streams": 1},
        {**idle, "streams": 1, "waiting_threads": 1},
        {**idle, "running_calls": 1, "overdue_methods": 1},
        idle,
    ]


def test_the_depth_of_queues_is_read_when_it_is_asked_for() -> None:
    site = make_site()
    assert "mcp_queue_depth" not in metrics_of(site)
    depths = iter([5, 2])
    site.rpc._registry.queue_depths["reports"] = lambda: next(depths)
    assert [metrics_of(site)["mcp_queue_depth"] for _ in range(2)] == [{("reports",): 5}, {("reports",): 2}]


def test_two_blueprints_share_the_metrics_of_the_process() -> None:
    registry = CollectorRegistry()
    for name in ("one", "two"):
        McpBlueprint(name, telemetry=[Prometheus(access=[], registry=registry)])


def test_names_that_callers_invent_add_no_labels() -> None:
    """10,000 names of methods, and some of everything else, are as many series as one of each."""
    site = make_site()
    modern = ModernClient(site.client)

    def invent(number: int) -> None:
        name = f"invented-{number}"
        site.rpc_post([asking(f"{name}-{each}") for each in range(100)])
        faces.rest(name, {}).send(site.client)
        modern.call(name)
        modern.post(f"invented/{number}")
        modern.post("prompts/get", {"name": name})
        modern.post("resources/read", {"uri": f"invented://{number}"})

    def series() -> int:
        return sum(map(len, metrics_of(site).values()))

    invent(0)
    few = series()
    for number in range(1, 101):
        invent(number)
    assert series() == few


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Two workers of gunicorn as docs/deployment.md configures them."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "metrics").mkdir()
    env = {"PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics"), "WEB_CONCURRENCY": "2"}
    config = ("--config", str(ROOT / "gunicorn.conf.py"))
    with gunicorn("tests.apps.measured_app:app", folder, *config, env=env) as server:
        yield server


def test_the_counts_of_two_workers_are_exact(server: Server) -> None:
    def call(number: int) -> int:
        return server.invoke("add" if number % 4 else "fail", {"a": 1, "b": 2} if number % 4 else {}).status

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(call, range(1000)))
    assert (statuses.count(200), statuses.count(500)) == (750, 250)
    texts = [server.request("/mcp/metrics").body.decode() for _ in range(10)]
    for found in map(samples, texts):
        assert found["mcp_calls_total"] == {("add", "rest", "ok"): 750, ("fail", "rest", "execution_error"): 250}
        assert found["mcp_call_duration_seconds_count"] == {("add", "rest"): 750, ("fail", "rest"): 250}
        assert found["mcp_running_calls"] == {(): 0}
    files = {path.name for path in (server.log.parent / "metrics").glob("counter_*.db")}
    assert len(files) == 2, "only one worker has answered"


def test_the_gauges_of_a_worker_that_has_ended_are_gone(server: Server) -> None:
    """And its counts are kept."""
    folder = server.log.parent / "metrics"

    def live() -> set[str]:
        return {path.name for path in folder.glob("gauge_livesum_*.db")}

    server.invoke("add", {"a": 1, "b": 2})
    before, counted = live(), samples(server.request("/mcp/metrics").body.decode())["mcp_calls_total"]
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 60
    while (len(live()) != 2 or live() & before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (len(live()), live() & before) == (2, set())
    assert samples(server.request("/mcp/metrics").body.decode())["mcp_calls_total"] == counted


def test_every_query_of_the_dashboard_has_an_answer_from_prometheus(server: Server, tmp_path: Path) -> None:
    """A Prometheus server scrapes the app and answers each query with what the calls were."""
    for _ in range(3):
        server.invoke("once", {})
    prometheus = need("prometheus")
    target = f"127.0.0.1:{server.port}"
    jobs = [{"job_name": "app", "metrics_path": "/mcp/metrics", "static_configs": [{"targets": [target]}]}]
    (tmp_path / "prometheus.yml").write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
    port = free_port()
    options = [
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    dashboard = json.loads((ROOT / "docs/grafana/dashboard.json").read_text())
    queries = {panel["title"]: panel["targets"][0]["expr"] for panel in dashboard["panels"]}
    with running([prometheus, *options], port, tmp_path) as watching:

        def ask(query: str) -> list[Any]:
            sent = urllib.parse.urlencode({"query": query.replace("$__rate_interval", "1m")})
            response = watching.request(f"/api/v1/query?{sent}")
            if response.status == 503:
                return []  # it listens before it has started
            reply = response.json()
            assert reply["status"] == "success", reply
            found: list[Any] = reply["data"]["result"]
            return found

        deadline = time.monotonic() + 60
        unanswered = dict(queries)
        while unanswered and time.monotonic() < deadline:
            # A rate needs two scrapes, and calls between them.
            ModernClientOver(server).call("add", {"a": 1, "b": 2})
            server.invoke("add", {"a": 1, "b": 2})
            server.invoke("once", {})
            unanswered = {title: query for title, query in unanswered.items() if not ask(query)}
        assert unanswered == {}
        assert {row["metric"]["tool"] for row in ask(queries["Calls per second by tool"])} >= {"add", "once"}
        [depth] = ask(queries["Tasks that wait for a worker"])
        assert (depth["metric"], depth["value"][1]) == ({"queue": "reports"}, "3")


class ModernClientOver:
    """An MCP client over the network, in two lines."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def call(self, name: str, arguments: Any) -> None:
        asked = faces.mcp_modern(name, arguments)
        assert self._server.request(asked.path, data=asked.payload, headers=asked.headers).status == 200
