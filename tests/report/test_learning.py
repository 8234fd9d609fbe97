"""The page of what was learned: a row for each training, the documents' scores, simpler methods', and the curves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import MACHINE, RUN
from msgspec.structs import replace

from attnsuite.model import Learned
from attnsuite.report import write_machine
from attnsuite.report.learning import by_task, learning, pictures
from attnsuite.report.render import markdown
from attnsuite.results.store import Recorded

PLAIN = Learned(
    "attention/matmul", "digits", 0, "cpu", (2.0, 1.0, 0.5), {"accuracy": 0.975}, beside={"logistic regression": 0.96},
    config={"epochs": 3, "clip": None}, seconds=12.0,
)  # fmt: skip
OTHER = replace(PLAIN, task="translation", scores={"BLEU": 1.0}, printed={"BLEU": 0.842}, beside={})


def recorded(*learned: Learned) -> Recorded:
    rows = tuple(sorted(((RUN.id, each) for each in learned), key=lambda row: row[1].key))
    return Recorded(MACHINE.name, {RUN.id: RUN}, (), (), rows)


def test_a_task_has_a_section_with_its_trainings_and_what_stands_beside() -> None:
    text = markdown.render(
        learning(recorded(PLAIN, replace(PLAIN, seed=1, beside={"logistic regression": 0.95}), OTHER))
    )

    digits, translation = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert "| `attention/matmul` | 0 | 3 | 0.5 | 0.975 | 12 s |" in digits
    assert "| logistic regression |  |  |  | 0.955 |  |" in digits  # the mean of both seeds
    assert "documents" not in digits
    assert "| the documents print |  |  |  | 0.842 |  |" in translation
    assert "Config: epochs 3\n" in digits


def test_an_attention_without_dropout_is_named() -> None:
    text = markdown.render(learning(recorded(replace(PLAIN, without=("dropout",)))))

    assert "`attention/matmul` lacks dropout, so the task was learned without." in text


def test_a_picture_has_a_line_for_each_training_and_one_look_for_each_attention() -> None:
    seeds = [replace(PLAIN, seed=seed) for seed in (0, 1)]
    (picture,) = pictures(recorded(*seeds, replace(PLAIN, implementation="attention/chunked"))).values()
    (panel,) = picture.panels

    assert [(mark.label, mark.style) for mark in panel.marks] == [
        ("chunked, seed 0", 1),
        ("matmul, seed 0", 2),
        ("matmul, seed 1", 2),
    ]
    assert panel.marks[0].points == ((1.0, 2.0), (2.0, 1.0), (3.0, 0.5))


def test_curves_of_one_epoch_are_no_picture() -> None:
    assert pictures(recorded(replace(PLAIN, curve=(1.0,)))) == {}
    assert list(by_task(recorded(PLAIN, OTHER))) == ["digits", "translation"]


def test_lines_that_look_alike_are_drawn_one_by_one() -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from attnsuite.report.render import svg

    (picture,) = pictures(recorded(*(replace(PLAIN, seed=seed) for seed in (0, 1, 2)))).values()
    drawn = svg.render(picture)

    assert len(re.findall(r'class="mark-line role-mark', drawn)) == 3


def test_a_machine_where_models_learned_alone_has_no_other_pages(tmp_path: Path) -> None:
    written, _ = write_machine(tmp_path, recorded(PLAIN))

    assert {path.name for path in written} <= {"learning.md", "learning.csv", "learning-digits.svg"}
    assert {"learning.md", "learning.csv"} <= {path.name for path in tmp_path.iterdir()}
    write_machine(tmp_path, recorded(OTHER))
    assert not (tmp_path / "learning-digits.svg").exists()


def test_programs_get_a_row_for_each_score(tmp_path: Path) -> None:
    write_machine(tmp_path, recorded(PLAIN))

    head, *rows = (tmp_path / "learning.csv").read_text().splitlines()
    assert head == "run,commit,task,implementation,seed,epochs,loss,score,value,printed"
    assert [row.split(",")[-3:] for row in rows] == [["accuracy", "0.975", ""], ["logistic regression", "0.96", ""]]
