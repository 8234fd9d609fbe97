"""Runs of pytest in a process of their own, and what their JUnit file says."""

import json
import os
import select
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import attnsuite

HOME = str(Path(attnsuite.__file__).parent.parent)
FORKS = Path(__file__).parent / "programs" / "forks_pytest.py"
LIMIT = 240
"""Seconds for a run of pytest."""


def run_pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, in a process of its own. The plugin is named there if attnsuite is not installed."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", *_words(arguments)],
        cwd=folder,
        env=_surroundings(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def _words(arguments: tuple[str, ...]) -> tuple[str, ...]:
    named = () if metadata.entry_points(group="pytest11", name="attnsuite") else ("-p", "attnsuite.pytest_plugin")
    return (*named, "--junitxml=report.xml", *arguments)


def _surroundings() -> dict[str, str]:
    around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return {**around, "PYTHONPATH": HOME}


class Forked:
    """Runs of pytest, forked from one process which has imported PyTorch and nothing of pytest or the suite."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, FORKS], stdin=pipe, stdout=pipe, text=True, env=_surroundings()
        )

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run pytest in a folder, as `run_pytest_in` does."""
        assert self._process.stdin
        assert self._process.stdout
        words = _words(arguments)
        with tempfile.TemporaryDirectory() as place:
            outputs = {name: str(Path(place, name)) for name in ("stdout", "stderr")}
            asked = {"folder": str(folder), "arguments": words, "environment": _surroundings(), **outputs}
            print(json.dumps(asked), file=self._process.stdin, flush=True)
            ready, _, _ = select.select([self._process.stdout], [], [], LIMIT)
            assert ready, f"no reply in {LIMIT} s"
            status = int(self._process.stdout.readline())
            out, err = (Path(path).read_text() if Path(path).exists() else "" for path in outputs.values())
        return subprocess.CompletedProcess(list(words), status, out, err)

    def close(self) -> None:
        """End the process, and a run that has not ended."""
        self._process.kill()
        self._process.communicate()


def report_of(folder: Path) -> dict[str, tuple[str, str]]:
    """The status and the message of each test in the last run there."""
    results: dict[str, tuple[str, str]] = {}
    for case in ElementTree.parse(folder / "report.xml").iter("testcase"):
        name = f"{case.get('classname')} {case.get('name')}"
        assert name not in results, "every test has a name of its own"
        inner = next(iter(case), None)
        kind = "passed" if inner is None else inner.get("type") or inner.tag
        results[name] = kind.removeprefix("pytest."), "" if inner is None else inner.get("message", "")
    return results
