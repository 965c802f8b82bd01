"""What happens to tasks on several machines when a part of them fails: broker, database, web server, network."""

from __future__ import annotations

import http.client
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.celery_sites import APP, CELERY_APP, PLACES, CelerySite, celery_site, settings
from tests.support.load import wait_until
from tests.support.machines import HERE, THERE, Machine, second_machine
from tests.support.servers import PLAIN_CONFIG, Place, free_port, gunicorn
from tests.support.services import Postgres, Redis, Service, celery_worker, running_broker, running_postgres
from tests.support.task_client import TaskClient, machines_in, runs_in, value_of, wait_for_note

LOST = "The worker that ran this has gone; it may have done a part of its work"


@pytest.fixture
def site(tmp_path: Path, postgres_url: str, broker: Redis) -> Iterator[CelerySite]:
    with celery_site(tmp_path, postgres_url, broker) as site:
        yield site


def begin(client: TaskClient, notes: Path, key: str, tool: str = "hold") -> str:
    """Start a task, and wait until it runs."""
    task = client.start(tool, key=key)
    wait_for_note(notes, f"{key}-begun")
    return task


@pytest.mark.parametrize("data", ["kept", "wiped"])
def test_all_tasks_are_completed_after_the_broker_was_killed(site: CelerySite, broker: Redis, data: str) -> None:
    running = [begin(site.client, site.notes, f"held-{number}") for number in range(PLACES)]
    queued = [site.client.start("echo", number=number) for number in range(2 * PLACES)]
    broker.service.kill()
    if data == "wiped":
        broker.wipe()
    assert {site.client.get(task)["status"] for task in running + queued} == {"working"}
    broker.start()
    for number in range(PLACES):
        (site.notes / f"held-{number}-released").touch()
    assert [value_of(site.client.wait(task, patience=90)) for task in running] == [
        f"held-{number}" for number in range(PLACES)
    ]
    assert [value_of(site.client.wait(task, patience=90)) for task in queued] == list(range(2 * PLACES))
    assert set(runs_in(site.notes).values()) == {1}


@pytest.mark.parametrize("fault", ["frozen", "gone"])
def test_a_task_is_created_without_the_broker_and_runs_when_it_is_back(
    site: CelerySite, broker: Redis, fault: str
) -> None:
    """Celery itself would wait for a frozen broker, for longer than this client does."""
    assert value_of(site.client.wait(site.client.start("echo", number=0))) == 0
    broker.service.freeze() if fault == "frozen" else broker.service.kill()
    tasks = [site.client.start("echo", number=number) for number in range(1, 5)]
    assert {site.client.get(task)["status"] for task in tasks} == {"working"}
    broker.service.thaw() if fault == "frozen" else broker.start()
    assert [value_of(site.client.wait(task, patience=90)) for task in tasks] == [1, 2, 3, 4]
    assert set(runs_in(site.notes).values()) == {1}


def test_without_its_database_no_task_is_created_and_a_running_one_ends_when_it_is_back(
    site: CelerySite, postgres: Postgres
) -> None:
    running = begin(site.client, site.notes, "held")
    postgres.service.stop(signal.SIGQUIT)
    try:
        refused = [site.client.reply("tools/call", name="echo", arguments={"number": 1}) for _ in range(3)]
        assert [reply["error"] for reply in refused] == [
            {"code": -32004, "message": "Tasks cannot be stored or read at the moment; try again later"}
        ] * 3
        (site.notes / "held-released").touch()
    finally:
        postgres.start()
    assert value_of(site.client.wait(running)) == "held"
    assert runs_in(site.notes) == {"held": 1}


def test_a_client_that_polls_does_not_notice_a_restart_of_the_database(site: CelerySite, postgres: Postgres) -> None:
    running = begin(site.client, site.notes, "held")
    for _ in range(10):  # every web worker has a connection
        assert site.client.get(running)["status"] == "working"
    postgres.service.stop(signal.SIGQUIT)
    postgres.start()
    assert {site.client.get(running)["status"] for _ in range(10)} == {"working"}
    (site.notes / "held-released").touch()
    assert value_of(site.client.wait(running)) == "held"


