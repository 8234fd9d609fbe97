"""Checks and runs that end before their end: by Ctrl-C, SIGTERM and SIGKILL, what is kept, and what goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from commanded import (
    KERNELS,
    SUBMISSIONS,
    WITHOUT_TORCH,
    Run,
    Write,
    environment,
    heed_interrupts,
    rows,
    wait_for_lines,
)
from lxml import etree
from processes import is_served

from attnsuite import load_results
from attnsuite.benchmark import request
from attnsuite.conformance.hints import MAX_SAMPLED
from attnsuite.contracts import contract
from attnsuite.model import EVERY_CASE

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent.parent / "junit.xsd"))
RECORDING = (SUBMISSIONS / "records_calls.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_with_130_and_keeps_the_rows(jobs: str, write: Write, tmp_path: Path) -> None:
    write("kernels.py", KERNELS)
    command = [
        sys.executable,
        "-m",
        "attnsuite",
        "check",
        "kernels.py:attention",
        "--json",
        "rows.json",
        "--jobs",
        jobs,
    ]
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    wait_for_lines(tmp_path / "rows.json", 10, child)

    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all processes of the job
    _, said = child.communicate(timeout=60)

    assert (child.returncode, but_for_progress(said)) == (130, ["attnsuite: interrupted"])
    assert len(rows((tmp_path / "rows.json").read_text())) >= 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "jobs", "status"), [(signal.SIGINT, "1", 130), (signal.SIGTERM, "1", 143), (signal.SIGTERM, "2", 143)]
)
def test_what_was_found_before_a_signal_is_reported(
    sent: signal.Signals, jobs: str, status: int, write: Write, tmp_path: Path
) -> None:
    write("kernels.py", KERNELS)
    options = ["--dtype", "float32", "--json", "rows.json", "--junit", "out.xml", "--jobs", jobs]
    child = subprocess.Popen(
        [sys.executable, "-m", "attnsuite", "check", "kernels.py:unscaled", *options],
        cwd=tmp_path,
        env={**environment(), "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    (tmp_path / "temporary").mkdir()
    wait_for_lines(tmp_path / "rows.json", 10, child)
    started = psutil.Process(child.pid).children(recursive=True)

    for _ in range(2 if sent == signal.SIGTERM else 1):  # `timeout` sends two
        os.killpg(child.pid, sent)
    printed, said = child.communicate(timeout=60)

    count = len(rows((tmp_path / "rows.json").read_text()))
    report, last = printed.splitlines()[0], printed.splitlines()[-1]
    found = re.match(r"attention/unscaled {2}\d+ of (\d+) passed, \d+ wrong", report)
    left = re.fullmatch(r"interrupted: ([\d,]+) of ([\d,]+) questions were not asked", last)
    assert (child.returncode, but_for_progress(said)) == (status, ["attnsuite: interrupted"])
    assert all("questions answered after" in line for line in said.splitlines()[:-1]), "a busy machine's heartbeat"
    assert found
    assert left
    assert int(left[2].replace(",", "")) - int(left[1].replace(",", "")) == count >= 10
    assert 'wrong: equals "unscaled"' in printed
    assert said_in_junit(tmp_path) == [last], "who reads the file alone is told, too"
    assert (tmp_path / "out.xml").read_text().count("<testcase") == count + 1
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_signal_while_the_check_begins_is_said_in_the_file_of_junit(
    sent: signal.Signals, jobs: str, write: Write, tmp_path: Path
) -> None:
    waiting = write("waiting/torch.py", "import pathlib, time\npathlib.Path('begun').touch()\ntime.sleep(600)\n").parent
    write("kernels.py", KERNELS)
    child = subprocess.Popen(
        [sys.executable, "-m", "attnsuite", "check", "kernels.py:attention", "--junit", "out.xml", "--jobs", jobs],
        cwd=tmp_path,
        env=environment(waiting),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    wait_for_lines(tmp_path / "begun", 0, child)

    for _ in range(2 if sent == signal.SIGTERM else 1):  # `timeout` sends two
        os.killpg(child.pid, sent)
    _, said = child.communicate(timeout=60)

    assert (child.returncode, but_for_progress(said)) == (128 + sent, ["attnsuite: interrupted"])
    assert said_in_junit(tmp_path) == ["interrupted before anything was asked"]


def but_for_progress(said: str) -> list[str]:
    """The lines but for those that a busy machine has: how far it came when somebody had waited for ten seconds."""
    return [line for line in said.splitlines() if " questions answered after " not in line]


def said_in_junit(folder: Path) -> list[str | None]:
    """The errors in the file of JUnit, which is as its readers expect it."""
    document = etree.parse(folder / "out.xml")
    SCHEMA.assertValid(document)
    return [each.get("message") for each in document.iter("error")]


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_repeats_only_what_is_missing(
    attnsuite: Run,
    status_of: Callable[..., object],
    write: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("kernel.py", RECORDING)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-m", "attnsuite", "run", "kernel.py", "--results", "out", "--jobs", "1"]
    child = subprocess.Popen(command, cwd=tmp_path, env=environment(), text=True)
    machine = first_folder(tmp_path / "out", child)
    wait_for_lines(machine / "journal.jsonl", 900, child)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    before = [line for line in (machine / "journal.jsonl").read_text().splitlines() if line.endswith("}")]

    monkeypatch.setitem(request.BUDGETS, "quick", 0.001)  # what is timed has to be there, and no more
    status = status_of("run", "kernel.py", "--results", "out")

    said = capsys.readouterr().err
    found = load_results(tmp_path / "out").to_dict("records")
    questions = Counter((row["case"], row["dtype"]) for row in found)
    assert status == 0
    assert "resuming the run of " in said
    assert f": {len(before)} outcomes and 0 measurements are there already\n" in said
    assert set(questions.values()) == {1}
    assert set(questions) == {(case.name, dtype) for case in contract("attention").cases() for dtype in case.dtypes}
    assert EVERY_CASE not in {row["dtype"] for row in found}
    again = (tmp_path / "calls").stat().st_size - calls_for(found)
    assert 0 <= again <= 3 + MAX_SAMPLED, "the question it was killed at, and those whose operators are looked at"
    (run,) = rows((machine / "runs.jsonl").read_text())
    assert run["finished"]
    assert all((machine / name).stat().st_size for name in ("cases.html", "conformance.csv"))
    assert "attention/kernel" in (machine / "cases.html").read_text()
    index = (tmp_path / "out" / "README.md").read_text()
    assert f"[cases.html]({machine.name}/cases.html)" in index
    assert f"[benchmark.csv]({machine.name}/benchmark.csv)" in index
    timed = rows((machine / "benchmark.jsonl").read_text())
    assert {row["implementation"] for row in timed} == {"attention/kernel", "attention/matmul"}
    assert {row["status"] for row in timed} == {"measured"}

    (machine / "cases.html").unlink()
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent
    reported = attnsuite("report", "--results", "out", path=blocked)

    assert reported.returncode == 0, "tables are made again without torch"
    assert (machine / "cases.html").exists()


def first_folder(results: Path, child: subprocess.Popen[str]) -> Path:
    for _ in range(6000):
        if found := list(results.glob("*/journal.jsonl")):
            return found[0].parent
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)
    raise AssertionError(f"{results} did not come")


def calls_for(found: list[dict[str, object]]) -> int:
    """How many calls of the main thread it takes to ask what these rows say was asked."""
    asked = {(row["case"], row["dtype"]) for row in found if row["status"] != "declined"}
    cases = contract("attention").cases()
    calls = (c for case in cases for dtype in case.dtypes if (case.name, dtype) in asked for c in case.calls(dtype))
    return sum(call.backward_of is None and not (call.at_once or call.own_thread) for call in calls)


PRETENDED = """
import signal

