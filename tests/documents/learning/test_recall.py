"""Associative recall: what is asked, and that it takes attention."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from attnsuite.documents.learning.engine import train
from attnsuite.documents.learning.task import generator
from attnsuite.documents.learning.tasks import recall
from attnsuite.documents.learning.tasks.recall import ACCURACY, CHANCE, RECALL, UNIFORM, drawn, uniform
from attnsuite.model import UsageError


def test_the_value_that_is_due_stood_after_the_key_that_is_asked() -> None:
    tokens, due = drawn(RECALL.config, 50, generator(1, "test"))

    pairs, keys = RECALL.config["items"], RECALL.config["keys"]
    assert tokens.shape == (50, 2 * pairs + 1)
    for row, value in zip(tokens.tolist(), due.tolist(), strict=True):
        memory = dict(zip(row[:-1:2], row[1:-1:2], strict=True))
        assert len(memory) == len(set(memory.values())) == pairs, "no key and no value comes twice"
        assert memory[row[-1]] == keys + value


def test_the_model_looks_at_no_later_token() -> None:
    """Its last position alone is read, so what is causal is asked of the attention that is plugged in."""
    asked: list[bool] = []

    def attention(*tensors: torch.Tensor, is_causal: bool = False) -> torch.Tensor:
        asked.append(is_causal)
        return sdpa(*tensors, is_causal=is_causal)

    train(RECALL.with_epochs(1), 0, attention)

    assert asked
    assert all(asked)


@pytest.mark.slow
def test_attention_recalls_and_equal_weights_stay_at_chance() -> None:
    found, guessed = train(RECALL, 0, sdpa), train(UNIFORM, 0, sdpa)

    assert found.scores[ACCURACY] >= 0.99
    chance = guessed.beside[CHANCE]
    assert abs(guessed.scores[ACCURACY] - chance) < 4 * (chance * (1 - chance) / recall.HELD_OUT) ** 0.5
    assert found.curve[-1] < 0.1 < guessed.curve[-1]


@pytest.mark.parametrize("is_causal", [False, True])
def test_uniform_attention_is_the_mean_of_the_values_that_may_be_seen(is_causal: bool) -> None:
    query, key, value = torch.randn(3, 2, 1, 5, 4).unbind()

    found = uniform(query, key, value, is_causal=is_causal)

    count = torch.arange(1, 6)[:, None] if is_causal else 5
    expected = (value.cumsum(-2) if is_causal else value.sum(-2, keepdim=True)) / count
    assert torch.allclose(found, expected.expand_as(found), atol=1e-6)


def test_an_attention_that_gives_nan_ends_the_training_in_one_line() -> None:
    def broken(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool = False) -> torch.Tensor:
        return sdpa(query, key, value, is_causal=is_causal) / (query - query)

    with pytest.raises(UsageError, match=r"^recall: the loss is nan in epoch 1, batch 1, and should be finite$"):
        train(RECALL, 0, broken)
