"""Without a terminal, a long check prints lines about its progress."""

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from attnsuite.cli import progress as heartbeat
from attnsuite.cli.progress import Heartbeat, compiler_at_work
from attnsuite.model import Outcome, Reason, Status

StatusOf = Callable[..., object]
SLOW = """\
import time


def attention(query, key, value):
    time.sleep(0.1)
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""
PLAIN = ("--case", "plain", "--dtype", "float32")


def outcome(case: str, seconds: float) -> Outcome:
    return Outcome("attention/mine", "attention", case, "float32", "cpu", Status.PASSED, seconds=seconds)


UNASKED = replace(outcome("plain/wide", 0.0), status=Status.TIMEOUT, seconds=None, reason=Reason.SKIPPED)


def beating(total: int, name: str = "", what: str = "tests", done: int = 0) -> Heartbeat:
    beat = Heartbeat(total, what)
    beat.name, beat.done = name, done
    return beat


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


@pytest.fixture
def slow(tmp_path: Path, status_of: StatusOf, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel with ten calls a second; lines are printed early."""
    monkeypatch.setattr(heartbeat, "FIRST", (0.01, 0.7))
    (tmp_path / "slow.py").write_text(SLOW)
    return "slow.py"


@pytest.mark.parametrize("options", [(), ("--jobs", "2")])
def test_a_slow_check_says_how_far_it_is_and_what_takes_the_time(
    options: tuple[str, ...], slow: str, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of("check", slow, *PLAIN, *options)

    first, *later = capsys.readouterr().err.splitlines()
    assert status == 0
    assert re.fullmatch(r"0 of \d+ tests done after 0 s(, now attention/slow)?", first)
    line = r"\d+ of \d+ tests done after 1 s(, now attention/slow)?(; the slowest call took 0\.\d+ s .*)?"
    assert all(re.fullmatch(rf"{line}|.*; failures are analysed", item) for item in later)


def test_the_line_names_the_slowest_call() -> None:
    beat = beating(3_367, "attention/mine")
    for item in (outcome("plain/small", 0.5), outcome("causal/square_5", 2.25), outcome("plain/wide", 1.0)):
        beat.count(item)

    assert beat.line(10) == (
        "3 of 3,367 tests done after 10 s, now attention/mine; the slowest call took 2.2 s (causal/square_5)"
    )


def test_a_compiler_is_found_among_the_children(tmp_path: Path) -> None:
    compiler = tmp_path / "cc1plus"
    compiler.write_bytes(Path(shutil.which("sleep") or "").read_bytes())
    compiler.chmod(0o700)
    with subprocess.Popen(["sh", "-c", f"{compiler} 60; true"]) as child:
        wait_until(lambda: compiler_at_work() == "a C++ compiler")
        for item in psutil.Process(child.pid).children():
            item.kill()
    assert compiler_at_work() == ""


def test_skipped_tests_do_not_count_as_done() -> None:
    beat = beating(3_367, "attention/mine")
    for number in range(3_367):
        beat.count(outcome("plain/small", 60.0) if number < 4 else replace(UNASKED, case=str(number)))

    assert beat.line(240) == "4 of 3,367 tests done after 240 s, 3,363 given up; failures are analysed"
