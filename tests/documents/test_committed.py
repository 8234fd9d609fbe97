"""Scores of the committed trainings, as docs/documents.md promises them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from attnsuite.model import WRONG_GRADIENTS
from attnsuite.results.recorded import load

RESULTS = Path(__file__).parents[2] / "results"
TRAININGS = load(RESULTS, "learning")
MACHINES = sorted(set(TRAININGS[TRAININGS["task"] != WRONG_GRADIENTS]["machine"]))
"""Wrong gradients may be trained alone."""


@pytest.fixture(params=MACHINES)
def rows(request: pytest.FixtureRequest) -> pd.DataFrame:
    """One row per score of a training on this machine, and of its simpler baselines."""
    of_machine = TRAININGS[TRAININGS["machine"] == request.param]
    return pd.DataFrame(
        {"task": row.task, "implementation": row.implementation, "seed": row.seed, "score": score, "value": value}
        for row in of_machine.itertuples()
        for score, value in {**row.scores, **row.baselines}.items()
    )


def scores(rows: pd.DataFrame, task: str, score: str) -> pd.DataFrame:
    found = rows[(rows["task"] == task) & (rows["score"] == score)]
    assert not found.empty
    return found


def test_there_are_committed_trainings() -> None:
    assert MACHINES


@pytest.mark.parametrize("task", ["translation/transformer", "translation/seq2seq_attention"])
def test_the_sentences_of_the_documents_are_translated_from_three_seeds(rows: pd.DataFrame, task: str) -> None:
    found = scores(rows, task, "BLEU")
    assert set(found["seed"]) >= {0, 1, 2}
    assert (found["value"] == 1).all()


def test_digits_are_recognised_better_than_by_logistic_regression(rows: pd.DataFrame) -> None:
    found = scores(rows, "digits", "accuracy held out")
    assert set(found["seed"]) >= {0, 1, 2}
    assert (found["value"] >= 0.97).all()
    assert found["value"].min() > scores(rows, "digits", "logistic regression")["value"].max()


def test_recall_needs_weights_that_differ(rows: pd.DataFrame) -> None:
    found = scores(rows, "recall", "recalled")
    uniform = found["implementation"] == "uniform weights"
    assert (found[~uniform]["value"] >= 0.99).all()
    assert (found[uniform]["value"] < 0.2).all()
    assert uniform.any()


@pytest.mark.parametrize(("task", "score"), [("translation/transformer", "BLEU"), ("recall", "recalled")])
def test_the_score_does_not_depend_on_the_attention(rows: pd.DataFrame, task: str, score: str) -> None:
    found = scores(rows, task, score)
    of_seed = found[(found["seed"] == 0) & (found["implementation"].str.startswith("attention/"))]
    assert set(of_seed["implementation"]) == {"attention/matmul", "attention/chunked", "attention/torch_sdpa.automatic"}
    assert of_seed["value"].nunique() == 1
