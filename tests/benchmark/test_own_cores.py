"""One benchmark at a time is timed on a core: the next one waits, says so, and goes on when the first is gone."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import LIMIT

from attnsuite.benchmark import own_cores as module
from attnsuite.benchmark.own_cores import own_cores
from attnsuite.worker import Ready, Worker
from attnsuite.worker.sandbox.namespaces import NETWORK_NAMESPACE

TAKES = """
import contextlib, socket
with contextlib.suppress(PermissionError):  # of one wall; another one leaves it a network of its own
    held, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    held.bind({address!r})


def attention(query, key, value): ...
"""
WAITS = "waiting for another benchmark, which is timed on core 5"
HOLDS = """
import socket, sys
held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
held.bind("\\0" + sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cores that no benchmark beside these tests has."""
    monkeypatch.setattr(module, "cores_of", lambda threads, place: list(range(5, 5 + threads)))
    monkeypatch.setattr(module, "address_of", lambda name: f"\0{tmp_path} {name}")


@pytest.fixture
def other(cores: None) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds core 5."""
    command = [sys.executable, "-c", HOLDS, module.address_of("core 5").removeprefix("\0")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_benchmark_on_the_same_core_waits_until_the_other_has_died(
    other: subprocess.Popen[str], threads: int
) -> None:
    told: list[str] = []
    waits = threading.Event()

    def tell(line: str) -> None:
        told.append(line)
        waits.set()

    def timed() -> None:
        with own_cores(threads, "cpu", tell):
            told.append("timed")

    thread = threading.Thread(target=timed)
    thread.start()
    assert waits.wait(60)
    assert told == [WAITS]
    other.kill()
    thread.join(60)

    assert told == [WAITS, "timed"]


def test_other_cores_and_a_gpu_are_free(other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "device_uuid", lambda device: "GPU-1")
    told: list[str] = []
    with own_cores(1, "cuda:0", told.append):
        monkeypatch.setattr(module, "cores_of", lambda threads, place: [4])
        with own_cores(1, "cpu", told.append):
            assert told == []


def test_one_that_holds_a_core_for_good_holds_nobody_up(
    other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT", 0.1)
    told: list[str] = []
    with own_cores(1, "cpu", told.append):
        pass

    beside = "another benchmark has been timed on core 5 for 0.1 s: this one is timed beside it"
    assert told == [WAITS, beside]


def test_elsewhere_than_on_linux_nothing_is_held(other: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    told: list[str] = []
    with own_cores(1, "cpu", told.append):
        told.append("timed")

    assert told == ["timed"]


def test_a_submission_behind_walls_cannot_hold_a_core(tmp_path: Path) -> None:
    file = tmp_path / "takes.py"
    file.write_text(TAKES.format(address=module.address_of("core 5")))
    with Worker(str(file), time_limit=LIMIT, walled=True) as worker:
        assert isinstance(worker.ready(), Ready)
        if NETWORK_NAMESPACE.name not in worker.walls:
            pytest.skip("no wall of this system closes the network")
        told: list[str] = []
        with own_cores(1, "cpu", told.append):
            assert told == []
