"""Cores are kept awake by processes that stand in nobody's way, and that end in any case."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from processes import words_of
from workers import LINUX

from attnsuite.benchmark import awake as awake_module
from attnsuite.benchmark.awake import MOST_CORES, awake
from attnsuite.benchmark.processes import cores, cores_of, kept_awake, taken_by

SPINS = f"""
import time
from attnsuite.benchmark.awake import awake
with awake({cores()[:1]}):
    print(1, flush=True)
    time.sleep(60)
"""
IS_AWAKE = re.compile(r"suite/benchmark/awake\.py$").search
"""Finds what spins by its command line, wherever the suite was imported from."""


def spinning(of: int | None = None) -> list[psutil.Process]:
    """The processes that keep cores awake for this one, or for that of another number."""
    return [each for each in psutil.Process(of).children() if any(map(IS_AWAKE, words_of(each)))]


def until(done: Callable[[], object]) -> bool:
    """Whether it is so within some seconds."""
    for _ in range(200):
        if done():
            return True
        time.sleep(0.05)
    return False


@LINUX
def test_one_process_spins_on_each_core_where_nothing_else_would_run() -> None:
    before = os.sched_getaffinity(0)
    with awake(cores()):
        found = spinning()
        assert len(found) == min(MOST_CORES, len(cores()))
        assert until(lambda: {os.sched_getscheduler(each.pid) for each in found} == {os.SCHED_IDLE})
        assert until(
            lambda: sorted(core for each in found for core in each.cpu_affinity()) == sorted(cores()[:MOST_CORES])
        )
        assert os.sched_getaffinity(0) == set(cores()[:MOST_CORES])
    assert not spinning()
    assert os.sched_getaffinity(0) == before


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_they_end_with_whoever_started_them(how: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", SPINS], stdout=subprocess.PIPE) as started:
        assert started.stdout
        started.stdout.read(1)
        assert until(lambda: spinning(started.pid))  # a process that has just begun has no command line yet
        (found,) = spinning(started.pid)
        started.send_signal(how)

    assert until(lambda: not found.is_running())


@LINUX
def test_they_end_where_the_block_raises() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), awake(cores()):
        _ = 1 / 0

    assert not spinning()
    assert os.sched_getaffinity(0) == before


@LINUX
def test_where_no_more_processes_may_be_started_the_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def start(core: int) -> subprocess.Popen[bytes]:
        if begun:
            raise BlockingIOError("Resource temporarily unavailable")
        begun.append(core)
        return real(core)

    real = awake_module._spinning
    monkeypatch.setattr(awake_module, "_spinning", start)
    first = cores()[0]
    with awake([first, first + 1]):
        assert begun == [first]
    assert not spinning()


def test_without_cores_nothing_is_started() -> None:
    with awake(()):
        assert not spinning()


def test_where_the_system_has_no_such_class_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "SCHED_IDLE", raising=False)
    with awake(cores()):
        assert not spinning()


def test_for_calls_on_several_threads_nothing_spins() -> None:
    assert kept_awake(1) == taken_by(1)
    assert kept_awake(2) == kept_awake(16) == []


def test_those_that_are_timed_come_first() -> None:
    taken = taken_by(1)

    assert taken[0] == cores_of(1, 0)[0]
    assert set(taken) == set(cores())
