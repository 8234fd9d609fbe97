"""Commands that end before their end: by Ctrl-C, SIGTERM and SIGKILL, what is reported, and what is resumed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from commanded import KERNELS, SUBMISSIONS, Cli, Write, environment, rows, start, wait_for_lines
from lxml import etree
from processes import is_served

from attnsuite import load_results
from attnsuite.benchmark import request
from attnsuite.conformance.hints import MAX_SAMPLED
from attnsuite.contracts import contract

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent.parent / "junit.xsd"))
RECORDING = (SUBMISSIONS / "records_calls.py").read_text(encoding="utf-8")
SLOW = RECORDING.replace(" / query.shape[-1] ** 0.5", "").replace("import os\n", "import os\nimport time\n").replace(
    "    return (", "    time.sleep(0.01)\n    return ("
)  # fmt: skip
"""It notes every call, and does not scale."""
SIGNALS = [(signal.SIGINT, "1", 130), (signal.SIGTERM, "1", 143), (signal.SIGTERM, "2", 143)]


def started(folder: Path, *words: str, path: tuple[Path, ...] = ()) -> subprocess.Popen[str]:
    """A command in a process of its own, with a folder for temporary files and one for noted calls."""
    (folder / "temporary").mkdir()
    return start(
        [sys.executable, "-m", "attnsuite", *words],
        cwd=folder,
        env={**environment(*path), "TMPDIR": str(folder / "temporary"), "NUMBA_CACHE_DIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def stopped(child: subprocess.Popen[str], sent: signal.Signals) -> tuple[str, list[str]]:
    """What a command prints after a signal; not the lines of progress that a busy machine has."""
    for _ in range(2 if sent == signal.SIGTERM else 1):  # `timeout` sends two
        os.killpg(child.pid, sent)
    out, err = child.communicate(timeout=60)
    return out, [line for line in err.splitlines() if " done after " not in line]


def wait_for_calls(folder: Path, count: int, child: subprocess.Popen[str]) -> None:
    while not (folder / "calls").exists() or (folder / "calls").stat().st_size < count:
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)


def errors_in_junit(folder: Path) -> list[str | None]:
    document = etree.parse(folder / "out.xml")
    SCHEMA.assertValid(document)
    return [error.get("message") for error in document.iter("error")]


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "jobs", "status"), SIGNALS)
def test_outcomes_before_a_signal_are_reported(
    sent: signal.Signals, jobs: str, status: int, write: Write, tmp_path: Path
) -> None:
    write("kernel.py", SLOW)
    words = ("--dtype", "float32", "--json", "rows.json", "--junit", "out.xml", "--jobs", jobs)
    child = started(tmp_path, "check", "kernel.py", *words)
    wait_for_calls(tmp_path, 20, child)
    children = psutil.Process(child.pid).children(recursive=True)

    out, err = stopped(child, sent)

    count, last = len(rows((tmp_path / "rows.json").read_text())), out.splitlines()[-1]
    left = re.fullmatch(r"interrupted: ([\d,]+) of ([\d,]+) tests were not run", last)
    assert (child.returncode, err) == (status, ["attnsuite: interrupted"])
    assert re.match(r"attention/kernel {2}\d+ of (\d+) passed, \d+ failed", out)
    assert left
    assert int(left[2].replace(",", "")) - int(left[1].replace(",", "")) == count >= 5
    assert errors_in_junit(tmp_path) == [last]
    assert (tmp_path / "out.xml").read_text().count("<testcase") == count + 1
    assert psutil.wait_procs(children, timeout=10)[1] == []
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize(("sent", "jobs", "status"), SIGNALS)
def test_a_signal_before_any_test_is_an_error_in_the_file_of_junit(
    sent: signal.Signals, jobs: str, status: int, write: Write, tmp_path: Path
) -> None:
    waiting = write("waiting/torch.py", "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(600)\n").parent
    write("kernels.py", KERNELS)
    child = started(tmp_path, "check", "kernels.py:attention", "--junit", "out.xml", "--jobs", jobs, path=(waiting,))
    wait_for_lines(tmp_path / "begun", 0, child)

    _, err = stopped(child, sent)

    assert (child.returncode, err) == (status, ["attnsuite: interrupted"])
    assert errors_in_junit(tmp_path) == ["interrupted before any test was run"]


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_repeats_only_what_is_missing(
    cli: Cli, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("kernel.py", RECORDING)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    child = started(tmp_path, "run", "kernel.py", "--results", "out", "--jobs", "1")
    wait_for_calls(tmp_path, 300, child)
    child.send_signal(signal.SIGKILL)
    child.communicate()

    monkeypatch.setitem(request.BUDGETS, "quick", 0.001)  # what is timed has to be there, and no more
    result = cli("run", "kernel.py", "--results", "out")

    outcomes = load_results(tmp_path / "out").to_dict("records")
    tests = Counter((row["case"], row["dtype"]) for row in outcomes)
    assert result.status == 0
    assert re.search(r"resuming the run of \S+: \d{3,} outcomes and 0 measurements are stored", result.err)
    assert set(tests.values()) == {1}
    assert set(tests) == {(case.name, dtype) for case in contract("attention").cases() for dtype in case.dtypes}
    again = (tmp_path / "calls").stat().st_size - calls_for(outcomes)
    assert 0 <= again <= 3 + MAX_SAMPLED, "the test that was killed, and those whose operators are recorded"
    timed = load_results(tmp_path / "out", "benchmark")
    assert set(timed["implementation"]) == {"attention/kernel", "attention/matmul"}
    assert set(timed["status"]) == {"measured"}


def calls_for(outcomes: list[dict[str, object]]) -> int:
    """How many calls of the main thread these tests make."""
    ran = {(row["case"], row["dtype"]) for row in outcomes if row["status"] != "unsupported"}
    cases = contract("attention").cases()
    calls = (c for case in cases for dtype in case.dtypes if (case.name, dtype) in ran for c in case.calls(dtype))
    return sum(call.backward_of is None and not (call.at_once or call.own_thread) for call in calls)


RAISES = """
import signal

