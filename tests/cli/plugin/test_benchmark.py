"""Times in pytest-benchmark's way, as another package's author meets them: real packages and runs, tiny budgets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from runs import report_of

Pytest = Callable[..., subprocess.CompletedProcess[str]]
Reported = Callable[[], dict[str, tuple[str, str]]]

SUBMISSIONS = Path(__file__).parents[2] / "submissions"

TINY = ("--benchmark-max-time=0.001", "--benchmark-min-rounds=3", "-p", "no:cacheprovider")
ONLY = ("--benchmark-only", "--benchmark-json=times.json", *TINY)


SETTINGS = """
[pytest]
strict = true
filterwarnings = error
pythonpath = .
python_functions = test_*
"""


def make_package(folder: Path) -> None:
    """Put a package with kernels there; its warnings are errors."""
    (folder / "theirs").mkdir()
    (folder / "theirs" / "__init__.py").touch()
    copyfile(SUBMISSIONS / "timed_kernels.py", folder / "theirs" / "kernels.py")
    (folder / "pytest.ini").write_text(SETTINGS)


@pytest.fixture
def run(tmp_path: Path, run_pytest: Pytest) -> Pytest:
    """Runs pytest in a package with kernels."""
    make_package(tmp_path)
    return run_pytest


@dataclass(frozen=True)
class Timed:
    """A package whose speed was tested, and the run that did."""

    folder: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def speed(tmp_path_factory: pytest.TempPathFactory, forked_pytest: Pytest) -> Timed:
    """All benchmarks of SPEED, timed once for several tests."""
    folder = tmp_path_factory.mktemp("speed")
    make_package(folder)
    copyfile(SUBMISSIONS / "speed_of_kernels.py", folder / "test_speed.py")
    return Timed(folder, forked_pytest(folder, *ONLY))


def timed(folder: Path) -> dict[str, dict[str, Any]]:
    """What --benchmark-json kept of each test, by its name."""
    return {found["name"]: found for found in json.loads((folder / "times.json").read_text())["benchmarks"]}


def by_test(found: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """The report without the places of tests."""
    return {name.split(" ", 1)[1]: of for name, of in found.items()}


@pytest.mark.slow
def test_what_may_be_timed_is_and_what_may_not_leaves_no_time(speed: Timed) -> None:
    done, found, times = speed.done, by_test(report_of(speed.folder)), timed(speed.folder)

    assert done.returncode == 1, done.stdout
    one, long = "documents/one-sentence-float32-forward", "ladder/1k-float32-forward"
    assert {name: status for name, (status, _) in found.items()} == {
        f"test_right[{one}]": "passed",
        "test_right[documents/one-sentence-float32-backward]": "passed",
        "test_right[documents/one-sentence-float32-forward_backward]": "passed",
        "test_two[attention/attention-documents/one-sentence-bfloat16-forward]": "passed",
        "test_two[attention/kernels-documents/one-sentence-bfloat16-forward]": "passed",
        f"test_unscaled[{one}]": "failure",
        f"test_raising[{one}]": "failure",
        f"test_stale[{long}]": "failure",
        f"test_threaded[{long}]": "failure",
        f"test_failing[{long}]": "failure",
        f"test_picky[{long}]": "skip",
        "test_picky[flash-small/512-e64-causal-float32-forward]": "skip",
        f"test_half[{one}]": "skip",
        "test_cases[plain/small-float32]": "skip",
        "test_cases[declarations]": "skip",
        "test_threads_are_as_before": "passed",
    }
    said = {name.replace(one, "one").replace(long, "long"): message for name, (_, message) in found.items()}
    refused = said["test_unscaled[one]"].removeprefix("Failed: ")
    assert refused.startswith("attention/unscaled documents/one-sentence (float32, forward): refused: it fails plain/")
    assert 'equals "unscaled"' in refused
    assert "refused: after it was timed its answer was wrong: output[" in said["test_stale[long]"]
    assert "refused: it changed the number of threads from 1 to 2" in said["test_threaded[long]"]
    assert "error: SystemExit: tired" in said["test_failing[long]"]
    assert said["test_picky[long]"] == "attention/picky: unsupported: no keys by the thousand"
    assert said["test_picky[flash-small/512-e64-causal-float32-forward]"].endswith("unsupported: takes no is_causal")
    assert said["test_half[one]"] == "attention/kernels: unsupported: lacks float32: halves only"
    assert set(times) == {name for name, (status, _) in found.items() if status == "passed"}
    assert not [name for name in ("unscaled", "stale", "failing", "picky") if f"{name}[" in tables(done.stdout)]
    assert "Traceback" not in done.stdout + done.stderr
    assert "def test_speed" not in done.stdout, "the message is the whole story"


def tables(printed: str) -> str:
    """pytest-benchmark's tables."""
    return printed[printed.index(" benchmark '") : printed.index("Legend:")]


