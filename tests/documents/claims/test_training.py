"""The small Transformer learns the shift with positions and not without; one head and no other is taken out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.documents.claims.claim import ABOVE_ZERO, at_most
from attnsuite.documents.claims.statements.head_importance import Importance, difference, heads, least, ranked, without
from attnsuite.documents.claims.statements.learned_positions import CHANCE, LEARNED, RATE, STEPS
from attnsuite.documents.claims.training import LENGTH, Model, Small, accuracy, loss, seeded, sequences, train
from attnsuite.implementations.transformer.eager import softmax_attention, transformer
from attnsuite.model import Holds

CONFIG = {
    "source_vocab": 11, "target_vocab": 13, "width": 16, "heads": 4, "ffn_width": 8, "encoder_blocks": 1,
    "decoder_blocks": 2, "decoding": "full",
}  # fmt: skip


def weights() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(1)
    return {name: torch.randn(*shape, generator=random) for name, shape in shapes(CONFIG).items()}


@pytest.mark.slow
def test_a_shift_is_learned_with_positions_and_not_without() -> None:
    found = {}
    for positions in ("none", "sinusoids"):
        with seeded(0) as random:
            model = Model(Small(positions))
            train(model, random, STEPS, RATE)
            found[positions] = accuracy(model, random)

    assert found["none"] < CHANCE
    assert found["sinusoids"] > LEARNED


def test_the_same_seed_makes_the_same_training_and_leaves_torch_s_own_source_alone() -> None:
    torch.manual_seed(5)
    curves = []
    for seed in (1, 1, 2):
        with seeded(seed) as random:
            curves.append(train(Model(Small()), random, 3, RATE))

    assert curves[0] == curves[1] != curves[2]
    after = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize("positions", ["none", "learned", "relative", "sinusoids"])
@pytest.mark.parametrize("norms", ["pre", "post"])
def test_every_kind_of_model_takes_sequences_of_twice_the_length_and_has_gradients(positions: str, norms: str) -> None:
    with seeded(3) as random:
        model = Model(Small(positions, norms, blocks=2))
        loss(model, sequences(random, 2 * LENGTH, count=3)).backward()

    without_gradient = {name for name, weight in model.named_parameters() if weight.grad is None}
    unused = {"learned"} - {positions}
    if positions != "relative":
        unused |= {"blocks.0.distances", "blocks.1.distances"}
    assert without_gradient == unused


def test_the_norm_before_the_head_is_of_pre_norm_alone() -> None:
    assert isinstance(Model(Small(norms="pre")).last, nn.LayerNorm)
    assert isinstance(Model(Small(norms="post")).last, nn.Identity)


@pytest.mark.parametrize("head", range(4))
def test_a_head_that_is_taken_out_mixes_nothing_into_the_output(head: int) -> None:
    """The same as an attention whose head answers zeros."""
    source, lengths, target = torch.tensor([[1, 2, 3]]), torch.tensor([3]), torch.tensor([[4, 5]])
    calls = []

    def silenced(query: Tensor, key: Tensor, value: Tensor, **options: object) -> Tensor:
        mixed = softmax_attention(query, key, value, **options)  # type: ignore[arg-type]
        calls.append(None)
        if len(calls) == 1:  # the encoder's only attention
            mixed[:, head] = 0
        return mixed

    taken = transformer(CONFIG, without(weights(), "encoder.0.attention", head, 4))(source, lengths, target)

    due = transformer(CONFIG, weights(), attention=silenced)(source, lengths, target)
    torch.testing.assert_close(taken, due)
    assert not torch.allclose(taken, transformer(CONFIG, weights())(source, lengths, target))


def test_every_head_is_named_once_and_its_weights_are_there() -> None:
    found = list(heads(CONFIG))

    assert len(set(found)) == len(found) == 4 * (1 + 2 * 2)
    assert all(f"{attention}.w_output" in weights() for attention, _ in found)


def importance(*changes: tuple[float, float]) -> Importance:
    """Heads whose losses change by so much in the mean, of chosen and of held-out sentences."""
    spread = torch.linspace(-0.001, 0.001, 20)
    return {("a", place): (spread + known, spread * (place + 1) + held) for place, (known, held) in enumerate(changes)}


def test_heads_are_chosen_by_some_sentences_and_judged_by_others() -> None:
    found = importance((0.2, 0.3), (0.0, 0.01), (0.1, -5.0))

    assert ranked(found) == [("a", 1), ("a", 2), ("a", 0)]
    assert at_most(0.03).judge(least(found).of) == Holds.HOLDS
    assert ABOVE_ZERO.judge(difference(found).of) == Holds.HOLDS


def test_heads_that_are_alike_do_not_differ_and_ones_that_all_matter_cannot_be_pruned() -> None:
    alike = importance((0.2, 0.3), (0.21, 0.3))

    assert ABOVE_ZERO.judge(difference(alike).of) == Holds.UNCLEAR
    assert at_most(0.03).judge(least(alike).of) == Holds.DOES_NOT
    assert ABOVE_ZERO.judge(difference(importance((0.2, 0.3), (0.21, 0.2))).of) == Holds.DOES_NOT
