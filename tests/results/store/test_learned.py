"""What was learned is written and read back as outcomes and measurements are, beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from stored import MACHINE, RUN, SECOND, measurement, outcome

from attnsuite.model import Learned, UsageError
from attnsuite.results.store import Results
from attnsuite.results.store.contents import Contents
from attnsuite.results.store.migration import _joined

LEARNED = Learned(
    "attention/mine",
    "translation/transformer",
    3,
    "cpu",
    (4.25, 1.0, 0.123457),
    {"BLEU": 1.0, "go .": 0.5},
    {"BLEU": 0.842},
    {"chance": 0.1},
    {"epochs": 3, "clip": None, "pairs": ""},
    12.5,
    ("dropout",),
)


@pytest.mark.parametrize("finish", [True, False])
def test_what_was_learned_is_read_back(tmp_path: Path, finish: bool) -> None:
    with Results(tmp_path).open_run(RUN) as writer:
        for record in (outcome("a"), measurement("b"), LEARNED, replace(LEARNED, seed=1)):
            writer.write(record)
        if finish:
            writer.finish()
    found = Results(tmp_path).read(MACHINE.name)

    assert found.learned == [replace(LEARNED, seed=1), LEARNED]
    assert (len(found.outcomes), len(found.measurements)) == (1, 1)
    assert [run.id for run in found.trained_runs] == ["r1"]


def test_a_later_run_replaces_the_same_training_alone(tmp_path: Path) -> None:
    for run, seeds, loss in ((RUN, (0, 1), 2.0), (SECOND, (1, 2), 1.0)):
        with Results(tmp_path).open_run(run) as writer:
            for seed in seeds:
                writer.write(replace(LEARNED, seed=seed, curve=(loss,)))
            writer.finish()
    found = Results(tmp_path).read(MACHINE.name)

    assert [(each.seed, each.curve) for each in found.learned] == [(0, (2.0,)), (1, (1.0,)), (2, (1.0,))]


def test_a_run_that_checks_alone_keeps_what_was_learned(tmp_path: Path) -> None:
    for run, record in ((RUN, LEARNED), (SECOND, outcome("a"))):
        with Results(tmp_path).open_run(run) as writer:
            writer.write(record)
            writer.finish()

    assert Results(tmp_path).read(MACHINE.name).learned == [LEARNED]


@pytest.mark.parametrize("curve", [(), (1.0, float("nan")), (float("inf"),)])
def test_a_curve_that_could_not_be_read_again_is_not_written(tmp_path: Path, curve: tuple[float, ...]) -> None:
    with Results(tmp_path).open_run(RUN) as writer:
        with pytest.raises(ValueError, match=r"finite|no loss"):
            writer.write(replace(LEARNED, curve=curve))
        writer.write(LEARNED)

    assert Results(tmp_path).read(MACHINE.name).learned == [LEARNED]


def test_a_curve_that_is_shorter_than_written_is_noticed(tmp_path: Path) -> None:
    with Results(tmp_path).open_run(RUN) as writer:
        writer.write(LEARNED)
        writer.finish()
    (tmp_path / MACHINE.name / "learning.curve.gz").unlink()

    with pytest.raises(UsageError, match=r"learning\.jsonl: "):
        Results(tmp_path).read(MACHINE.name)


def test_a_migration_leaves_what_the_folder_had_learned() -> None:
    later = Contents({"r2": SECOND}, [], [], [("r2", LEARNED)])

    assert _joined(Contents({"r1": RUN}, [], []), later).learned == [("r2", LEARNED)]
