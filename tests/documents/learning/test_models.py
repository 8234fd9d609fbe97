"""The models that are trained: without dropout those of the contracts, with it noisy where the documents say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.documents.learning import models
from attnsuite.documents.learning.task import generator

TRANSFORMER = {"source_vocab": 11, "target_vocab": 13, "width": 16, "heads": 4, "ffn_width": 24, "encoder_blocks": 2,
               "decoder_blocks": 2, "decoding": "full"}  # fmt: skip
RECURRENT = {"source_vocab": 11, "target_vocab": 13, "embedding": 12, "hidden": 16, "layers": 2, "score": "additive",
             "cell": "gru", "window": None}  # fmt: skip
CONFIGS: Mapping[str, dict[str, Any]] = {"transformer": TRANSFORMER, "seq2seq_attention": RECURRENT}
SOURCE = torch.arange(21).reshape(3, 7) % 11
LENGTHS = torch.tensor([7, 4, 1])
TARGET = torch.arange(15).reshape(3, 5) % 13


def loaded(name: str) -> Callable[..., Any]:
    found = registry.load(registry.find([name])[0])
    assert isinstance(found, registry.Loaded)
    return found.function


def weights(contract: str) -> dict[str, Tensor]:
    return models.initial(models.SHAPES[contract](CONFIGS[contract]), generator(0, "test"))


def trained(contract: str, p: float = 0.0, random: torch.Generator | None = None, plug: str = "matmul") -> models.Model:
    if contract == "transformer":
        return models.transformer(TRANSFORMER, weights(contract), loaded(f"attention/{plug}"), p, random)
    return models.seq2seq_attention(RECURRENT, weights(contract), p, random)


@pytest.mark.parametrize("contract", CONFIGS)
@pytest.mark.parametrize("p", [0.0, 0.5])
def test_without_dropout_it_is_the_contract_s_model(contract: str, p: float) -> None:
    due = loaded(f"{contract}/eager")(CONFIGS[contract], weights(contract))(SOURCE, LENGTHS, TARGET)
    for random in (None, generator(0, "draws")) if p == 0 else (None,):
        torch.testing.assert_close(trained(contract, p, random)(SOURCE, LENGTHS, TARGET), due, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["transformer/torch_nn", "transformer/eager+chunked"])
def test_its_weights_run_in_other_implementations(name: str) -> None:
    output = loaded(name)(TRANSFORMER, weights("transformer"))(SOURCE, LENGTHS, TARGET)

    torch.testing.assert_close(output, trained("transformer")(SOURCE, LENGTHS, TARGET), atol=1e-4, rtol=1e-4)


def test_any_attention_can_be_plugged_in() -> None:
    due = trained("transformer")(SOURCE, LENGTHS, TARGET)

    for plug in ("chunked", "torch_sdpa.automatic"):
        torch.testing.assert_close(
            trained("transformer", plug=plug)(SOURCE, LENGTHS, TARGET), due, atol=1e-4, rtol=1e-4
        )


def test_the_attention_is_told_what_is_hidden_and_how_much_is_dropped() -> None:
    told: list[set[str]] = []

    def attention(*tensors: Tensor, **options: Any) -> Tensor:
        told.append({name for name, value in options.items() if value is not None})
        assert options.get("dropout_p", 0.25) == 0.25
        return loaded("attention/matmul")(*tensors, **options)

    models.transformer(TRANSFORMER, weights("transformer"), attention, 0.25, generator(0, "draws"))(
        SOURCE, LENGTHS, TARGET
    )

    padded, causal = {"attn_mask", "dropout_p"}, {"is_causal", "dropout_p"}
    assert told == [padded, padded, causal, padded, causal, padded]


@pytest.mark.parametrize("contract", CONFIGS)
def test_dropout_draws_from_its_generator_alone(contract: str) -> None:
    def output(seed: int) -> Tensor:
        torch.manual_seed(0)
        return trained(contract, 0.5, generator(seed, "draws"))(SOURCE, LENGTHS, TARGET)

    assert torch.equal(output(1), output(1))
    assert not torch.allclose(output(1), output(2))


def test_dropout_keeps_the_mean_and_drops_the_share() -> None:
    dropped = models.dropout(0.2, generator(0, "draws"))(torch.ones(100_000))

    assert set(dropped.unique().tolist()) == {0.0, 1.25}
    assert float((dropped == 0).float().mean()) == pytest.approx(0.2, abs=0.01)  # 8 standard deviations
    assert dropped.mean() == pytest.approx(1.0, abs=0.0125)


def test_dropout_reaches_residuals_positions_scores_and_layers() -> None:
    """Everything of a place is dropped: what is left says that the place was reached."""

    def count(contract: str) -> int:
        calls = []

        def drop(p: float, random: torch.Generator | None) -> models.Drop:
            def counted(x: Tensor) -> Tensor:
                calls.append(x.shape)
                return x

            return counted

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(models, "dropout", drop)
            trained(contract)(SOURCE, LENGTHS, TARGET)
        return len(calls)

    assert count("transformer") == 2 + 2 * 2 + 2 * 3  # positions of both sides; layers of two blocks on each
    assert count("seq2seq_attention") == 7 + 5 + 5  # between two layers at each step, and the weights of each context


@pytest.mark.parametrize("contract", CONFIGS)
def test_weights_to_begin_with_have_the_shapes_due_and_their_scales(contract: str) -> None:
    found, due = weights(contract), models.SHAPES[contract](CONFIGS[contract])

    assert {name: tuple(each.shape) for name, each in found.items()} == due
    assert all(each.requires_grad and each.is_leaf for each in found.values())
    assert not torch.equal(found["source_embedding"][:11, :4], found["target_embedding"][:11, :4])


def test_scales_are_those_of_pytorch_and_xavier() -> None:
    attention, recurrent = weights("transformer"), weights("seq2seq_attention")
    bounds = {
        "encoder.0.attention.w_query": 1 / 4,
        "encoder.0.ffn.b1": 1 / 4,  # of 16 rows of w1
        "encoder.0.ffn.b2": 1 / math.sqrt(24),
        "b_logits": 1 / 4,
    }
    assert all(0.5 * bound < attention[name].abs().max() <= bound for name, bound in bounds.items())
    assert torch.equal(attention["encoder.0.norm1.weight"], torch.ones(16))
    bounds = {"encoder.0.w_input": math.sqrt(6 / (12 + 48)), "encoder.0.b_input": 1 / 4, "attention.w_score": 1 / 4}
    assert all(0.5 * bound < recurrent[name].abs().max() <= bound for name, bound in bounds.items())
