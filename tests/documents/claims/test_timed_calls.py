"""What timed claims time is what they say: training steps learn, and decoders attend to what they should."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from attnsuite.documents.claims import every
from attnsuite.documents.claims.layers import LAYERS, inputs
from attnsuite.documents.claims.statements import image_size, scoring, seq2seq_training
from attnsuite.documents.claims.statements.complexity import POWERS, TIMED
from attnsuite.model import Evidence

STEPS: dict[str, Callable[[], Callable[[], Tensor]]] = {
    "image": lambda: image_size.step(16),
    "gru": lambda: seq2seq_training.step(cell="gru"),
    "lstm": lambda: seq2seq_training.step(cell="lstm"),
    "additive": lambda: seq2seq_training.step(score="additive"),
    "scaled_dot": lambda: seq2seq_training.step(score="scaled_dot"),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_training_step_lowers_the_loss_of_its_own_batch(name: str) -> None:
    step = STEPS[name]()
    losses = [float(step().detach()) for _ in range(6)]

    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_both_decoders_give_a_row_for_each_step_and_attend_to_all_keys() -> None:
    waits, follows = (scoring.decoder(each, steps=4) for each in (True, False))

    assert waits().shape == (scoring.ITEMS, 4, scoring.WIDTH)
    assert follows().shape == (scoring.ITEMS, 4, 2 * scoring.WIDTH)
    assert torch.equal(waits(), waits())
    # the first step of the one that waits attends by zeros, so that its context is the mean: no other number is shared
    assert not torch.allclose(waits(), follows()[..., : scoring.WIDTH])


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_scores_are_of_every_query_with_every_key(score: str) -> None:
    assert scoring.scores(score)().shape == (scoring.ITEMS, scoring.LENGTH, scoring.LENGTH)


def test_every_power_of_the_table_is_timed_and_layers_keep_the_shape_of_their_input() -> None:
    assert set(TIMED) == {(layer, variable) for layer, powers in POWERS.items() for variable in powers}
    for (layer, _), (of, _) in TIMED.items():
        assert LAYERS[layer](of)(inputs(of)).shape == (of.length, of.width)


def test_timed_claims_are_about_ratios_or_powers() -> None:
    timed = [claim for claim in every() if claim.evidence == Evidence.TIMED]

    assert len(timed) >= 13
    assert all(claim.quantity.startswith("power of ") or "as a multiple of " in claim.quantity for claim in timed)
