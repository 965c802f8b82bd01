"""What we want to reach, as ratios within one run, and whether this run did."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.contenders import (
    ACCESS_TOKEN,
    BARE,
    FASTMCP,
    GRANIAN,
    GTHREAD,
    JSONRPC,
    LEGACY,
    MODERN,
    OURS,
    OURS_SPEED,
    OWN_TOKEN,
    REST,
    SDK,
    SDK_PLAIN,
    SIGNED,
    UVICORN,
)
from benchmarks.scale import Scale
from benchmarks.table import Key, Loads, Rounds, format_table, median_sample, over_first, rates, ratio


@dataclass(frozen=True)
class Target:
    """One thing that we want: a number that is at most, or at least, another."""

    what: str
    measured: float
    limit: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit


def targets_in_process(cpu: Rounds) -> Iterator[Target]:
    ratios = over_first(cpu)
    for face in (MODERN, LEGACY, REST, JSONRPC):
        what = f"one call in process over bare Flask, {face}"
        limit = 1.65 if face in (MODERN, LEGACY) else 1.5
        yield Target(what, ratios[OURS, face, GTHREAD], limit)
        yield Target(f"{what}, speed", ratios[OURS_SPEED, face, GTHREAD], 1.4)
    signed = ratio(cpu[OURS_SPEED, REST, GTHREAD], cpu[OURS_SPEED, SIGNED, GTHREAD])
    yield Target("REST without sign-in over REST with a password", signed, 0.8, at_least=True)
    tokens = zip(cpu[OURS_SPEED, ACCESS_TOKEN, GTHREAD], cpu[OURS_SPEED, OWN_TOKEN, GTHREAD], strict=True)
    more = statistics.median(access - own for access, own in tokens)
    yield Target("a remembered access token more than an own token, µs", more, 10)


def targets_over_http(http: Loads) -> Iterator[Target]:
    found = rates(http)

    def at_least(limit: float, what: str, ours: Key, other: Key) -> Target:
        return Target(f"req/s over {what}", ratio(found[ours], found[other]), limit, at_least=True)

    for face in (MODERN, LEGACY):
        plain, speed, base = (OURS, face, GTHREAD), (OURS_SPEED, face, GTHREAD), (BARE, face, GTHREAD)
        yield at_least(0.8, f"bare Flask, gthread, {face}", plain, base)
        yield at_least(0.9, f"bare Flask, gthread, {face}, speed", speed, base)
        sdk = (SDK, face, UVICORN)
        if face == MODERN:
            what = "the Python SDK with a plain function"
            yield at_least(1.0, f"{what}, gthread, {face}, speed", speed, (SDK_PLAIN, face, UVICORN))
        else:
            yield at_least(1.0, f"the Python SDK in any form, gthread, {face}, speed", speed, sdk)
        limit = 2.0 if face == MODERN else 1.8
        yield at_least(limit, f"FastMCP, gthread, {face}, speed", speed, (FASTMCP, face, UVICORN))
        for who, wanted in ((OURS, 1.4), (OURS_SPEED, 1.8)):
            yield at_least(wanted, f"the Python SDK, granian, {face}, {who}", (who, face, GRANIAN), sdk)
    megabytes = median_sample(http[OURS, MODERN, GTHREAD]).megabytes
    yield Target("memory of a worker with this small app, MB", megabytes, 45)


def targets_of_scale(scale: Scale) -> Iterator[Target]:
    for which, pages in scale.page_ratios.items():
        yield Target(f"a page of {which} with 10,000 tools over one with 10", pages, 1.1)
    yield Target("the first sight of 10,000 tools, ms", scale.first_sight, 20)
    yield Target("a call with 10,000 tools over one with 10", scale.call_ratio, 1.1)
    yield Target("start with 1,000 tools over a bare Flask start", scale.start_ratio, 2)
    yield Target("start with 10,000 tools, s", scale.start_many, 3)
    yield Target("start with 10,000 tools of JSON Schema dicts, s", scale.start_schemas, 5)
    yield Target("a call on stdio with 10,000 tools over one with 10", scale.stdio_ratio, 1.1)
    yield Target("memory with 10,000 tools, MB", scale.megabytes_many, 120)
    yield Target("memory of the sample site, MB", scale.megabytes_sample, 75)


def target_of_rows(rows: Rounds) -> Target:
    *_, speed = over_first(rows).values()
    return Target("a result of 1,000 rows over json.dumps of it, speed", speed, 3)


def format_targets(targets: Sequence[Target]) -> str:
    rows = [
        [
            target.what,
            f"{target.measured:.2f}",
            f"{'at least' if target.at_least else 'at most'} {target.limit:g}",
            "met" if target.is_met else "NOT met",
        ]
        for target in targets
    ]
    return format_table(["", "measured", "target", ""], rows)
