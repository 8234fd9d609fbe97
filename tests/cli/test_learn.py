"""`attnsuite learn`: what it prints, writes and refuses; curves and scores in results/, and the page made of them."""

import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from toys import TOY

from attnsuite.cli.learn import run
from attnsuite.cli.requests import Learn
from attnsuite.documents.learning import tasks
from attnsuite.documents.learning.engine import Training
from attnsuite.model import TrainingRow, UsageError
from attnsuite.results import read

Write = Callable[[str, str], Path]
OPEN = replace(TOY, name="open", own="", needs=frozenset({"causal", "gradient"}), printed={"error": 0.125})
TWO_SEEDS = Learn(seeds=(0, 1))


@pytest.fixture(autouse=True)
def two_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tasks, "tasks", lambda: {"toy": TOY, "open": OPEN})


def learned(results: str = "results") -> list[TrainingRow]:
    (stored,) = read(Path(results)).values()
    return list(stored.learned)


def test_all_tasks_are_learned_and_stored(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(TWO_SEEDS) == 0

    printed, rows = capsys.readouterr().out, learned()
    assert [(row.implementation, row.task, row.seed) for row in rows] == [
        ("attention/matmul", "open", 0),
        ("attention/matmul", "open", 1),
        ("toy/line", "toy", 0),
        ("toy/line", "toy", 1),
    ]
    assert all(len(row.curve) == 6 and row.seconds is not None for row in rows)
    assert rows[0].curve == rows[2].curve  # the same model, whatever its backend is
    assert "open with attention/matmul, seed 1: loss " in printed
    assert "(documents: 0.125)" in printed


@pytest.mark.usefixtures("interruptible")
def test_a_run_that_was_interrupted_is_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = tmp_path / "calls"

    def prepare(config: Mapping[str, Any], seed: int, attention: Callable[..., Any]) -> Training:
        first = not calls.exists()
        with calls.open("a") as file:
            print(seed, file=file)
        if first:
            signal.raise_signal(signal.SIGINT)
        return TOY.prepare(config, seed, attention)

    monkeypatch.setattr(tasks, "tasks", lambda: {"toy": TOY, "open": replace(OPEN, prepare=prepare)})
    with pytest.raises(KeyboardInterrupt):
        run(TWO_SEEDS)
    run(TWO_SEEDS)

    assert "2 of 4 trainings are stored" in capsys.readouterr().err
    assert calls.read_text() == "0\n0\n1\n"
    assert len(learned()) == 4


def test_everything_is_refused_before_any_training(tmp_path: Path, write: Write) -> None:
    write("forward.py", "def attention(query, key, value, is_causal=False):\n    return query.detach()\n")

    refusal = r"^open needs an attention, and attention/forward, called, gives an output without a"
    with pytest.raises(UsageError, match=refusal):
        run(Learn(("matmul", "forward.py"), ("open",)))

    assert [path.name for path in tmp_path.iterdir()] == ["forward.py"]
