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

from attnsuite.cli import run as running
from attnsuite.cli.run import Job
from attnsuite.model import Outcome, Status
from attnsuite.results import RunWriter, read_machine

StatusOf = Callable[..., object]
BLEU = ("run", "bleu/eager", "--results", "results", "--jobs", "1")


def interrupted(job: Job, writer: RunWriter, again: object) -> None:
    """Stops a run after its first result."""
    writer.write(Outcome("bleu/eager", "bleu", "plain/usual", "float32", "cpu", Status.PASSED, seconds=0.1))
    raise KeyboardInterrupt


def test_an_interrupted_run_prints_how_many_results_are_stored(
    status_of: StatusOf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "_done", interrupted)

    assert status_of(*BLEU) == 130
    assert "interrupted: results stored: 1; run the same command to resume" in capsys.readouterr().err
    assert status_of(*BLEU) == 130
    assert re.search(r"resuming the run of \S+: 1 outcomes and 0 measurements are stored", capsys.readouterr().err)


@pytest.mark.parametrize(("targets", "sampled"), [(["flex", "loops"], "attention/flex ("), (["loops"], "")])
def test_the_plan_says_what_is_tested_on_a_sample(
    targets: list[str], sampled: str, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    status_of("run", *targets, "--dry-run")
    printed = capsys.readouterr().out

    assert ("tested on a sample, every feature once (--full tests everything): " + sampled in printed) == bool(sampled)
    assert ("compilation takes longer, unless kernels are cached: attention/flex" in printed) == bool(sampled)


def test_a_changed_checkout_is_recognised(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    (results / "rows").write_text("1")

    assert not running.differs(results), "this is no checkout"
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
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
