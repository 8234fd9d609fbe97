"""One benchmark at a time is timed on a core: the next one waits, says so, and goes on when the first is gone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.benchmark import own_cores as module
from suite.benchmark.own_cores import file_of, own_cores

WAITS = "waiting for another benchmark, which is timed on core 5"
HOLDS = """
import sys
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Cores, and a folder for locks, that no benchmark beside these tests has."""
    monkeypatch.setattr(module, "cores_of", lambda threads, place: list(range(5, 5 + threads)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds core 5."""
    command = [sys.executable, "-c", HOLDS, str(file_of("core 5"))]
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
        assert file_of("GPU-1").exists()
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


def test_where_nothing_can_be_locked_nothing_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    (tmp_path / "absent").write_text("no folder")
    told: list[str] = []
    with own_cores(1, "cpu", told.append):
        told.append("timed")

    assert told == ["timed"]
