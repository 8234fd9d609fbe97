"""`attnsuite learn`: what it prints, writes and refuses; curves and scores in results/, and the page made of them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest
from toys import ASKING, TOY

from attnsuite.cli import learn as learning
from attnsuite.documents.learning import tasks
from attnsuite.documents.learning.tasks import BAHDANAU
from attnsuite.model import UsageError
from attnsuite.results import read
from attnsuite.worker.copies import compute_gradients

Write = Callable[[str, str], Path]
OPEN = replace(TOY, name="open", own="", needs=frozenset({"causal", "gradient"}), printed={"error": 0.125})


@pytest.fixture(autouse=True)
def two_tasks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tasks, "tasks", lambda: {"toy": TOY, "open": OPEN})


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, also where the tests were started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one task has a model that asks its attention."""
    monkeypatch.setattr(tasks, "tasks", lambda: {"asking": ASKING})


def rows(results: Path) -> list[dict[str, object]]:
    (file,) = results.glob("*/learning.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_all_tasks_are_learned_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert learning.learn([], [], [0, 1], None, tmp_path / "results") == 0

    said = capsys.readouterr().out
    (recorded,) = read(tmp_path / "results").values()
    assert [(each.implementation, each.task, each.seed) for each in recorded.learned] == [
        ("attention/matmul", "open", 0),
        ("attention/matmul", "open", 1),
        ("toy/line", "toy", 0),
        ("toy/line", "toy", 1),
    ]
    assert all(len(each.curve) == 6 and each.seconds is not None for each in recorded.learned)
    assert recorded.learned[0].curve == recorded.learned[2].curve  # the same model, whatever is plugged in
    assert "open with attention/matmul, seed 1: loss " in said
    assert "(documents: 0.125)" in said


def test_a_run_that_was_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = learning._learned

    def interrupted(job, *arguments):  # type: ignore[no-untyped-def]
        if (job.task.name, job.seed) == ("open", 0):
            signal.raise_signal(signal.SIGINT)
        return learned(job, *arguments)

    monkeypatch.setattr(learning, "_learned", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learning.learn([], [], [0, 1], None, tmp_path / "results")
    again = tmp_path / "again"

    def noted(job, *arguments):  # type: ignore[no-untyped-def]
        with again.open("a") as file:  # by a copy of this process
            print(job.task.name, job.seed, file=file)
        return learned(job, *arguments)

    monkeypatch.setattr(learning, "_learned", noted)
    learning.learn([], [], [0, 1], None, tmp_path / "results")

    assert again.read_text() == "open 0\nopen 1\n"
    assert len(rows(tmp_path / "results")) == 4


def test_at_once_they_come_to_the_same_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"targets": [], "tasks": [], "seeds": [0, 1], "epochs": None}
    learning.learn(**asked, results=tmp_path / "one", checkpoints=tmp_path / "a")  # type: ignore[arg-type]
    alone = capsys.readouterr().out.replace(str(tmp_path / "one"), "")
    learning.learn(**asked, results=tmp_path / "two", checkpoints=tmp_path / "b", at_once=2)  # type: ignore[arg-type]

    assert capsys.readouterr().out.replace(str(tmp_path / "two"), "") == alone
    assert rows(tmp_path / "two") == [{**row, "seconds": ANY} for row in rows(tmp_path / "one")]


def test_everything_is_refused_before_any_training(tmp_path: Path, write: Write) -> None:
    forward = write("forward.py", "def attention(query, key, value, is_causal=False):\n    return query.detach()\n")

    with pytest.raises(
        UsageError, match=r"^open needs an attention, and attention/forward, called, gives an output without a"
    ):
        learning.learn(["matmul", str(forward)], ["open"], [], None, tmp_path / "results")

    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ((["matmul"], ["toy"], [], None), "toy plugs in no attention: leave the targets out"),
        (([], ["nothing"], [], None), "unknown task 'nothing'; there are: toy, open"),
        (([], ["toy"], [], None, 7), "toy reads no pairs of sentences: leave --pairs and --examples out"),
        (([], [], [], None, 0), "--examples should be 1 or more, not 0"),
        (([], [], [], None, 1299), "--examples 1299: the set that ships has 1298 pairs"),
        (([], [], [], 0), "--epochs should be 1 or more, not 0"),
        (([], [], [-1], None), "--seed should lie between 0 and 4294967295, not be -1"),
        ((["nothing"], [], [], None), "unknown target 'nothing'"),
    ],
)
def test_requests_that_cannot_be_carried_out_are_one_line(tmp_path: Path, asked, says: str) -> None:  # type: ignore[no-untyped-def]
    targets, named, seeds, epochs, *examples = asked

    with pytest.raises(UsageError, match=f"^{says}"):
        learning.learn(targets, named, seeds, epochs, tmp_path / "results", None, None, *examples)


SMALL = "    if query.shape[-1] == 2:\n        return query + key + value\n"
ENDS = "import os\n\n\ndef attention(query, key, value, **options):\n"


@pytest.mark.usefixtures("asking")
@pytest.mark.skipif(not compute_gradients(), reason="no copy of this process may be made")
@pytest.mark.parametrize(("act", "how"), [("os._exit(0)", "exit status 0"), ("os.abort()", "SIGABRT")])
@pytest.mark.parametrize("in_training", [False, True])
def test_an_attention_that_ends_its_process_is_one_line(
    tmp_path: Path, write: Write, act: str, how: str, in_training: bool
) -> None:
    file = write("ends.py", f"{ENDS}{SMALL * in_training}    {act}\n")

    said = rf"^the process that ran attention/ends ended without a result \({how}\)$"
    with pytest.raises(UsageError, match=said):
        learning.learn([str(file)], ["asking"], [], None, tmp_path / "results")


def test_pairs_of_the_user_s_are_learned_and_a_damaged_file_is_named_before(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "tasks", lambda: {"toy": TOY, BAHDANAU.name: BAHDANAU})
    file = write("fra.txt", "Go.\tVa !\nRun.\tCours !\n" * 30)
    learning.learn([], [], [], 1, tmp_path / "results", None, file, 50)

    (row,) = rows(tmp_path / "results")
    assert row["config"]["examples"] == 50  # type: ignore[index]
    assert row["config"]["pairs"] == str(file)  # type: ignore[index]
    file.write_text("Go.\tVa !\nRun\n")
    with pytest.raises(UsageError, match=r"fra\.txt, line 2: no tab in 'Run'"):
        learning.learn([], [], [], 1, tmp_path / "results", None, file)