def test_a_task_whose_web_worker_was_killed_before_it_was_offered_runs_all_the_same(
    tmp_path: Path, postgres_url: str, broker: Redis
) -> None:
    with celery_site(tmp_path, postgres_url, broker, TASKS="dying") as site:
        (site.notes / "die").touch()
        with pytest.raises((OSError, http.client.HTTPException)):
            site.client.start("echo", number=1)
        wait_until(lambda: runs_in(site.notes) == {"1": 1}, "the task runs")


@pytest.fixture
def machine() -> Iterator[Machine]:
    with second_machine() as machine:
        yield machine


@pytest.fixture
def shared(machine: Machine, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings of two machines with one database and one broker, which are on the first."""
    with running_postgres(HERE) as postgres, running_broker(tmp_path, HERE) as broker:
        yield settings(tmp_path, postgres.new_database(), broker)


def test_a_task_of_a_machine_that_was_cut_off_has_failed_and_its_late_result_is_dropped(
    machine: Machine, shared: dict[str, str], tmp_path: Path
) -> None:
    other = {"env": {**shared, "MACHINE": "there"}, "name": "there", "inside": machine.inside}
    with (
        celery_worker(CELERY_APP, tmp_path, "--concurrency", "1", **other) as worker,  # type: ignore[arg-type]
        gunicorn(APP, tmp_path, env=shared) as server,
    ):
        client = TaskClient(server)
        task = begin(client, tmp_path, "held")
        machine.cut_off()
        lost = client.wait(task)
        assert (lost["status"], lost["error"]) == ("failed", {"code": -32603, "message": LOST})
        (tmp_path / "held-released").touch()
        machine.connect()
        wait_until(lambda: "after it was given up" in worker.log.read_text(), "the result is dropped", patience=60)
        assert client.get(task) == lost
        assert runs_in(tmp_path) == {"held": 1}


@contextmanager
def gunicorn_on(machine: Machine, folder: Path, env: dict[str, str]) -> Iterator[Place]:
    """Run the app under gunicorn on the second machine."""
    config, place = folder / "gunicorn.conf.py", Place(free_port(), THERE)
    config.write_text(PLAIN_CONFIG)
    command = [sys.executable, "-m", "gunicorn", "--config", str(config), "--bind", f"{THERE}:{place.port}", APP]
    server = Service([*machine.inside, *command], folder / "gunicorn.log", env)
    server.start()
    try:
        wait_until(lambda: "Booting worker" in server.log.read_text(), "gunicorn listens")
        yield place
    finally:
        server.stop()


def test_two_machines_run_a_thousand_tasks_once_each_and_either_answers_and_cancels(
    machine: Machine, shared: dict[str, str], tmp_path: Path
) -> None:
    there, number_of_tasks = tmp_path / "there", 1000
    there.mkdir()
    places = ("--concurrency", "2")
    far = {"env": {**shared, "MACHINE": "there"}, "name": "there", "inside": machine.inside}
    with (
        celery_worker(CELERY_APP, tmp_path, *places, env={**shared, "MACHINE": "here"}),
        celery_worker(CELERY_APP, there, *places, **far),  # type: ignore[arg-type]
        gunicorn(APP, tmp_path, env=shared) as near,
        gunicorn_on(machine, there, shared) as distant,
        ThreadPoolExecutor(8) as pool,
    ):
        clients = [TaskClient(near), TaskClient(distant)]
        tasks = list(pool.map(lambda n: clients[n % 2].start("echo", number=n), range(number_of_tasks)))
        wait_until(lambda: runs_in(tmp_path).total() >= number_of_tasks, "all run", patience=120)
        values = list(pool.map(lambda n: value_of(clients[1 - n % 2].wait(tasks[n])), range(number_of_tasks)))
        assert values == list(range(number_of_tasks))
        assert runs_in(tmp_path) == {str(n): 1 for n in range(number_of_tasks)}
        assert set(machines_in(tmp_path)) == {"here", "there"}
        for number in range(2):
            task = begin(clients[0], tmp_path, f"held-{number}")
            *_, machine_of_task = (tmp_path / "runs").read_text().split()
            other = clients[1] if machine_of_task == "here" else clients[0]
            other.cancel(task)
            assert other.wait(task)["status"] == "cancelled"
