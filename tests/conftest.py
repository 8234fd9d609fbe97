"""What several files of tests use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import pytest

import suite
from suite.contracts import contract
from suite.records import Outcome

HOME = str(Path(suite.__file__).parent.parent)


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
def submission(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a file of tests/submissions/ to tmp_path, for those that write beside themselves, and returns its path."""

    def copied(name: str) -> Path:
        return Path(shutil.copy(Path(__file__).parent / "submissions" / name, tmp_path))

    return copied


@pytest.fixture
def run_pytest(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs pytest in tmp_path, in a process of its own. The plugin is named where attnsuite is not installed."""
    named = () if metadata.entry_points(group="pytest11", name="attnsuite") else ("-p", "suite.pytest_plugin")
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    surroundings["PYTHONPATH"] = HOME

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", *named, "--junitxml=report.xml", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=240, check=False
        )

    return run


@pytest.fixture
def reported(tmp_path: Path) -> Callable[[], dict[str, tuple[str, str]]]:
    """What the JUnit file of the last run of pytest says of each test: its status and its message."""

    def read() -> dict[str, tuple[str, str]]:
        results: dict[str, tuple[str, str]] = {}
        for case in ElementTree.parse(tmp_path / "report.xml").iter("testcase"):
            name = f"{case.get('classname')} {case.get('name')}"
            assert name not in results, "every test has a name of its own"
            inner = next(iter(case), None)
            kind = "passed" if inner is None else inner.get("type") or inner.tag
            results[name] = kind.removeprefix("pytest."), "" if inner is None else inner.get("message", "")
        return results

    return read


@pytest.fixture(scope="session")
def passed() -> Callable[..., list[Outcome]]:
    """Says of an attention that it passed all that is asked in float32, but for what is given."""

    def outcomes(name: str, *but: Outcome) -> list[Outcome]:
        known = {outcome.case for outcome in but}
        cases = [case.name for case in contract("attention").cases() if "float32" in case.dtypes]
        return [*but, *(Outcome(name, "attention", c, "float32", "cpu", "passed") for c in cases if c not in known)]

    return outcomes
