"""`CachedPasswords`: a right password is remembered for a while, a wrong one never."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from flask_jsonrpc_mcp import CachedPasswords


class Checks:
    """A slow check that counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, password_hash: str, password: str) -> bool:
        self.asked.append((password_hash, password))
        return password_hash == f"hash of {password}"


@pytest.fixture
def checks() -> Checks:
    return Checks()


def test_a_right_password_is_checked_once(checks: Checks) -> None:
    check = CachedPasswords(checks)
    assert [check("hash of secret", "secret") for _ in range(5)] == [True] * 5
    assert len(checks.asked) == 1


def test_a_wrong_password_is_checked_every_time(checks: Checks) -> None:
    check = CachedPasswords(checks)
    assert [check("hash of secret", "guess") for _ in range(3)] == [False] * 3
    assert check("hash of secret", "secret") is True
    assert check("hash of secret", "guess") is False
    assert len(checks.asked) == 5


def test_a_changed_password_is_not_taken_for_the_old_one(checks: Checks) -> None:
    check = CachedPasswords(checks)
    assert check("hash of old", "old") is True
    assert check("hash of new", "old") is False
    assert check("hash of new", "new") is True


def test_hash_and_password_are_kept_apart() -> None:
    check = CachedPasswords(lambda password_hash, password: (password_hash, password) == ("a", "bc"))
    assert check("a", "bc") is True
    assert check("ab", "c") is False


def test_it_forgets_after_a_while(checks: Checks, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("flask_jsonrpc_mcp.passwords.time.monotonic", lambda: now[0])
    check = CachedPasswords(checks, max_age=60)
    for at in (1000, 1059, 1060, 1119):
        now[0] = at
        check("hash of secret", "secret")
    assert len(checks.asked) == 2


def test_it_remembers_only_so_many(checks: Checks) -> None:
    check = CachedPasswords(checks, max_size=2)
    for name in ("a", "b", "c"):
        check(f"hash of {name}", name)
    check("hash of c", "c")
    assert len(checks.asked) == 3
    check("hash of a", "a")
    assert len(checks.asked) == 4


def test_it_keeps_neither_the_password_nor_the_hash(checks: Checks) -> None:
    check = CachedPasswords(checks)
    check("hash of s3cret", "s3cret")
    remembered = repr(vars(check)["_known"])
    assert "s3cret" not in remembered
    assert "hash" not in remembered


def test_only_so_many_slow_checks_run_at_once() -> None:
    running, most, lock = [0], [0], threading.Lock()
    full = threading.Barrier(2, timeout=30)

    def slow(password_hash: str, password: str) -> bool:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        full.wait()
        with lock:
            running[0] -= 1
        return False

    check = CachedPasswords(slow, at_once=2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: check("hash", str(number)), range(8)))
    assert most[0] == 2


def test_many_at_once_with_one_password_check_it_once() -> None:
    checks, go = Checks(), threading.Barrier(8, timeout=30)
    check = CachedPasswords(checks, at_once=1)

    def sign_in(number: int) -> bool:
        go.wait()
        return check("hash of secret", "secret")

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(sign_in, range(8)))
    assert len(checks.asked) == 1


@pytest.mark.parametrize("options", [{"max_age": 0}, {"max_size": 0}, {"at_once": 0}])
def test_numbers_that_cannot_work_raise(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be greater than zero"):
        CachedPasswords(Checks(), **options)
