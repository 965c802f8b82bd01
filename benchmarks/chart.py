"""A bar chart as SVG, readable on light and on dark pages: one bar for each contender, beside bare Flask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

BAR, GAP, LABEL, WIDTH = 18, 6, 450, 420
OURS, OTHERS = "#2f7ebc", "#9aa5b1"
STYLE = "text{fill:#24292f;font-family:sans-serif}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}"


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    is_ours: bool = False


@dataclass(frozen=True)
class Panel:
    """A title and its bars; ``mark`` is where bare Flask is."""

    title: str
    bars: Sequence[Bar]
    mark: float = 1.0


def draw_chart(panels: Sequence[Panel], note: str) -> str:
    """Draw panels below each other."""
    parts: list[str] = []
    y = 10.0
    for panel in panels:
        parts.append(_text(10, y + 16, panel.title, weight="bold"))
        y += 32
        top = y
        scale = WIDTH / max(panel.mark, *(bar.value for bar in panel.bars))
        for bar in panel.bars:
            parts += _draw_bar(bar, y, scale)
            y += BAR + GAP
        x = LABEL + panel.mark * scale
        ends = f'x1="{x:.1f}" y1="{top - 4:.1f}" x2="{x:.1f}" y2="{y:.1f}"'
        parts.append(f'<line {ends} stroke="#c0392b" stroke-width="1.5"/>')
        y += 16
    parts.append(_text(10, y + 10, note, size=11))
    height, width = y + 24, LABEL + WIDTH + 60
    size = f'viewBox="0 0 {width} {height:.0f}" width="{width}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(panels[0].title)}</title>'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _draw_bar(bar: Bar, y: float, scale: float) -> list[str]:
    length = bar.value * scale
    colour = OURS if bar.is_ours else OTHERS
    return [
        _text(LABEL - 8, y + 13, bar.label, anchor="end"),
        f'<rect x="{LABEL}" y="{y:.1f}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
        _text(LABEL + length + 6, y + 13, f"{bar.value:.2f}"),
    ]


def _text(x: float, y: float, text: str, *, size: int = 13, weight: str = "normal", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"
