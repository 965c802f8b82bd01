"""Methods run in the thread and in the context of their request, whatever the client asked for.

An app keeps in ``g`` what only one thread may use, and commits or rolls back in its teardown functions. The Flask
client gets a response in one piece; what comes when is shown under real servers, in test_live_streams.py.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from flask import Flask, g, has_request_context, request

from flask_jsonrpc_mcp import McpBlueprint, RpcError, current_call
from tests.conftest import Site
from tests.support.mcp_messages import META, LegacyClient, ModernClient, client_of, events, result

BOTH = ["2026-07-28", "2025-11-25"]
TOKEN = {"progressToken": "import-7"}
LOG_LEVEL = META + "logLevel"

Record = Callable[[str], None]
Work = Callable[[str], Any]
"""What a method does for each title it is given; in a test, it is what needs the thread of the request."""


def function(work: Work) -> Callable[..., Any]:
    def add(titles: list[str]) -> list[str]:
        for number, title in enumerate(titles, 1):
            work(title)
            current_call.progress(number, message=title)
        return titles

    return add


def generator(work: Work) -> Callable[..., Any]:
    def add(titles: list[str]) -> Iterator[str]:
        for title in titles:
            work(title)
            yield title

    return add


# Flask runs a coroutine in a thread of its own. What it calls by sync_to_async runs in that of the request.


def coroutine(work: Work) -> Callable[..., Any]:
    async def add(titles: list[str]) -> list[str]:
        for number, title in enumerate(titles, 1):
            await sync_to_async(work)(title)
            current_call.progress(number, message=title)
        return titles

    return add


def async_generator(work: Work) -> Callable[..., Any]:
    async def add(titles: list[str]) -> AsyncIterator[str]:
        for title in titles:
            await sync_to_async(work)(title)
            yield title

    return add


@dataclass(frozen=True)
class Kind:
    """A way to write a method.

    :param is_live: It runs while its response is being sent.
    """

    make: Callable[[Work], Callable[..., Any]]
    is_live: bool
    streams: bool = False

    def add_to(self, site: Site, work: Work) -> None:
        site.tool(self.make(work), name="add", **({"streams": True} if self.streams else {}))


KINDS = {
    "function": Kind(function, is_live=False),
    "coroutine": Kind(coroutine, is_live=False),
    "generator": Kind(generator, is_live=True),
    "async generator": Kind(async_generator, is_live=True),
    "streams=True": Kind(function, is_live=True, streams=True),
    "async streams=True": Kind(coroutine, is_live=True, streams=True),
}

every_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in KINDS.items()])
live_kinds = pytest.mark.parametrize(
    "kind", [pytest.param(kind, id=name) for name, kind in KINDS.items() if kind.is_live]
)
both_eras = pytest.mark.parametrize("version", BOTH)


@dataclass(frozen=True)
class Moment:
    """Something that happened in a request: what, in which thread, and with which ``g`` and request.

    :param environ: The id of the request's WSGI environment; ``None`` where only the app context is left.
    """

    what: str
    thread: int
    marker: object
    environ: int | None


class Watched:
    """A site that records what happens in a request, what it sends included."""

    def __init__(self) -> None:
        self.site = Site(McpBlueprint(), SECRET_KEY="key")
        self.moments: list[Moment] = []
        self.errors: list[BaseException | None] = []
        app = self.site.app
        app.before_request(self._begin)
        app.teardown_request(lambda error: self._tear_down("teardown_request", error))
        app.teardown_appcontext(lambda error: self._tear_down("teardown_appcontext", error))
        app.wsgi_app = Recording(app, self.record)  # type: ignore[method-assign]

    def client(self, version: str) -> ModernClient | LegacyClient:
        """A client of either era; nothing has been recorded yet when it calls its first tool."""
        client = client_of(version, self.site.client)
        if isinstance(client, LegacyClient):
            client.initialize()
        self.moments.clear()
        self.errors.clear()
        return client

    def record(self, what: str) -> None:
        environ = id(request.environ) if has_request_context() else None
        self.moments.append(Moment(what, threading.get_ident(), g.marker, environ))

    def whats(self) -> list[str]:
        return [moment.what for moment in self.moments]

    def _begin(self) -> None:
        g.marker = object()
        self.record("before_request")

    def _tear_down(self, what: str, error: BaseException | None) -> None:
        self.errors.append(error)
        self.record(what)


class Recording:
    """WSGI middleware that records the events that an app sends by the ``write`` callable, in the app's context."""

    def __init__(self, app: Flask, record: Record) -> None:
        self._app = app.wsgi_app
        self._record = record

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        def recording_start_response(*args: Any) -> Callable[[bytes], object]:
            write = start_response(*args)

            def recording_write(data: bytes) -> object:
                for _ in range(data.count(b"data: ")):  # comments may come at any time
                    self._record("sent")
                return write(data)

            return recording_write

        return self._app(environ, recording_start_response)


