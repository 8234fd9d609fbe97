"""A kernel author's loop, as commands: a file on an own shape with a baseline, and the command that repeats it."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commanded import environment
from commanded import rows as rows_of

from attnsuite.cli.new import rendered

LIMIT = 900
"""Seconds for a command, on a machine that does other things."""
SHAPE = "h=2,l=24,s=40,e=16,causal"
CHOSEN = ("--shape", SHAPE, "--dtype", "bfloat16", "--baseline", "chunked", "--budget", "0.02")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file in FlashAttention's signature, and a cache of its own."""
    results = tmp_path_factory.mktemp("loop")
    (results / "mine.py").write_text(rendered(Path("mine.py"), "attention", "flash_attn"))
    os.utime(results / "mine.py", (1e9, 1e9))  # long ago: what was changed during a run is not kept
    return results


def attnsuite(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    around = {**environment(), "ATTNSUITE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "attnsuite", *words]
    return subprocess.run(command, cwd=folder, env=around, capture_output=True, text=True, timeout=LIMIT, check=False)


@pytest.fixture
def in_this_process(status_of: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> Callable[..., object]:
    """Runs the command in a folder here: for what is to believe nothing that other processes have kept."""

    def run(folder: Path, *words: str) -> object:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("ATTNSUITE_CACHE", str(folder / "cache"))
        return status_of(*words)

    return run


def rows(file: Path) -> dict[str, dict[str, Any]]:
    return {row["implementation"]: row for row in rows_of(file.read_text())}


@pytest.mark.slow
def test_a_shape_is_timed_with_a_baseline_and_again_by_the_printed_command(
    folder: Path, in_this_process: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    first = attnsuite(folder, "bench", "mine.py:attention", *CHOSEN, "--json", "rows.json", "--results", "out")

    assert first.returncode == 0, first.stdout + first.stderr
    timed = rows(folder / "rows.json")
    assert set(timed) == {"attention/mine", "attention/chunked"}
    for row in timed.values():
        assert (row["workload"], row["dtype"], row["status"]) == (f"shape/{SHAPE}", "bfloat16", "measured")
        assert len(row["seconds"]) >= 12
        assert row["ceilings"] == {}, "they take seconds to measure, and one file is submitted"
    pairs = {name: row["work"]["attended"] / (4 * 16 * 2) for name, row in timed.items()}
    assert pairs == {"attention/mine": sum(range(17, 41)), "attention/chunked": sum(range(1, 25))}
    assert "its declared conventions need 2.28 times the work" in timed["attention/mine"]["detail"]
    (run,) = (folder / "out").glob("*/*/run.json")
    assert json.loads(run.read_text())["finished"]
    expected, current, before = counts_of(first.stdout)
    assert expected == current + before > 100
    (again,) = re.findall(r"^again: attnsuite (.*)", first.stdout, re.MULTILINE)

    repeated = attnsuite(folder, *shlex.split(again), "--json", "again.json")
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    hold_again(folder, set(timed))
    assert counts_of(repeated.stdout) == (expected, 0, expected)

    status = in_this_process(folder, *shlex.split(again), "--recheck", "--json", "again.json")
    printed, output = capsys.readouterr()
    assert status == 0, printed + output
    hold_again(folder, set(timed))
    assert counts_of(printed) == (expected, expected, 0)
    assert not list((folder / "out").glob("*/*.svg")), "one table is no chart"


def hold_again(folder: Path, names: set[str]) -> None:
    """The same were measured again."""
    results = rows(folder / "again.json")
    assert {name: row["status"] for name, row in results.items()} == dict.fromkeys(names, "measured")


def counts_of(text: str) -> tuple[int, int, int]:
    """How many tests were needed, were run, and were known."""
    (results,) = re.findall(
        r"^conformance: (\d+) tests .*: (\d+) run now, (\d+) known from earlier runs$", text, re.MULTILINE
    )
    expected, current, before = map(int, results)
    return expected, current, before