signal.raise_signal(signal.{sent})
"""
"""A library during whose import a signal is received."""
ITSELF = """
import json
import os
import sys

sys.path[:] = [each for each in sys.path if each != os.path.dirname(__file__)]
del sys.modules["mpmath"]
import mpmath
"""
"""The real library, in place of this one."""


@pytest.mark.slow
@pytest.mark.parametrize("words", ["check kernels.py:attention", "bench kernels.py:attention --workload vit/b16"])
@pytest.mark.parametrize(("sent", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize(
    "library",
    [
        "try:{received}\nexcept BaseException:\n    pass\n{itself}",
        "try:{received}\nexcept BaseException:\n    raise ImportError('cannot be loaded twice') from None",
    ],
    ids=["swallowed", "another error"],
)
def test_a_signal_that_an_import_swallows_ends_a_command(
    library: str, sent: str, status: int, words: str, write: Write, tmp_path: Path
) -> None:
    received = RAISES.format(sent=sent).replace("\n", "\n    ")
    folder = write("waiting/mpmath.py", library.format(received=received, itself=ITSELF)).parent
    write("kernels.py", KERNELS)

    child = started(tmp_path, *words.split(), path=(folder,))
    out, err = child.communicate(timeout=120)

    assert (child.returncode, out, err) == (status, "", "attnsuite: interrupted\n")


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_benchmark_that_is_stopped_leaves_nothing(
    sent: signal.Signals, status: int, write: Write, tmp_path: Path
) -> None:
    write("kernel.py", "import time\ntime.sleep(600)\ndef attention(query, key, value): ...")
    child = started(tmp_path, "bench", "kernel.py", "--workload", "vit/b16")
    while not is_served(child.pid):
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)

    _, err = stopped(child, sent)

    assert (child.returncode, err) == (status, ["attnsuite: interrupted"])
    assert not list((tmp_path / "temporary").iterdir())
