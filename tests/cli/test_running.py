"""`attnsuite run`: its plan, and interrupted runs."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commanded import environment, start, wait_for_lines
from processes import committed

from attnsuite.cli import run as running
from attnsuite.results import read_machine

StatusOf = Callable[..., object]


def test_a_changed_checkout_is_recognised(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "rows").write_text("1")

    assert not running.differs(results), "this is no checkout"
    committed(tmp_path)
    assert not running.differs(results)
    (results / "rows").write_text("2")
    assert running.differs(results)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_all_results(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "attnsuite", "run", "matmul", "--results", "results"]
    child = start(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
    while not (journals := list(tmp_path.glob("results/*/*/outcomes.jsonl"))):
        assert child.poll() is None
    wait_for_lines(journals[0], 10, child)

    os.killpg(child.pid, sent)
    _, printed = child.communicate(timeout=60)

    assert child.returncode == status
    stored = re.search(r"interrupted: results stored: ([\d,]+); run the same command to resume", printed)
    assert stored
    name = journals[0].parent.parent.name
    assert len(read_machine(tmp_path / "results", name).outcomes) == int(stored[1].replace(",", ""))
