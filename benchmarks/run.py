"""Measures this package beside its peers: ``make bench``, or ``make bench-quick`` for a first look.

The full run writes ``benchmarks/RESULTS.md`` and ``benchmarks/results.svg``; the quick one only prints.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks import contenders, in_process, load, scale, targets
from benchmarks.chart import Bar, Panel, draw_chart
from benchmarks.contenders import GTHREAD, OURS, OURS_SPEED, PEERS, Contender, Stand
from benchmarks.load import Sample
from benchmarks.scale import Scale
from benchmarks.servers import prepared, serve
from benchmarks.table import Key, Loads, Rounds, cpu_table, http_table, name_of, over_first, rates
from benchmarks.targets import Target
from tests.support import faces
from tests.support.servers import Server

FOLDER = Path(__file__).parent
SHOWN = (
    "flask",
    "werkzeug",
    "gunicorn",
    "granian",
    "gevent",
    "jsonschema",
    "jsonschema-rs",
    "orjson",
    "mcp",
    "fastmcp-slim",
    "flask-jsonrpc",
    "uvicorn",
)


def measure_http(everyone: Sequence[Contender], *, starts: int, rounds: int) -> dict[Key, list[Sample]]:
    """Put the same load on everyone, in turn, round after round.

    :param starts: How often everyone is started anew: two processes of the same code can differ by some percent.
    """
    samples: dict[Key, list[Sample]] = {contender.key: [] for contender in everyone}
    # Those that are compared stand next to each other, and so meet the same neighbours on the machine.
    by_face = sorted(everyone, key=lambda contender: contender.face)
    for _ in range(starts):
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            folder = Path(name)
            stands = dict.fromkeys(contender.stand for contender in everyone)
            servers: dict[Stand, Server] = {
                stand: stack.enter_context(serve(stand, folder / str(number))) for number, stand in enumerate(stands)
            }
            asked = {contender.key: prepared(contender, servers[contender.stand]) for contender in everyone}
            for number in range(1 + rounds):
                for contender in by_face:
                    sample = load.run(servers[contender.stand], asked[contender.key], folder, seconds=1)
                    if number:  # the first is to get warm
                        samples[contender.key].append(sample)
    return samples


def measure_rows(*, rounds: int) -> Rounds:
    """The CPU time of a result of a thousand rows, beside its JSON alone."""
    asked = faces.rest("rows", {})
    dumps = Stand("flask", "benchmarks.apps.raw_wsgi:rows", GTHREAD)
    everyone = [Contender("json.dumps", "1,000 rows", dumps, asked)]
    for who, env in ((OURS, (("BENCH_SPEED", "off"),)), (OURS_SPEED, ())):
        stand = Stand("flask", "benchmarks.apps.ours:app", GTHREAD, env)
        everyone.append(Contender(who, "1,000 rows", stand, asked))
    return in_process.measure(everyone, starts=1, rounds=rounds, calls=5, expected="name 999")


def versions() -> Iterator[str]:
    """Name the versions of what was measured, from the environments it was measured in."""
    found: dict[str, str] = {}
    for environment in sorted(path for path in PEERS.iterdir() if path.is_dir()):
        python = environment / "bin" / "python"
        listed = subprocess.run(
            [python, "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True, check=True
        )
        for line in listed.stdout.splitlines():
            name, _, version = line.partition("==")
            found.setdefault(name.lower().replace("_", "-"), version)
    yield from (f"{name} {found[name]}" for name in SHOWN if name in found)


def machine() -> str:
    lines = [line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines()]
    models = sorted({value.strip() for name, _, value in lines if name.startswith("model name")})
    cores = sum(name.startswith("processor") for name, _, _ in lines)
    return f"{cores} cores of {', '.join(models)}, {platform.system()}, Python {platform.python_version()}"


def draw(http: Loads, cpu: Rounds, date: str) -> str:
    over_http = [_bar(key, times) for key, times in over_first(rates(http)).items()]
    alone = [_bar(key[:2], times) for key, times in over_first(cpu).items()]
    return draw_chart(
        [
            Panel("Requests per second over HTTP, bare Flask = 1 (longer is better)", over_http),
            Panel("CPU time of one call in process, bare Flask = 1 (shorter is better)", alone),
        ],
        f"One worker, {load.CONNECTIONS} connections, medians of interleaved rounds, {date}. Red line: bare Flask.",
    )


def _bar(key: Sequence[str], length: float) -> Bar:
    return Bar(name_of(key), length, key[0] in (OURS, OURS_SPEED))


def format_results(
    http: Loads,
    cpu: Rounds,
    rows: Rounds,
    grown: Scale,
    wanted: Sequence[Target],
    *,
    preface: str,
) -> str:
    """Spell the page that the full run writes."""
    return f"""# Results

{preface} Absolute numbers move with the machine and its neighbours; the ratios of one run are what counts.

![Bars beside bare Flask](results.svg)

## Targets

{targets.format_targets(wanted)}
## Over HTTP

One worker, {load.CONNECTIONS} connections that are kept, medians of interleaved rounds. "speed" is the extra.

{http_table(http)}
## In process

The CPU time of one call of the app, with no server and no network.

{cpu_table(cpu)}
A result of 1,000 rows with an output schema, beside `json.dumps` of it:

{cpu_table(rows).replace("over bare Flask", "over json.dumps")}
## Many tools

{grown.table}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, and no files")
    quick = parser.parse_args().quick
    load.wrk()
    http = measure_http(contenders.over_http(), starts=1 if quick else 6, rounds=1 if quick else 3)
    print(http_table(http), flush=True)
    starts, rounds, calls = (1, 9, 40) if quick else (15, 5, 100)
    cpu = in_process.measure(contenders.in_process(), starts=starts, rounds=rounds, calls=calls)
    print(cpu_table(cpu), flush=True)
    rows = measure_rows(rounds=3 if quick else 9)
    wanted = [
        *targets.targets_in_process(cpu),
        *targets.targets_over_http(http),
        targets.target_of_rows(rows),
    ]
    if quick:
        print(targets.format_targets(wanted))
        return
    grown = scale.measure()
    print(grown.table)
    wanted += targets.targets_of_scale(grown)
    print(targets.format_targets(wanted))
    date = datetime.date.today().isoformat()
    preface = f"Written by `make bench` on {date}, on {machine()}, with {', '.join(versions())}."
    page = format_results(http, cpu, rows, grown, wanted, preface=preface)
    (FOLDER / "results.svg").write_text(draw(http, cpu, date), encoding="utf-8")
    (FOLDER / "RESULTS.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
