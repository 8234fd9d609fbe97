"""Where no terminal shows a bar, a check that takes long says now and then how far it is."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable
from itertools import pairwise
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


UNASKED = replace(outcome("plain/wide", 0.0), status=Status.HUNG, seconds=None, reason=Reason.NOT_ASKED)


def beating(total: int, name: str = "", what: str = "tests", done: int = 0) -> Heartbeat:
    beat = Heartbeat(total, what)
    beat.name, beat.done = name, done
    return beat


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


@pytest.fixture
def slow(tmp_path: Path, status_of: StatusOf, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel that answers ten times a second, of which lines are due soon."""
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
    line = r"\d+ of \d+ tests done after 1 s(, now attention/slow)?(; calls took [\d.]+ s, the slowest 0\.\d+ s .*)?"
    assert all(re.fullmatch(rf"{line}|.*; failures are analysed", each) for each in later)


@pytest.mark.parametrize("options", [("--quiet",)])
def test_who_wants_no_lines_gets_none(
    options: tuple[str, ...], slow: str, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    status_of("check", slow, *PLAIN, *options)

    assert capsys.readouterr().err == ""


def test_the_line_names_the_slowest_answer() -> None:
    of = beating(3_367, "attention/mine")
    for each in (outcome("plain/small", 0.5), outcome("causal/square_5", 2.25), outcome("plain/wide", 1.0)):
        of.count(each)

    assert of.line(10) == (
        "3 of 3,367 tests done after 10 s, now attention/mine; calls took 3.8 s, the slowest 2.2 s "
        "(causal/square_5 in float32)"
    )


def test_a_line_before_the_first_implementation_names_none() -> None:
    assert Heartbeat(8).line(10.0) == "0 of 8 tests done after 10 s"


def test_the_line_says_that_a_compiler_runs() -> None:
    line = beating(8, "attention/flex").line(60.0, "a C++ compiler")

    assert line == "0 of 8 tests done after 60 s, now attention/flex, compiling with a C++ compiler"


def test_long_times_are_whole_seconds() -> None:
    of = beating(8, "attention/flex")
    of.count(outcome("plain/small", 100.4))

    assert of.line(120).endswith("calls took 100 s, the slowest 100 s (plain/small in float32)")


def test_a_benchmark_counts_its_tables() -> None:
    assert beating(5, "vit/b16", "tables", 5).line(60.0) == "5 of 5 tables done after 60 s, now vit/b16"


def test_a_compiler_is_found_among_the_children(tmp_path: Path) -> None:
    compiler = tmp_path / "cc1plus"
    compiler.write_bytes(Path(shutil.which("sleep") or "").read_bytes())
    compiler.chmod(0o700)
    with subprocess.Popen(["sh", "-c", f"{compiler} 60; true"]) as child:
        wait_until(lambda: compiler_at_work() == "a C++ compiler")
        for each in psutil.Process(child.pid).children():
            each.kill()
    assert compiler_at_work() == ""


def test_after_all_answers_failures_are_looked_at() -> None:
    of = beating(1, "attention/mine")
    of.count(outcome("plain/small", 0.5))

    assert of.line(30).endswith("1 of 1 tests done after 30 s; failures are analysed")


def test_what_is_given_up_was_not_answered() -> None:
    of = beating(3_367, "attention/mine")
    for number in range(3_367):
        of.count(outcome("plain/small", 60.0) if number < 4 else replace(UNASKED, case=str(number)))

    assert of.line(240) == "4 of 3,367 tests done after 240 s, 3,363 given up; failures are analysed"


def test_an_answer_that_takes_minutes_is_no_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(heartbeat, "FIRST", (0.02, 0.05))
    of = beating(2, "attention/mine")
    of.start()
    time.sleep(0.3)
    of.stop()

    assert capsys.readouterr().err.count("0 of 2 tests done") == 2


def test_no_minute_passes_without_a_line() -> None:
    times = [0.0, *(due for due, _ in zip(heartbeat._times(), range(30), strict=False))]

    assert times[1] <= 10
    assert max(later - earlier for earlier, later in pairwise(times)) <= 60
