"""Fixtures of several test files."""

import gc
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent

import pytest
from runs import report_of, run_pytest_in

from attnsuite.__main__ import main
from attnsuite.contracts import contract
from attnsuite.model import Outcome


def pytest_collection_finish() -> None:
    """Exclude the objects of the collection from garbage collection: they stay, and forked processes share them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a file below tmp_path, folders included, and returns its path."""

    def written(name: str, text: str) -> Path:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    return written


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests were started in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def submission(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a file of tests/submissions/ to tmp_path, where it may write files, and returns its path."""

    def copied(name: str) -> Path:
        return Path(shutil.copy(Path(__file__).parent / "submissions" / name, tmp_path))

    return copied


@pytest.fixture
def run_pytest(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs pytest in tmp_path, in a process of its own."""
    return partial(run_pytest_in, tmp_path)


@pytest.fixture
def reported(tmp_path: Path) -> Callable[[], dict[str, tuple[str, str]]]:
    """The status and the message of each test in the last run of pytest in tmp_path."""
    return partial(report_of, tmp_path)


@pytest.fixture(scope="session")
def passed() -> Callable[..., list[Outcome]]:
    """Passed outcomes of all float32 tests of attention, except given ones."""

    def outcomes(name: str, *others: Outcome) -> list[Outcome]:
        known = {outcome.case for outcome in others}
        cases = [case.name for case in contract("attention").cases() if "float32" in case.dtypes]
        return [*others, *(Outcome(name, "attention", c, "float32", "cpu", "passed") for c in cases if c not in known)]

    return outcomes


@pytest.fixture
def status_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Runs the command in this process, in tmp_path, and returns its exit status."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("attnsuite.cli.progress.FIRST", (3600.0,))  # whatever the machine's speed

    def run(*arguments: str) -> object:
        monkeypatch.setattr(sys, "argv", ["attnsuite", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code or 0

    return run