signal.raise_signal(signal.{sent})
"""
"""A library in whose import a signal comes."""
ITSELF = """
import os
import sys

sys.path[:] = [each for each in sys.path if each != os.path.dirname(__file__)]
del sys.modules["mpmath"]
import mpmath
"""
"""The library that is meant, in place of the pretended one."""


@pytest.mark.slow
@pytest.mark.parametrize("words", ["check kernels.py:attention", "bench kernels.py:attention --workload vit/b16"])
@pytest.mark.parametrize(("sent", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize(
    "made_of_it",
    [
        "try:{come}\nexcept BaseException:\n    pass\n{itself}",
        "try:{come}\nexcept BaseException:\n    raise ImportError('cannot be loaded twice') from None",
    ],
    ids=["swallowed", "another error"],
)
def test_a_signal_that_an_import_keeps_to_itself_ends_a_command(
    made_of_it: str, sent: str, status: int, words: str, write: Write, tmp_path: Path
) -> None:
    come = PRETENDED.format(sent=sent).replace("\n", "\n    ")
    folder = write("waiting/mpmath.py", made_of_it.format(come=come, itself=ITSELF)).parent
    write("kernels.py", KERNELS)
    done = subprocess.run(
        [sys.executable, "-m", "attnsuite", *words.split()],
        cwd=tmp_path,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=heed_interrupts,
    )

    assert (done.returncode, done.stdout, but_for_progress(done.stderr)) == (status, "", ["attnsuite: interrupted"])


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_benchmark_that_is_stopped_leaves_nothing(
    sent: signal.Signals, status: int, write: Write, tmp_path: Path
) -> None:
    write("kernel.py", "import time\ntime.sleep(600)\ndef attention(query, key, value): ...")
    (tmp_path / "temporary").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "attnsuite", "bench", "kernel.py", "--workload", "vit/b16"],
        cwd=tmp_path,
        env={**environment(), "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    while not is_served(child.pid):
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)

    child.send_signal(sent)
    _, said = child.communicate(timeout=60)

    assert (child.returncode, but_for_progress(said)) == (status, ["attnsuite: interrupted"])
    assert not list((tmp_path / "temporary").iterdir())
