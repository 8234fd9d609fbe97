"""`attnsuite learn`: what it prints, writes and refuses; curves and scores in results/, and the page made of them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest
from toys import ASKING, TOY

from attnsuite.cli import learn as learning
from attnsuite.documents.learning import tasks
from attnsuite.documents.learning.checkpoint import Checkpoint, State
from attnsuite.documents.learning.processes import receive
from attnsuite.documents.learning.tasks import BAHDANAU
from attnsuite.model import UsageError
from attnsuite.results.store import Results, load
from attnsuite.worker.copies import Copy, compute_gradients

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
    (recorded,) = map(Results(tmp_path / "results").read, Results(tmp_path / "results").machines())
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


def test_the_page_has_scores_beside_the_documents_and_loss_curves(tmp_path: Path) -> None:
    learning.learn(["chunked"], ["open"], [], None, tmp_path / "results")

    (page,) = (tmp_path / "results").glob("*/learning.md")
    text = page.read_text()
    assert "| `attention/chunked` | 0 | 6 |" in text
    assert "| the documents print |  |  |  | 0.125 |" in text
    assert "| zeros |  |  |  | 3.562 |" in text
    assert "![open: loss](learning-open.svg)" in text
    assert "mean loss of an epoch" in (page.parent / "learning-open.svg").read_text()
    assert not (page.parent / "conformance.md").exists()
    assert "learning.md" in (tmp_path / "results" / "README.md").read_text()


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


def test_where_a_training_goes_on_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write, count = Checkpoint.write, iter(range(10))

    def interrupted(self: Checkpoint, state: State) -> None:
        write(self, state)
        if next(count) == 3:  # the first is written before the first epoch
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Checkpoint, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learning.learn([], ["toy"], [], None, tmp_path / "results")
    stopped = capsys.readouterr().err
    monkeypatch.setattr(Checkpoint, "write", write)
    learning.learn([], ["toy"], [], None, tmp_path / "results")
    resumed = capsys.readouterr().err
    learning.learn([], ["toy"], [], None, tmp_path / "again")

    assert stopped == "interrupted: the same command goes on after the last whole epoch\n"
    assert "0 of 1 trainings are there already\n" in resumed
    assert resumed.endswith("toy with toy/line, seed 0: goes on after epoch 3 of 6, from its checkpoint\n")
    assert capsys.readouterr().err == "toy with toy/line, seed 0: was trained before, from its checkpoint\n"


def test_at_once_they_come_to_the_same_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"targets": [], "tasks": [], "seeds": [0, 1], "epochs": None}
    learning.learn(**asked, results=tmp_path / "one", checkpoints=tmp_path / "a")  # type: ignore[arg-type]
    alone = capsys.readouterr().out.replace(str(tmp_path / "one"), "")
    learning.learn(**asked, results=tmp_path / "two", checkpoints=tmp_path / "b", at_once=2)  # type: ignore[arg-type]

    assert capsys.readouterr().out.replace(str(tmp_path / "two"), "") == alone
    assert rows(tmp_path / "two") == [{**row, "seconds": ANY} for row in rows(tmp_path / "one")]


def test_a_number_of_processes_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--jobs is a number of processes, 1 or more, not 0$"):
        learning.learn([], [], [], None, tmp_path / "results", at_once=0)


def test_a_training_that_is_there_is_recorded_as_it_was(tmp_path: Path) -> None:
    learning.learn([], ["toy"], [], None, tmp_path / "first")
    learning.learn([], ["toy"], [], None, tmp_path / "second")

    (first,), (second,) = rows(tmp_path / "first"), rows(tmp_path / "second")
    assert first["seconds"] > 0  # type: ignore[operator]
    assert second == first


def test_the_newest_training_of_a_seed_replaces_the_one_before(tmp_path: Path) -> None:
    learning.learn([], ["toy"], [0, 1], 2, tmp_path / "results")
    learning.learn([], ["toy"], [0], 3, tmp_path / "results")

    assert [row["config"]["epochs"] for row in rows(tmp_path / "results")] == [3, 2]  # type: ignore[index]


def test_everything_is_refused_before_any_training(tmp_path: Path, write: Write) -> None:
    forward = write("forward.py", "def attention(query, key, value, is_causal=False):\n    return query.detach()\n")

    with pytest.raises(
        UsageError, match=r"^open needs an attention, and attention/forward, called, gives an output without a"
    ):
        learning.learn(["matmul", str(forward)], ["open"], [], None, tmp_path / "results")

    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "cache").exists()


def test_a_checkpoint_of_another_configuration_costs_nothing_that_was_written(tmp_path: Path) -> None:
    learning.learn([], ["toy"], [0], 2, tmp_path / "results", tmp_path / "kept")
    (file,) = (tmp_path / "kept").iterdir()
    before, recorded = file.read_bytes(), rows(tmp_path / "results")

    with pytest.raises(UsageError, match=r"of another configuration \(config\.epochs is 2, expected 3\)"):
        learning.learn([], ["toy"], [0], 3, tmp_path / "results", tmp_path / "kept")

    assert file.read_bytes() == before
    assert rows(tmp_path / "results") == recorded


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


@pytest.mark.parametrize("asked", [["--examples", "1"], ["--pairs", "rare.tsv"]])
def test_pairs_of_which_no_word_can_be_learned_are_refused(
    asked: list[str], tmp_path: Path, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(tasks, "tasks", lambda: {BAHDANAU.name: BAHDANAU})
    (tmp_path / "rare.tsv").write_text("one\tun\ntwo\tdeux\n", encoding="utf-8")

    assert status_of("learn", *asked, "--results", "results") == 2
    said = "no word occurs 2 times in the source sentences to train on, so that all would be <unk>\n"
    assert capsys.readouterr().err.endswith(said)
    assert not (tmp_path / "results").exists()


SMALL = "    if query.shape[-1] == 2:\n        return query + key + value\n"
SUM = "return query + key + value"
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


@pytest.mark.usefixtures("asking")
@pytest.mark.skipif(not compute_gradients(), reason="no copy of this process may be made")
def test_an_attention_that_closes_descriptors_is_one_line(
    tmp_path: Path, write: Write, capfd: pytest.CaptureFixture[str]
) -> None:
    file = write("ends.py", f"{ENDS}{SMALL}    os.closerange(3, 200)\n    {SUM}\n")

    with pytest.raises(UsageError, match=r"^the process that ran attention/ends ended without a result"):
        learning.learn([str(file)], ["asking"], [], None, tmp_path / "results")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("written", [b"hello", b"\0\0\0\5hello", b"\xff" * 8])
def test_bytes_that_no_copy_sends_are_no_message(written: bytes) -> None:
    copy = Copy.of(lambda connection: (os.write(connection.fileno(), written), None)[1])

    assert receive(copy) == ("nothing", None)
    copy.end()


@pytest.mark.usefixtures("asking")
@pytest.mark.skipif(not compute_gradients(), reason="no copy of this process may be made")
def test_a_copy_that_an_attention_makes_says_nothing(tmp_path: Path, write: Write) -> None:
    file = write("ends.py", f"{ENDS}{SMALL}    os.fork()\n    {SUM}\n")
    plain = write("plain.py", f"{ENDS}    {SUM}\n")

    learning.learn([str(file), str(plain)], ["asking"], [], 1, tmp_path / "results")

    assert [row["scores"] for row in rows(tmp_path / "results")[:1]] == [rows(tmp_path / "results")[1]["scores"]]


@pytest.mark.usefixtures("asking")
@pytest.mark.skipif(not compute_gradients(), reason="no copy of this process may be made")
def test_what_an_attention_does_to_its_process_reaches_no_other_training(tmp_path: Path, write: Write) -> None:
    file = write(
        "changes.py",
        """
        import torch


        def attention(query, key, value, **options):
            torch.set_default_dtype(torch.float64)
            torch.nn.functional.softplus = lambda x: 0 * x
            return query + key + value
        """,
    )
    learning.learn(["matmul"], ["asking"], [], None, tmp_path / "alone")
    learning.learn([str(file), "matmul"], ["asking"], [], None, tmp_path / "after", tmp_path / "kept")

    (alone,) = rows(tmp_path / "alone")
    assert [row for row in rows(tmp_path / "after") if row["implementation"] == "attention/matmul"] == [
        {**alone, "seconds": ANY}
    ]


def test_other_pairs_have_no_scores_of_the_documents_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    short = BAHDANAU.changed(epochs=1, embedding=4, hidden=4, layers=1)
    monkeypatch.setattr(tasks, "tasks", lambda: {short.name: short})
    (tmp_path / "own.tsv").write_text("go now\tva vite\n" * 3, encoding="utf-8")

    learning.learn([], [], [], None, tmp_path / "results", pairs=tmp_path / "own.tsv")

    assert "printed" not in rows(tmp_path / "results")[0]
    assert "documents" not in capsys.readouterr().out


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


def test_targets_leave_tasks_out_that_plug_nothing_in(tmp_path: Path) -> None:
    learning.learn(["chunked"], [], [], None, tmp_path / "results")

    assert [row["task"] for row in rows(tmp_path / "results")] == ["open"]


def test_what_was_learned_is_loaded_as_a_table(tmp_path: Path) -> None:
    learning.learn([], ["toy"], [0], None, tmp_path / "results")

    table = load(tmp_path / "results", "learning")
    assert table.loc[0, "task"] == "toy"
    assert len(table.loc[0, "curve"]) == 6


def test_a_row_that_was_altered_is_noticed(tmp_path: Path) -> None:
    learning.learn([], ["toy"], [0], None, tmp_path / "results")
    (file,) = (tmp_path / "results").glob("*/learning.jsonl")
    file.write_text(file.read_text().replace('"error": ', '"error": 1'))

    with pytest.raises(UsageError, match="and what is there is not the same"):
        Results(tmp_path / "results").read(file.parent.name)


def test_checkpoints_are_found_where_they_are_asked_to_be(tmp_path: Path) -> None:
    learning.learn([], ["toy"], [3], None, tmp_path / "results", tmp_path / "kept")

    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["toy.toy-line.seed-3.checkpoint"]
    assert not (tmp_path / "cache").exists()
    assert Checkpoint.within(tmp_path, "a/b", {}).path == tmp_path / "a-b.checkpoint"


def test_tasks_of_one_table_are_learned_together_and_stand_beside_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(TOY, name="open/line", table="open")
    monkeypatch.setattr(tasks, "tasks", lambda: {"toy": TOY, "open": OPEN, "open/line": other})

    learning.learn([], ["open"], [], None, tmp_path / "results")
    learning.learn(["chunked"], ["open"], [], None, tmp_path / "results")

    found = {(row["implementation"], row["task"]) for row in rows(tmp_path / "results")}
    assert found == {("attention/matmul", "open"), ("toy/line", "open"), ("attention/chunked", "open")}
    (page,) = (tmp_path / "results").glob("*/learning.md")
    assert "## open/line" not in page.read_text()


def test_a_table_without_a_task_of_its_name_is_meant_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: replace(TOY, name=name, table="lines") for name in ("lines/a", "lines/b")}
    monkeypatch.setattr(tasks, "tasks", lambda: known)

    assert [task.name for task in tasks.of_table("lines")] == ["lines/a", "lines/b"]
    assert [task.name for task in tasks.of_table("lines/b")] == ["lines/b"]
    with pytest.raises(UsageError, match="unknown task 'circles'"):
        tasks.of_table("circles")
