"""Where an output shows which weights it kept, wrong gradients under dropout are named: deviations draw the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import dropout

import attnsuite
from attnsuite.cases.draws import replayed, replayed_draws


def drops_the_output(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
    return dropout((query @ key.mT * query.shape[-1] ** -0.5).softmax(-1) @ value, dropout_p)


def normalises_again(query: Tensor, key: Tensor, value: Tensor, *, dropout_p: float = 0.0) -> Tensor:
    weights = dropout((query @ key.mT * query.shape[-1] ** -0.5).softmax(-1), dropout_p)
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1.0) @ value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attention", "name"), [(drops_the_output, "drops_outputs"), (normalises_again, "normalises_after_dropout")]
)
def test_what_hangs_on_the_whole_draw_is_named(attention: Callable[..., Tensor], name: str) -> None:
    outcomes = attnsuite.check(attention, cases=("dropout/gradient", "dropout/gradient_one_query"), dtypes="float32")

    failing = [outcome for outcome in outcomes if outcome.fails]
    assert failing
    assert all(name in outcome.diagnosis for outcome in failing)


def test_a_draw_is_shown_at_the_beginning_of_its_seed_alone() -> None:
    kept = torch.tensor([[True, False]])

    with replayed_draws({7: kept}):
        torch.manual_seed(7)
        first = replayed(torch.empty(1, 2))
        other_shape = replayed(torch.empty(2, 2))
        torch.rand(1)
        later = replayed(torch.empty(1, 2))
    torch.manual_seed(7)

    assert first is kept
    assert (other_shape, later, replayed(torch.empty(1, 2))) == (None, None, None)
