"""The code blocks of a document: found, and run as a reader would run them.

A Python block is a script of its own. One with a caption is a file, which the commands after it use. The shell blocks
of a document are typed one after the other in one folder; JSON right below one is what it prints.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.support.servers import ROOT, free_port, running

# ```python, or ```{code-block} python with options in lines of their own.
_FENCE = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>\w+)\n(?P<options>(?::[\w-]+:[^\n]*\n)*)(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CAPTION = re.compile(r"^:caption: (.*)$", re.MULTILINE)

FLASK, GUNICORN, SAMPLE_SITE = "flask --app app run", "gunicorn ", "make serve"
PORTS = {FLASK: 5000, GUNICORN: 8000, SAMPLE_SITE: 8000}
"""How the commands begin that start a server, and the port that readers will find it on."""


@dataclass(frozen=True)
class Block:
    """A code block.

    :param document: The Markdown file, relative to the repository.
    :param file: The name of the file that it is; empty for a script or a command.
    """

    language: str
    text: str
    document: str
    line: int
    file: str = ""

    def __str__(self) -> str:
        return f"{self.document}-{self.line}"


def port_of(block: Block) -> int | None:
    """The port of the server that a block starts; ``None`` for any other block."""
    if block.language != "sh":
        return None
    return next((port for command, port in PORTS.items() if block.text.startswith(command)), None)


def read_blocks(path: Path) -> list[Block]:
    """Find the code blocks of a Markdown file."""
    document = path.read_text(encoding="utf-8")
    blocks = []
    for fence in _FENCE.finditer(document):
        caption = _CAPTION.search(fence["options"])
        line = document.count("\n", 0, fence.start()) + 1
        file = "" if caption is None else caption[1]
        name = path.relative_to(ROOT).as_posix()
        blocks.append(Block(fence["language"], fence["text"].strip(), name, line, file))
    return blocks


def run_python(block: Block, folder: Path) -> None:
    """Run a block as a script, in this process: where warnings are errors, they are here too."""
    script = folder / "block.py"
    script.write_text(block.text, encoding="utf-8")
    with patch.dict(os.environ):
        runpy.run_path(str(script), run_name="block")


def try_commands(blocks: Sequence[Block], folder: Path, moved: dict[int, int] | None = None) -> None:
    """Type the shell blocks of a document in a folder, with the files and the servers that stand before each.

    :param moved: Where servers are that run already, by the port that the document gives for them.
    """
    ports = dict(moved or {})
    with ExitStack() as servers:
        for block, following in zip(blocks, [*blocks[1:], None], strict=True):
            if block.file:
                (folder / block.file).write_text(block.text + "\n", encoding="utf-8")
            elif (promised := port_of(block)) is not None:
                servers.close()
                port = ports[promised] = free_port()
                places = {"FLASK_RUN_PORT": str(port), "GUNICORN_CMD_ARGS": f"--bind 127.0.0.1:{port}"}
                # exec: the signal that ends the server goes to itself, and not to a shell around it.
                command = ["bash", "-c", f"exec {block.text}"]
                servers.enter_context(running(command, port, folder, env={**_activated(), **places}))
            elif block.language == "sh":
                shown = following if following is not None and following.language == "json" else None
                _try_command(block, shown, folder, ports)


def _try_command(block: Block, shown: Block | None, folder: Path, ports: dict[int, int]) -> None:
    text = block.text
    for port, actual in ports.items():
        text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{actual}")
    command, env = ["bash", "-ec", text], {**os.environ, **_activated()}
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, f"{block}: {ran.stdout}{ran.stderr}"
    if shown is not None:
        assert json.loads(ran.stdout) == json.loads(shown.text), str(shown)
    elif text.startswith("curl ") and not ran.stdout.startswith("data: "):
        json.loads(ran.stdout)


def _activated() -> dict[str, str]:
    """The programs of this environment are at hand, as in a shell that has activated it."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
