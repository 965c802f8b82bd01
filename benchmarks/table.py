"""Numbers as tables: Markdown, which reads well in a terminal too."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from benchmarks.load import Sample

Key = tuple[str, str, str]
"""Who, which face, on which server."""

Rounds = Mapping[Key, Sequence[float]]
"""What was measured of each, round by round."""

Loads = Mapping[Key, Sequence[Sample]]
"""What a load showed of each, round by round."""


def ratio(values: Sequence[float], beside: Sequence[float]) -> float:
    """Compare two by what they took in the same rounds: a machine that is slow for a while is slow for both."""
    return statistics.median(value / other for value, other in zip(values, beside, strict=True))


def rates(measured: Loads) -> dict[Key, list[float]]:
    """The requests per second of each, round by round."""
    return {key: [sample.rate for sample in samples] for key, samples in measured.items()}


def median_sample(samples: Sequence[Sample]) -> Sample:
    """Take the median of each number by itself."""
    numbers = {field.name: statistics.median(getattr(s, field.name) for s in samples) for field in fields(Sample)}
    return Sample(**numbers)


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Spell a table whose columns stand below each other: the first to the left, numbers to the right."""
    rows = [list(row) for row in rows]
    widths = [max(len(row[column]) for row in [list(header), *rows]) for column in range(len(header))]
    lines = [_format_row(header, widths), "| " + " | ".join(_rule(n, width) for n, width in enumerate(widths)) + " |"]
    return "\n".join([*lines, *(_format_row(row, widths) for row in rows)]) + "\n"


def http_table(measured: Loads) -> str:
    """Spell what was measured over HTTP, beside the first of them."""
    faster = over_first(rates(measured))
    dearer = over_first({key: [sample.cpu for sample in samples] for key, samples in measured.items()})
    header = ["", "req/s", "over bare Flask", "CPU µs/req", "over bare Flask", "p50 ms", "p99 ms", "MB"]
    rows = []
    for key, samples in measured.items():
        sample = median_sample(samples)
        rows.append(
            [
                name_of(key),
                f"{sample.rate:,.0f}",
                f"{faster[key]:.2f}",
                f"{sample.cpu:,.0f}",
                f"{dearer[key]:.2f}",
                f"{sample.p50:.1f}",
                f"{sample.p99:.1f}",
                f"{sample.megabytes:.0f}",
            ]
        )
    return format_table(header, rows)


def cpu_table(measured: Rounds) -> str:
    """Spell the CPU time of single calls, beside the first of them."""
    ratios = over_first(measured)
    medians = {key: statistics.median(rounds) for key, rounds in measured.items()}
    rows = [[name_of(key[:2]), f"{cpu:,.0f}", f"{ratios[key]:.2f}"] for key, cpu in medians.items()]
    return format_table(["", "CPU µs", "over bare Flask"], rows)


def over_first(measured: Rounds) -> dict[Key, float]:
    """Compare each with who comes first: with what that one takes by the same face, where it was measured."""
    first = next(iter(measured))
    by_face = {face: rounds for (who, face, server), rounds in measured.items() if (who, server) == first[::2]}
    ratios = {}
    for key, rounds in measured.items():
        base = by_face.get(key[1].partition(",")[0], measured[first])  # REST with a password is REST
        ratios[key] = ratio(rounds, base)
    return ratios


def name_of(key: Sequence[str]) -> str:
    return ", ".join(part for part in key if part)


def _format_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"


def _rule(column: int, width: int) -> str:
    return "-" * width if column == 0 else "-" * (width - 1) + ":"