@pytest.mark.slow
def test_the_option_times_only_where_benchmarks_alone_are_asked_for(
    run: Pytest, reported: Reported, tmp_path: Path
) -> None:
    target = ("--attention", "theirs.kernels:attention", "--attention", "theirs.kernels:raising")
    broken = ("--attention", "theirs/kernels.py:nosuch")
    words = ("--attention-workload", "documents/one-sentence", "--attention-dtype", "bfloat16")
    listing = ("--collect-only", "-q", "-p", "no:cacheprovider")

    asked = run(*target, *listing)
    both = run(*target, *words, "--attention-direction", "forward_backward", "--benchmark-only", *listing)
    done = run(*target, *words, *ONLY)

    assert "attention/kernels::plain/small[float32]" in asked.stdout
    assert "one-sentence-" not in asked.stdout
    assert "attention/kernels::kernels[documents/one-sentence-bfloat16-forward_backward]" in both.stdout
    assert done.returncode == 1, done.stdout
    found, which = reported(), "[documents/one-sentence-bfloat16-forward]"
    assert {name: status for name, (status, _) in found.items()} == {
        f"attention.kernels kernels{which}": "passed",
        f"attention.raising raising{which}": "failure",
    }
    assert list(timed(tmp_path)) == [f"kernels{which}"]
    assert f"FAILED attention/raising::raising{which}" in done.stdout
    assert "refused: it fails " in found[f"attention.raising raising{which}"][1]
    assert "no function 'nosuch'" in run(*broken, *ONLY).stderr


def test_without_pytest_benchmark_one_line_says_what_to_install(
    run: Pytest, reported: Reported, tmp_path: Path
) -> None:
    copyfile(SUBMISSIONS / "speed_of_kernels.py", tmp_path / "test_speed.py")

    done = run("-p", "no:benchmark", "-p", "no:cacheprovider", "-k", "test_two or test_picky or test_cases")

    line = "nothing is timed without pytest-benchmark: python -m pip install pytest-benchmark (and no -p no:benchmark)"
    assert by_test(reported()) == {
        "test_two": ("failure", f"Failed: {line}"),
        "test_picky": ("failure", f"Failed: {line}"),
        "test_cases[plain/small-float32]": ("passed", ""),
        "test_cases[declarations]": ("passed", ""),
    }
    assert "fixture 'benchmark' not found" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--attention-workload ladder", "--attention-workload says what to time: add --benchmark-only"),
        ("--attention-workload nosuch --benchmark-only", "no workload of attention matches 'nosuch'"),
        ("--attention-direction back --benchmark-only", "unknown direction 'back'; there are: forward, backward, "),
    ],
)
def test_what_cannot_be_timed_is_one_line_and_nothing_runs(run: Pytest, arguments: str, says: str) -> None:
    done = run("--attention", "matmul", *arguments.split())

    (line,) = [line for line in done.stderr.splitlines() if line]
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert line.startswith("ERROR: attnsuite: ")
    assert says in line
    assert "collected" not in done.stdout


# The timer
