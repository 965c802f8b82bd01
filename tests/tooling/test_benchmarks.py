"""The logic of the benchmarks: what they send, how they read what came of it, and how they tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from benchmarks import contenders, load, one_call, run, scale, targets, tasks
from benchmarks.apps.raw_wsgi import app as raw_wsgi
from benchmarks.chart import Bar, Panel, draw_chart
from benchmarks.contenders import BARE, GRANIAN, GTHREAD, MODERN, OURS, OURS_SPEED, REST, SDK, SIGNED, UVICORN
from benchmarks.in_process import calling
from benchmarks.load import Sample
from benchmarks.servers import cpu_seconds, megabytes, processes_of
from benchmarks.table import cpu_table, format_table, http_table, median_sample, over_first
from benchmarks.targets import Target, format_targets
from tests.support.faces import Asked
from tests.support.load import wait_until

WRK = """Running 1s test @ http://127.0.0.1:20000/mcp
  1 threads and 16 connections
  1800 requests in 1.10s, 0.45MB read
Requests/sec:   1636.36
{"requests": 1800, "microseconds": 1100000, "failed": 0, "p50": 6700.000000, "p99": 59100.000000}
"""


def test_what_wrk_saw_becomes_a_sample() -> None:
    sample = load.read_output(WRK, cpu_seconds=0.9, megabytes=30)
    assert sample is not None
    assert (round(sample.rate), round(sample.cpu), sample.p50, sample.p99, sample.megabytes) == (
        1636,
        500,
        6.7,
        59.1,
        30,
    )


def test_a_round_with_failures_counts_for_nothing() -> None:
    """A server that answers with errors would look quick."""
    with pytest.raises(ValueError, match="3 requests of 1800 failed"):
        load.read_output(WRK.replace('"failed": 0', '"failed": 3'), cpu_seconds=1, megabytes=1)


def test_a_round_without_answers_is_no_sample() -> None:
    assert load.read_output(WRK.replace('"requests": 1800', '"requests": 0'), cpu_seconds=1, megabytes=1) is None


def test_wrk_is_told_the_method_the_headers_and_the_body() -> None:
    script = load.make_script(Asked("/x", {"text": 'say "\\hi"'}, {"Mcp-Name": "add"}))
    assert 'wrk.method = "POST"' in script
    assert r'wrk.body = "{\"text\":\"say \\\"\\\\hi\\\"\"}"' in script
    assert 'wrk.headers["Mcp-Name"] = "add"' in script
    assert 'wrk.headers["Content-Type"] = "application/json"' in script


def test_wrk_gets_what_has_no_body() -> None:
    script = load.make_script(Asked("/x"))
    assert 'wrk.method = "GET"' in script
    assert "wrk.body = nil" in script


def sample(rate: float, cpu: float = 100) -> Sample:
    return Sample(rate, cpu, 1, 2, 30)


def test_the_median_is_taken_of_each_number_by_itself() -> None:
    assert median_sample([sample(1, 30), sample(3, 10), sample(2, 20)]) == sample(2, 20)


def test_a_table_has_its_numbers_below_each_other() -> None:
    assert format_table(["", "req/s"], [["a", "1"], ["long name", "1,000"]]) == (
        "|           | req/s |\n| --------- | ----: |\n| a         |     1 |\n| long name | 1,000 |\n"
    )


def test_ratios_are_those_over_the_first() -> None:
    """Round by round: in the second the machine was slow for both, in the third for one of them."""
    measured = {
        (BARE, "", GTHREAD): [sample(1000, 200), sample(500, 400), sample(1000, 200)],
        (OURS, MODERN, GTHREAD): [sample(900, 250), sample(450, 500), sample(300, 750)],
    }
    assert (
        "| this package, 2026-07-28, gunicorn gthread |   450 |            0.90 |        500 |            1.25 |"
        in (http_table(measured))
    )
    assert "| this package, 2026-07-28 |    500 |            1.25 |" in cpu_table(
        {key: [one.cpu for one in found] for key, found in measured.items()}
    )


def test_each_face_is_compared_round_by_round_with_the_same_face() -> None:
    """In the second round the machine was slow for all, in the third for one of them."""
    measured = {
        (BARE, MODERN, GTHREAD): [100.0, 300.0, 100.0],
        (BARE, REST, GTHREAD): [50.0, 150.0, 50.0],
        (BARE, REST, GRANIAN): [10.0, 30.0, 10.0],
        (OURS, REST, GTHREAD): [60.0, 180.0, 500.0],
        (OURS, SIGNED, GTHREAD): [75.0, 225.0, 75.0],
        (SDK, MODERN, UVICORN): [200.0, 600.0, 200.0],
    }
    assert list(over_first(measured).values()) == [1.0, 1.0, 0.2, 1.2, 1.5, 2.0]


def test_a_target_is_met_at_its_limit() -> None:
    assert Target("at most", 1.5, 1.5).is_met
    assert not Target("at most", 1.51, 1.5).is_met
    assert Target("at least", 0.8, 0.8, at_least=True).is_met
    assert not Target("at least", 0.79, 0.8, at_least=True).is_met
    assert "NOT met" in format_targets([Target("x", 2, 1)])


def test_everything_that_targets_ask_for_is_measured() -> None:
    """Or the full run would fail at its very end."""
    http = {contender.key: [sample(1000)] for contender in contenders.over_http()}
    cpu = {contender.key: [100.0] for contender in contenders.in_process()}
    grown = scale.Scale({"the list": 1.0}, 5, 1, 1.5, 2, 3, 1, 100, 60, "")
    wanted = [*targets.targets_in_process(cpu), *targets.targets_over_http(http), *targets.targets_of_scale(grown)]
    assert len(wanted) == len({target.what for target in wanted}) > 20
    assert {SDK, OURS_SPEED} <= {key[0] for key in http}
    assert ElementTree.fromstring(run.draw(http, cpu, "2026-11-16")).tag.endswith("svg")  # noqa: S314 (our own)
    page = run.format_results(http, cpu, cpu, grown, wanted, preface=f"On {run.machine()}.")
    assert page.startswith("# Results\n\nOn ")
    assert all(target.what in page for target in wanted)


def test_no_two_contenders_are_the_same() -> None:
    for everyone in (contenders.over_http(), contenders.in_process()):
        assert len({contender.key for contender in everyone}) == len(everyone)


def test_a_bar_is_as_long_as_its_value() -> None:
    chart = draw_chart([Panel("a <title>", [Bar("half", 1), Bar("whole", 2, is_ours=True)])], "a note & more")
    drawn = ElementTree.fromstring(chart)  # noqa: S314 (our own)
    half, whole = (float(bar.attrib["width"]) for bar in drawn.iter("{http://www.w3.org/2000/svg}rect"))
    assert whole == 2 * half
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a <title>", "half", "whole", "a note & more"} <= set(texts)


def test_the_processes_of_a_server_are_those_it_started_too() -> None:
    work = "import time\nwhile time.process_time() < 0.5: pass\ninput()"
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], stdin=0)"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE) as process:
        wait_until(lambda: len(processes_of(process.pid)) == 2, "it has started the other")
        assert process.pid in processes_of(os.getpid())
        wait_until(lambda: cpu_seconds(process.pid) > 0.4, "the other has worked")
        assert megabytes(process.pid) > 1
        assert process.stdin is not None
        process.stdin.close()


def test_calls_are_made_and_timed_in_a_process_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment of these tests, where the app is installed too."""
    monkeypatch.setattr(contenders.Stand, "python", sys.executable)
    [ours, *_] = contenders.ours(GTHREAD, speed=False, faces=(contenders.LEGACY,))
    with calling(ours, "sum") as caller:
        caller.wait_until_ready()
        assert caller.microseconds(3) > 0


