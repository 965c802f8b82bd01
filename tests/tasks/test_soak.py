"""The soak of tasks in short: questions, cancellations, and workers that are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.soak_tasks import ENGINES, deployed, soak

TASKS = 60


@pytest.mark.parametrize("engine", ENGINES)
def test_every_task_is_over_in_the_end_however_many_workers_are_killed(engine: str, tmp_path: Path) -> None:
    with deployed(engine, tmp_path) as site:
        seen = soak(site, TASKS, kills=2, seed=7)
    assert seen.problems == []
    assert seen.kills == 2
    assert seen.statuses.total() == TASKS
    assert seen.statuses["completed"] > TASKS / 2
