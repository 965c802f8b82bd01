"""Draw the pictures of the command line in docs/ from what the commands really print.

``make pictures`` draws them; ``python docs/pictures/draw.py --check`` only checks whether they are up to date.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent
PICTURES = {"list.svg": ["mcp", "list"], "doctor.svg": ["mcp", "doctor", "--all"]}

COLUMNS = 100
CHARACTER, LINE, MARGIN = 8, 18, 16
BACKGROUND, FOREGROUND, DIM = "#1b1f24", "#dce1e6", "#8b949e"
FONTS = "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace"
COLORS = {31: "#ff7b72", 32: "#7ee787", 33: "#e3b341", 34: "#79b8ff", 36: "#76d3e8"}

_CODES = re.compile(r"\x1b\[([0-9;]*)m")


@dataclass(frozen=True)
class Style:
    color: str = FOREGROUND
    bold: bool = False

    def after(self, code: int) -> Style:
        if code == 0:
            return Style()
        if code == 1:
            return replace(self, bold=True)
        return replace(self, color=DIM if code == 2 else COLORS.get(code, FOREGROUND))


def output_of(command: list[str], database: Path) -> str:
    """What a command prints in a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    unwanted = ("COLUMNS", "LINES", "NO_COLOR", "GUNICORN_CMD_ARGS", "WEB_CONCURRENCY")
    env = {name: value for name, value in os.environ.items() if name not in unwanted}
    env |= {"DATABASE_URL": f"sqlite:///{database}", "SECRET_KEY": "of the picture" * 3, "SITE_ENV": "development"}
    subprocess.run([sys.executable, "-m", "sample_app.seed"], cwd=ROOT, env=env, check=True, capture_output=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "flask", "--app", "sample_app", *command],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    printed = b"".join(_chunks(ours))
    process.wait()
    return printed.decode().replace("\r\n", "\n")


def _chunks(terminal: int) -> Iterator[bytes]:
    try:
        while chunk := os.read(terminal, 4096):
            yield chunk
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(terminal)


def draw(prompt: str, printed: str) -> str:
    """Make an SVG of a terminal in which a command was typed."""
    lines = [f"\x1b[2m$\x1b[0m {prompt}", *printed.rstrip("\n").split("\n")]
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    style = Style()
    texts: list[str] = []
    for row, line in enumerate(lines):
        column = 0
        for number, part in enumerate(_CODES.split(line)):
            if number % 2:
                for code in part.split(";"):
                    style = style.after(int(code or 0))
            elif part:
                texts += _text(part, column, row, style)
                column += len(part)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        f'<g font-family="{FONTS}" font-size="13" xml:space="preserve">\n' + "\n".join(texts) + "\n</g>\n</svg>\n"
    )


def _text(text: str, column: int, row: int, style: Style) -> Iterator[str]:
    shown = text.strip(" ")
    if not shown:
        return
    x = MARGIN + (column + len(text) - len(text.lstrip(" "))) * CHARACTER
    y = MARGIN + row * LINE + LINE * 3 // 4
    weight = ' font-weight="bold"' if style.bold else ""
    # With its length, so that columns are columns whatever font there is.
    length = len(shown) * CHARACTER
    yield f'<text x="{x}" y="{y}" textLength="{length}" fill="{style.color}"{weight}>{escape(shown)}</text>'


def main() -> int:
    outdated = []
    for name, command in PICTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            printed = output_of(command, Path(folder) / "site.sqlite3")
        picture = draw(f"flask --app sample_app {' '.join(command)}", printed)
        if "--check" not in sys.argv:
            (FOLDER / name).write_text(picture)
        elif (FOLDER / name).read_text() != picture:
            outdated.append(name)
    if outdated:
        sys.stderr.write(f"not what the commands print now: {', '.join(outdated)}; run make pictures\n")
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
