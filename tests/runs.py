"""Runs of pytest in a process of their own, and what their JUnit file says."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import attnsuite

HOME = str(Path(attnsuite.__file__).parent.parent)
LIMIT = 240
"""Seconds for a run of pytest."""


def run_pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, in a process of its own. The plugin is named there if attnsuite is not installed."""
    named = () if metadata.entry_points(group="pytest11", name="attnsuite") else ("-p", "attnsuite.pytest_plugin")
    around = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *named, "--junitxml=report.xml", *arguments],
        cwd=folder,
        env={**around, "PYTHONPATH": HOME},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


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