def call(client: ModernClient | LegacyClient, *titles: str) -> Any:
    """Call the method under test, as clients do that ask for progress with every call."""
    return client.post("tools/call", {"name": "add", "arguments": {"titles": titles}, "_meta": TOKEN})


def reported(response: Any) -> list[str]:
    """The messages of the progress that came before the result of a success."""
    *reports, answer = events(response)
    assert answer["result"]["isError"] is False, answer
    return [report["params"]["message"] for report in reports]


@every_kind
@both_eras
def test_a_method_runs_in_the_thread_and_the_context_of_its_request(kind: Kind, version: str) -> None:
    watched = Watched()
    kind.add_to(watched.site, watched.record)
    assert reported(call(watched.client(version), "Kindred", "Dawn")) == ["Kindred", "Dawn"]
    moments = [moment for moment in watched.moments if moment.what != "sent"]
    assert [moment.what for moment in moments if not moment.what.startswith("teardown")] == [
        "before_request",
        "Kindred",
        "Dawn",
    ]
    assert {moment.thread for moment in moments} == {threading.get_ident()}
    assert len({moment.marker for moment in watched.moments}) == 1
    assert len({moment.environ for moment in watched.moments} - {None}) == 1


@every_kind
@both_eras
def test_teardown_functions_run_once_in_the_same_thread_and_without_an_error(kind: Kind, version: str) -> None:
    watched = Watched()
    kind.add_to(watched.site, watched.record)
    reported(call(watched.client(version), "Kindred"))
    assert watched.whats()[-2:] == ["teardown_request", "teardown_appcontext"]
    assert watched.errors == [None, None]
    assert {moment.thread for moment in watched.moments[-2:]} == {threading.get_ident()}


@live_kinds
@both_eras
def test_events_are_sent_as_they_come_and_the_last_one_before_teardown(kind: Kind, version: str) -> None:
    watched = Watched()
    kind.add_to(watched.site, watched.record)
    reported(call(watched.client(version), "Kindred", "Dawn"))
    assert watched.whats() == [
        "before_request",
        *("Kindred", "sent"),
        *("Dawn", "sent"),
        "sent",  # the result
        "teardown_request",
        "teardown_appcontext",
    ]


@pytest.mark.parametrize("kind", [KINDS["generator"], KINDS["streams=True"]], ids=["generator", "streams=True"])
@both_eras
def test_events_are_sent_in_the_thread_of_the_request(kind: Kind, version: str) -> None:
    watched = Watched()
    kind.add_to(watched.site, watched.record)
    reported(call(watched.client(version), "Kindred"))
    assert {moment.thread for moment in watched.moments if moment.what == "sent"} == {threading.get_ident()}


@pytest.mark.parametrize("kind", [KINDS["function"], KINDS["coroutine"]], ids=["function", "coroutine"])
@both_eras
def test_what_an_ordinary_method_reports_comes_with_its_result(kind: Kind, version: str) -> None:
    """In one response, which the view returns: nothing is sent before the request has been torn down."""
    watched = Watched()
    kind.add_to(watched.site, watched.record)
    assert reported(call(watched.client(version), "Kindred", "Dawn")) == ["Kindred", "Dawn"]
    assert watched.whats() == ["before_request", "Kindred", "Dawn", "teardown_request", "teardown_appcontext"]


@every_kind
@both_eras
def test_a_client_that_asks_for_no_progress_gets_plain_json_from_the_same_thread(kind: Kind, version: str) -> None:
    watched = Watched()
    kind.add_to(watched.site, watched.record)
    client = watched.client(version)
    response = client.post("tools/call", {"name": "add", "arguments": {"titles": ["Kindred"]}})
    assert response.mimetype == "application/json"
    assert watched.whats() == ["before_request", "Kindred", "teardown_request", "teardown_appcontext"]
    assert {moment.thread for moment in watched.moments} == {threading.get_ident()}
    assert watched.errors == [None, None]


@every_kind
@pytest.mark.parametrize("failure", [RpcError("no such feed"), ValueError("secret")], ids=["expected", "unexpected"])
@both_eras
def test_teardown_functions_see_no_error_of_a_method_whose_failure_was_answered(
    kind: Kind, failure: Exception, version: str
) -> None:
    watched = Watched()

    def work(title: str) -> None:
        watched.record(title)
        if title == "fail":
            raise failure

    kind.add_to(watched.site, work)
    report, answer = events(call(watched.client(version), "Kindred", "fail"))
    assert report["params"]["message"] == "Kindred"
    assert answer["result"]["isError"] is True
    assert "secret" not in str(answer)
    assert watched.whats()[-2:] == ["teardown_request", "teardown_appcontext"]
    assert watched.errors == [None, None]
    assert {moment.thread for moment in watched.moments if moment.what != "sent"} == {threading.get_ident()}