def test_an_asgi_app_is_called_as_a_server_would() -> None:
    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        message = await receive()  # type: ignore[operator]
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"X-Path", str(scope["path"]).encode())]}
        )  # type: ignore[operator]
        await send({"type": "http.response.body", "body": message["body"]})  # type: ignore[operator]

    call = one_call.asgi_call(app, "/mcp?x=1")
    with pytest.raises(StopIteration) as ended:
        call({}, b"hello").send(None)  # type: ignore[attr-defined]
    assert ended.value.value == (200, {"x-path": "/mcp"}, b"hello")


def test_a_wsgi_app_is_called_as_a_server_would() -> None:
    body = json.dumps({"id": 1, "params": {"arguments": {"a": 1, "b": 2}}}).encode()
    with pytest.raises(StopIteration) as ended:
        one_call.wsgi_call(raw_wsgi, "/mcp")({}, body).send(None)  # type: ignore[attr-defined]
    status, _, content = ended.value.value
    assert (status, json.loads(content)["result"]) == (200, {"sum": 3})


def test_the_report_about_tasks_has_a_row_for_each_and_says_which_limits_are_met() -> None:
    def times(start: float, get: float) -> tasks.Times:
        return tasks.Times(creation=[3, 4, 5], start=[start], get=[get], plain=[2.0], rates=[123.4])

    contenders_ = {tasks.LOCAL: times(90, 2), tasks.CELERY: times(15, 4), tasks.PLAIN: times(10, 1)}
    text = tasks.report(contenders_, rounds=3, tasks=50)
    assert (
        "| CeleryTasks, PostgreSQL |         4.0 |             15.0 |    4.0 |           2.0 |            123 |" in text
    )
    assert (
        "| plain Celery            |         4.0 |             10.0 |    1.0 |               |            123 |" in text
    )
    assert "* `tasks/get` over a plain call, LocalTasks, SQLite: 1.00, at most 1.5: met" in text
    assert "* `tasks/get` over a plain call, CeleryTasks, PostgreSQL: 2.00, at most 1.5: not met" in text
    assert "* call to start, CeleryTasks over plain Celery: 1.50, at most 2: met" in text
