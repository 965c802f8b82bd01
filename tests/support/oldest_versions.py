"""Prints the oldest versions that setup.cfg allows, as constraints for pip: what ``make test-oldest`` installs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

EXTRAS = (
    *("async", "bridge", "celery", "gunicorn", "oauth", "otel"),
    *("prometheus", "sample", "sample-telemetry", "speed", "tasks"),
)

_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:\[[^]]*\])?\s*(?:>=\s*(?P<oldest>[\w.]+))?")


def oldest_versions(setup_cfg: str) -> Iterator[str]:
    """Turn each ``name >= version`` into ``name == version``; what comes without a bound is left to pip."""
    settings = ConfigParser(interpolation=None)
    settings.read_string(setup_cfg)
    extras = settings["options.extras_require"]
    for requirements in (settings["options"]["install_requires"], *(extras[name] for name in EXTRAS)):
        for requirement in requirements.split("\n"):
            read = _REQUIREMENT.match(requirement)
            if read is not None and read["oldest"] is not None:
                yield f"{read['name']} == {read['oldest']}"


if __name__ == "__main__":
    for version in dict.fromkeys(oldest_versions(Path("setup.cfg").read_text(encoding="utf-8"))):
        print(version)  # noqa: T201 (what it is for)