@both_eras
def test_prompts_and_resources_run_in_the_thread_of_their_request(version: str) -> None:
    watched = Watched()

    @watched.site.rpc.prompt
    def summarise() -> str:
        """Summarise."""
        watched.record("summarise")
        current_call.progress(1)
        return "Summarise this"

    @watched.site.rpc.resource("feed://today")
    def today() -> str:
        """Today's feed."""
        watched.record("today")
        current_call.progress(1)
        return "news"

    client = watched.client(version)
    for method, params in (("prompts/get", {"name": "summarise"}), ("resources/read", {"uri": "feed://today"})):
        report, answer = events(client.post(method, {**params, "_meta": TOKEN}))
        assert report["params"] == {**TOKEN, "progress": 1}
        assert "result" in answer
    ended = ["teardown_request", "teardown_appcontext"]
    assert watched.whats() == ["before_request", "summarise", *ended, "before_request", "today", *ended]
    assert {moment.thread for moment in watched.moments} == {threading.get_ident()}
    assert watched.errors == [None] * 4


@both_eras
def test_teardown_functions_see_no_error_after_log_messages(version: str) -> None:
    """An older client asks for them once for its session, and not with the call."""
    watched = Watched()
    watched.site.tool(lambda: current_call.log("info", "told"), name="tell")
    client = watched.client(version)
    client.post("logging/setLevel", {"level": "info"})
    watched.errors.clear()
    message, _ = events(client.post("tools/call", {"name": "tell", "arguments": {}, "_meta": {LOG_LEVEL: "info"}}))
    assert message["params"]["data"] == "told"
    assert watched.errors == [None, None]


class Shelf:
    """A site whose requests have a database connection in ``g``.

    :param commits_in_teardown: All of a request is one transaction: committed by the teardown function where it is
        handed no error, and else rolled back.
    """

    def __init__(self, file: Path, *, commits_in_teardown: bool = False, check_same_thread: bool = True) -> None:
        self.site = Site(McpBlueprint(), SECRET_KEY="key")
        self._file = file
        self._commits_in_teardown = commits_in_teardown
        self._check_same_thread = check_same_thread
        with sqlite3.connect(file) as db:
            db.execute("CREATE TABLE books (title)")
        db.close()
        self.site.app.before_request(self._open)
        self.site.app.teardown_request(self._close)

    def add(self, title: str) -> None:
        g.db.execute("INSERT INTO books VALUES (?)", (title,))
        if not self._commits_in_teardown:
            g.db.commit()

    def titles(self) -> list[str]:
        """What another connection finds."""
        db = sqlite3.connect(self._file)
        found = [title for (title,) in db.execute("SELECT title FROM books ORDER BY rowid")]
        db.close()
        return found

    def _open(self) -> None:
        g.db = sqlite3.connect(self._file, check_same_thread=self._check_same_thread)

    def _close(self, error: BaseException | None) -> None:
        db = g.pop("db")
        if self._commits_in_teardown and error is None:
            db.commit()
        db.close()  # which rolls back what was not committed


@every_kind
@both_eras
def test_a_connection_that_is_bound_to_its_thread_is_used_and_closed(kind: Kind, version: str, tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf.sqlite3")
    kind.add_to(shelf.site, shelf.add)
    assert reported(call(client_of(version, shelf.site.client), "Kindred", "Dawn")) == ["Kindred", "Dawn"]
    assert shelf.titles() == ["Kindred", "Dawn"]


@every_kind
@both_eras
def test_a_transaction_that_teardown_commits_keeps_the_rows_of_a_success(
    kind: Kind, version: str, tmp_path: Path
) -> None:
    """Also with a driver whose connections go from thread to thread."""
    shelf = Shelf(tmp_path / "shelf.sqlite3", commits_in_teardown=True, check_same_thread=False)
    kind.add_to(shelf.site, shelf.add)
    assert reported(call(client_of(version, shelf.site.client), "Kindred", "Dawn")) == ["Kindred", "Dawn"]
    assert shelf.titles() == ["Kindred", "Dawn"]


@both_eras
def test_the_next_request_has_a_context_of_its_own(version: str) -> None:
    watched = Watched()
    KINDS["generator"].add_to(watched.site, watched.record)
    watched.site.tool(lambda: sorted(g), name="names")
    client = watched.client(version)
    reported(call(client, "Kindred"))
    first = watched.moments[0].marker
    assert result(client.call("names"))["isError"] is False
    assert watched.moments[-1].marker is not first
    with pytest.raises(RuntimeError, match="application context"):
        _ = g.marker
