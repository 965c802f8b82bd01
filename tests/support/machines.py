"""A second machine: a network namespace that a cable connects with the machine of the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.support.servers import need

HERE, THERE = "10.213.71.1", "10.213.71.2"
"""The addresses of both ends of the cable."""


@dataclass(frozen=True)
class Machine:
    name: str

    @property
    def inside(self) -> list[str]:
        """The command that runs another one on this machine."""
        return ["ip", "netns", "exec", self.name]

    def cut_off(self) -> None:
        _ip("link", "set", "dev", self.name, "down")

    def connect(self) -> None:
        _ip("link", "set", "dev", self.name, "up")


@contextmanager
def second_machine() -> Iterator[Machine]:
    """Add a machine, which reaches this one at `HERE`. Skips a test where the system allows no namespaces."""
    name = f"mcp{os.getpid() % 100_000}"
    added = subprocess.run([need("ip"), "netns", "add", name], capture_output=True, text=True)
    if added.returncode != 0:
        pytest.skip(f"needs network namespaces: {added.stderr}")
    machine = Machine(name)
    try:
        _ip("link", "add", name, "type", "veth", "peer", "name", "cable", "netns", name)
        _ip("address", "add", f"{HERE}/30", "dev", name)
        _ip("link", "set", "dev", name, "up")
        for command in (f"address add {THERE}/30 dev cable", "link set dev cable up", "link set dev lo up"):
            _ip("-netns", name, *command.split())
        yield machine
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)  # with the cable


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
