"""What we want to reach, as ratios within one run, and whether this run did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import (
    BARE,
    FASTMCP,
    GRANIAN,
    GTHREAD,
    JSONRPC,
    LEGACY,
    MODERN,
    OURS,
    OURS_SPEED,
    REST,
    SDK,
    SDK_PLAIN,
    SIGNED,
    UVICORN,
)
from benchmarks.load import Sample
from benchmarks.scale import Scale
from benchmarks.table import Key, Rounds, over_first, spell_table


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
        limit = 1.5 if face in (MODERN, LEGACY) else 1.35
        yield Target(what, ratios[OURS, face, GTHREAD], limit)
        yield Target(f"{what}, speed", ratios[OURS_SPEED, face, GTHREAD], 1.25)
    signed = ratios[OURS_SPEED, REST, GTHREAD] / ratios[OURS_SPEED, SIGNED, GTHREAD]
    yield Target("REST without sign-in over REST with a password", signed, 0.8, at_least=True)


def targets_over_http(http: Mapping[Key, Sample]) -> Iterator[Target]:
    def rate(who: str, face: str, server: str) -> float:
        return http[who, face, server].rate

    base = rate(BARE, MODERN, GTHREAD)
    for face in (MODERN, LEGACY):
        plain, speed = rate(OURS, face, GTHREAD), rate(OURS_SPEED, face, GTHREAD)
        yield Target(f"req/s over bare Flask, gthread, {face}", plain / base, 0.8, at_least=True)
        yield Target(f"req/s over bare Flask, gthread, {face}, speed", speed / base, 0.9, at_least=True)
        best = rate(SDK_PLAIN if face == MODERN else SDK, face, UVICORN)
        name = "with a plain function" if face == MODERN else "in any form"
        yield Target(f"req/s over the Python SDK {name}, gthread, {face}, speed", speed / best, 1.0, at_least=True)
        fast = rate(FASTMCP, face, UVICORN)
        limit = 2.0 if face == MODERN else 1.8
        yield Target(f"req/s over FastMCP, gthread, {face}, speed", speed / fast, limit, at_least=True)
        sdk = rate(SDK, face, UVICORN)
        for who, wanted in ((OURS, 1.4), (OURS_SPEED, 1.8)):
            ratio = rate(who, face, GRANIAN) / sdk
            yield Target(f"req/s over the Python SDK, granian, {face}, {who}", ratio, wanted, at_least=True)
    yield Target("memory of a worker with this small app, MB", http[OURS, MODERN, GTHREAD].megabytes, 45)


def targets_of_scale(scale: Scale) -> Iterator[Target]:
    for spelling, ratio in scale.page_ratios.items():
        yield Target(f"a page of {spelling} with 10,000 tools over one with 10", ratio, 1.1)
    yield Target("the first sight of 10,000 tools, ms", scale.first_sight, 20)
    yield Target("a call with 10,000 tools over one with 10", scale.call_ratio, 1.1)
    yield Target("start with 1,000 tools over a bare Flask start", scale.start_ratio, 1.6)
    yield Target("start with 10,000 tools, s", scale.start_many, 3)
    yield Target("memory with 10,000 tools, MB", scale.megabytes_many, 120)
    yield Target("memory of the sample site, MB", scale.megabytes_sample, 75)


def target_of_rows(rows: Rounds) -> Target:
    *_, ratio = over_first(rows).values()
    return Target("a result of 1,000 rows over json.dumps of it, speed", ratio, 3)


def spell_targets(targets: Sequence[Target]) -> str:
    rows = [
        [
            target.what,
            f"{target.measured:.2f}",
            f"{'at least' if target.at_least else 'at most'} {target.limit:g}",
            "met" if target.is_met else "NOT met",
        ]
        for target in targets
    ]
    return spell_table(["", "measured", "target", ""], rows)
