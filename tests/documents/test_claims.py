"""Claims: verdicts of measurements, the table of claims, and the measuring functions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnsuite.contracts.models.transformer.contract import shapes
from attnsuite.documents.claims import (
    Claim,
    MeasuredValue,
    Range,
    above,
    all_claims,
    at_least,
    at_most,
    claims,
    exactly,
    number,
    power,
    sampled,
)
from attnsuite.documents.claims.exact import dependence, flops, largest_bytes, layers_until, longest_chain
from attnsuite.documents.claims.layers import LAYERS, Sizes, decoder, inputs, vision_step
from attnsuite.documents.claims.timed import ROUNDS, ratio
from attnsuite.documents.claims.trained import (
    LENGTH,
    Importance,
    Model,
    SmallConfig,
    accuracy,
    difference_of_heads,
    heads,
    least_important,
    loss,
    ranked,
    seeded,
    sequences,
    train,
    without,
)
from attnsuite.implementations.transformer.eager import softmax_attention, transformer
from attnsuite.model import NO_DOCUMENT, ClaimStatus, Evidence

TWENTY = [0.90 + 0.01 * place for place in range(20)]
"""Samples with the median 0.995, whose interval is about 0.94 to 1.05."""


def claim(measure: Callable[[], MeasuredValue], expected: Range) -> Claim:
    return Claim("topic/what", "doc-004", "1.1", "one is one", "a number", expected, Evidence.DRAWN, measure)


# Verdicts


@pytest.mark.parametrize(
    ("expected", "value", "holds"),
    [
        (power(2), 1.6, True), (power(2), 1.4, False), (power(-1), -1.2, True),
        (exactly(2), 2.0, True), (exactly(2), 2.0001, False), (exactly(2, 1e-3), 2.0001, True),
        (at_most(1), 1.0, True), (at_most(1), 1.1, False), (at_least(1), 0.9, False),
        (above(0), 5e-324, True), (above(0), 0.0, False), (above(1), 1.001, True), (above(1), 1.0, False),
    ],
)  # fmt: skip
def test_an_exact_number_holds_or_does_not(expected: Range, value: float, holds: bool) -> None:
    assert claim(lambda: number(value), expected).examine().holds == (
        ClaimStatus.HOLDS if holds else ClaimStatus.DOES_NOT
    )


@pytest.mark.parametrize(
    ("samples", "expected", "holds"),
    [
        (TWENTY, at_most(1.2), ClaimStatus.HOLDS),
        (TWENTY, at_least(1.2), ClaimStatus.DOES_NOT),
        (TWENTY, at_least(1.0), ClaimStatus.UNCLEAR),
        (TWENTY, at_most(1.0), ClaimStatus.UNCLEAR),
        ([1.0] * 7, at_most(2), ClaimStatus.UNCLEAR),
    ],
    ids=["inside", "outside", "across", "across, turned", "too few samples"],
)
def test_samples_hold_if_their_interval_is_inside(samples: list[float], expected: Range, holds: ClaimStatus) -> None:
    row = claim(lambda: sampled(samples), expected).examine()

    assert (row.holds, row.samples) == (holds, tuple(samples))


@pytest.mark.parametrize(
    ("error", "holds", "detail"),
    [
        (ZeroDivisionError("by nothing"), ClaimStatus.ERROR, "ZeroDivisionError: by nothing"),
        (ModuleNotFoundError("No module named 'absent'"), ClaimStatus.MISSING, "No module named 'absent'"),
    ],
)
def test_an_exception_is_reported_and_a_missing_library_is_no_failure(
    error: Exception, holds: ClaimStatus, detail: str
) -> None:
    def measure() -> MeasuredValue:
        raise error

    row = claim(measure, exactly(1)).examine()

    assert (row.holds, row.detail, row.value, row.fails) == (holds, detail, None, holds == ClaimStatus.ERROR)


# The table


def test_names_of_claims_are_unique_and_the_page_lists_their_topics() -> None:
    topics = list(dict.fromkeys(claim.topic for claim in all_claims()))
    page = Path(__file__).parents[2] / "docs" / "documents.md"

    assert len({claim.name for claim in all_claims()}) == len(all_claims()) > 50
    assert {claim.document for claim in all_claims()} >= {f"doc-00{number}" for number in range(5)}
    assert topics == sorted(topics)
    assert set(topics) <= set(re.findall(r"`(\w+)`", page.read_text(encoding="utf-8")))


def test_claims_are_chosen_by_name_topic_pattern_and_evidence() -> None:
    names = [claim.name for claim in claims(["softmax/never_vanishes", "normalisation", "complexity/r*"], ["exact"])]

    assert names == [
        *("complexity/recurrence_length_flops", "complexity/recurrence_width_flops"),
        *("normalisation/layer", "normalisation/batch", "softmax/never_vanishes"),
    ]


WRONG = {
    "causal/own", "dropout_factor/one_over_p", "image_size/flops_of_patches", "keys_and_values/widths",
    "kernels/similar", "normalisation/layer", "notes/channels", "notes/feed_forward", "notes/masked", "notes/sines",
    "softmax/never_vanishes", "unscaled_scores/same",
}  # fmt: skip
"""Claims that do not hold."""
COUNTED = [claim for claim in all_claims() if claim.evidence in (Evidence.EXACT, Evidence.DRAWN)]


def test_no_claim_holds_whatever_is_measured() -> None:
    for claim in all_claims():
        verdicts = {claim.expected.judge(number(value).interval) for value in (-1e300, 1e300)}
        assert ClaimStatus.DOES_NOT in verdicts, claim.name


def test_a_claim_that_does_not_hold_says_why_in_one_or_two_sentences() -> None:
    trained = {"learned_positions/sinusoids_longer", "learned_positions/learned_longer"}

    assert {claim.name for claim in all_claims() if claim.why} == WRONG | trained
    for claim in all_claims():
        if claim.why:
            assert claim.why.endswith(".")
            assert len(re.findall(r"[.?](?= [A-Z]|$)", claim.why)) <= 2, claim.why


def test_only_a_claim_that_does_not_hold_has_its_reason_in_the_results() -> None:
    holding = replace(claim(lambda: number(1), exactly(1)), why="It is 2.")
    failing = replace(claim(lambda: number(2), exactly(1)), why="It is 2.")

    assert (holding.examine().why, failing.examine().why) == ("", "It is 2.")


def test_three_statements_are_in_no_document() -> None:
    names = {claim.name for claim in all_claims() if claim.document == NO_DOCUMENT}

    assert names == {f"learned_positions/{kind}_longer" for kind in ("sinusoids", "learned", "relative")}
    assert all(claim.document.startswith("doc-") for claim in all_claims() if claim.name not in names)


def test_a_threshold_of_our_own_says_so() -> None:
    (similar,), (constant,) = claims(["kernels/similar"]), claims(["kernels/constant"])

    assert similar.expected.words == "at most 1, our threshold"
    assert constant.expected.words == "at most 1e-09"


def test_a_ratio_of_times_is_that_of_the_two_calls_within_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Clock:
        """A stopwatch whose samples are what the call returns, and become slower round by round."""

        def __init__(self, call: Callable[[Any], float]) -> None:
            self.call, self.rounds = call, 0

        def warm_up(self) -> tuple[float, float]:
            return 0.0, 1.0

        def pace(self, expected: float) -> tuple[int, float]:
            return 1, expected

        def warm(self, expected: float) -> float:
            return 0.0

        def sample(self, calls: int) -> float:
            self.rounds += 1
            seconds = self.call(None)
            order.append("slower" if seconds == 6 else "faster")
            return seconds * self.rounds

    monkeypatch.setattr("attnsuite.documents.claims.timed.Stopwatch", Clock)

    measured = ratio(lambda: 6.0, lambda: 2.0)

    assert measured.samples == (3.0,) * ROUNDS
    assert order[:4] == ["slower", "faster", "faster", "slower"]


@pytest.mark.slow
@pytest.mark.parametrize("claim", COUNTED, ids=lambda claim: claim.name)
def test_a_claim_has_its_known_verdict(claim: Claim) -> None:
    row = claim.examine()

    assert row.holds == (ClaimStatus.DOES_NOT if claim.name in WRONG else ClaimStatus.HOLDS), row


@pytest.mark.parametrize("name", ["kernels/constant", "scoring/additive_memory", "kernels/narrow"])
def test_an_exact_or_drawn_number_is_reproducible(name: str) -> None:
    (claim,) = claims([name])

    assert claim.measure() == claim.measure()


# Counting


def test_layers_have_the_flops_of_the_document_s_table() -> None:
    sizes = Sizes(length=16, width=8, kernel=5)
    products = {"convolution": 5 * 16 * 8**2, "recurrence": 2 * 16 * 8**2, "self_attention": 2 * 16**2 * 8}

    assert {name: flops(lambda make=make: make(sizes)(inputs(sizes))) for name, make in LAYERS.items()} == {
        name: 2 * count for name, count in products.items()
    }


def test_the_longest_chain_counts_dependent_products() -> None:
    x, late = (torch.eye(3, requires_grad=True) for _ in range(2))
    total = x
    for _ in range(1500):
        total = total @ x

    assert longest_chain((x @ x) + (x @ x)) == 1
    assert longest_chain((x @ x) @ (x @ x)) == 2
    assert longest_chain(output := (x @ x @ x @ x) @ late) == 4
    assert longest_chain(output, late) == 1, "paths that end elsewhere are left out"
    assert longest_chain(total) == 1500


def shifted(x: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(x[:1]), x[:-1]])


def test_dependence_is_the_nonzero_jacobian_and_multiplies_along_layers() -> None:
    sizes, ones = Sizes(length=9, width=2), torch.ones(4, 2, dtype=torch.float64)
    layer, x = LAYERS["convolution"](sizes, torch.float64), inputs(sizes, torch.float64)
    once = dependence(layer, x).double()

    assert dependence(lambda x: x.cumsum(0), ones).tolist() == torch.ones(4, 4).tril().bool().tolist()
    assert dependence(shifted, ones).tolist() == torch.ones(3).diag(-1).bool().tolist()
    assert torch.equal(once @ once > 0, dependence(lambda x: layer(layer(x)), x))


def test_layers_are_counted_until_the_dependence_is_reached() -> None:
    x = torch.ones(5, 2, dtype=torch.float64)

    assert layers_until(lambda sees: bool(sees.all()), lambda x: x + shifted(x), x, most=8) == 9
    assert layers_until(lambda sees: bool(sees[4, 0]), lambda x: x + shifted(x), x, most=8) == 4


def test_the_largest_tensor_may_be_an_intermediate_result() -> None:
    assert largest_bytes(lambda: (torch.ones(10, 3) @ torch.ones(3, 10)).sum()) == 10 * 10 * 4


# Layers and decoders


def test_a_training_step_lowers_the_loss_of_its_own_batch() -> None:
    step = vision_step(16)
    losses = [float(step().detach()) for _ in range(6)]

    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_decoders_give_a_row_per_step_and_one_waits_for_the_context() -> None:
    waits, follows = (decoder(choice, steps=4)() for choice in (True, False))
    _, steps, width = waits.shape

    assert (steps, follows.shape[1:]) == (4, (4, 2 * width))
    assert not torch.allclose(waits, follows[..., :width])


# Trained models


@pytest.mark.slow
def test_a_shift_is_learned_with_positions_only() -> None:
    shares = {}
    for positions in ("none", "sinusoids"):
        with seeded(0) as random:
            model = Model(SmallConfig(positions))
            train(model, random, 200, 0.01)
            shares[positions] = accuracy(model, random)

    assert shares["none"] < 0.5 < 0.9 < shares["sinusoids"]


def test_a_seed_determines_the_training_and_torch_s_generator_is_unchanged() -> None:
    torch.manual_seed(5)
    expected, curves = torch.rand(1), []
    torch.manual_seed(5)
    for seed in (1, 1, 2):
        with seeded(seed) as random:
            curves.append(train(Model(SmallConfig()), random, 3, 0.01))

    assert curves[0] == curves[1] != curves[2]
    assert torch.equal(torch.rand(1), expected)


@pytest.mark.parametrize("positions", ["none", "learned", "relative", "sinusoids"])
@pytest.mark.parametrize("norms", ["pre", "post"])
def test_every_model_takes_twice_the_length_and_has_gradients_for_its_weights(positions: str, norms: str) -> None:
    with seeded(3) as random:
        model = Model(SmallConfig(positions, norms, blocks=2))
        loss(model, sequences(random, 2 * LENGTH, count=3)).backward()

    unused = {"learned"} - {positions}
    unused |= {"blocks.0.distances", "blocks.1.distances"} if positions != "relative" else set()
    assert {name for name, weight in model.named_parameters() if weight.grad is None} == unused
    assert isinstance(model.last, nn.LayerNorm if norms == "pre" else nn.Identity)


CONFIG = {"source_vocab": 11, "target_vocab": 13, "width": 16, "heads": 4, "ffn_width": 8, "encoder_blocks": 1,
          "decoder_blocks": 2, "decoding": "full"}  # fmt: skip


@pytest.mark.parametrize("head", range(4))
def test_a_removed_head_adds_nothing_to_the_output(head: int) -> None:
    source, lengths, target = torch.tensor([[1, 2, 3]]), torch.tensor([3]), torch.tensor([[4, 5]])
    random, calls = torch.Generator().manual_seed(1), []
    weights = {name: torch.randn(*shape, generator=random) for name, shape in shapes(CONFIG).items()}

    def silenced(query: Tensor, key: Tensor, value: Tensor, **options: object) -> Tensor:
        mixed = softmax_attention(query, key, value, **options)  # type: ignore[arg-type]
        calls.append(None)
        if len(calls) == 1:  # the encoder's only attention
            mixed[:, head] = 0
        return mixed

    actual = transformer(CONFIG, without(weights, "encoder.0.attention", head, 4))(source, lengths, target)

    torch.testing.assert_close(actual, transformer(CONFIG, weights, attention=silenced)(source, lengths, target))
    assert not torch.allclose(actual, transformer(CONFIG, weights)(source, lengths, target))


def test_every_head_is_listed_once_with_the_name_of_its_weights() -> None:
    assert len(set(heads(CONFIG))) == len(heads(CONFIG)) == 4 * (1 + 2 * 2)
    assert {f"{attention}.w_output" for attention, _ in heads(CONFIG)} <= set(shapes(CONFIG))


def importance(*changes: tuple[float, float]) -> Importance:
    """Heads with these mean changes of the losses: of choosing sentences, and of held-out ones."""
    spread = torch.linspace(-0.001, 0.001, 20)
    return {("a", place): (spread + known, spread * (place + 1) + held) for place, (known, held) in enumerate(changes)}


@pytest.mark.parametrize(
    ("changes", "least", "differs"),
    [
        ([(0.2, 0.3), (0.0, 0.01), (0.1, -5.0)], ClaimStatus.HOLDS, ClaimStatus.HOLDS),
        ([(0.2, 0.3), (0.21, 0.3)], ClaimStatus.DOES_NOT, ClaimStatus.UNCLEAR),
        ([(0.2, 0.3), (0.21, 0.2)], ClaimStatus.DOES_NOT, ClaimStatus.DOES_NOT),
    ],
    ids=["one can be pruned", "alike", "held-out sentences disagree"],
)
def test_heads_are_chosen_and_judged_by_different_sentences(
    changes: list[tuple[float, float]], least: ClaimStatus, differs: ClaimStatus
) -> None:
    heads = importance(*changes)

    assert ranked(heads)[-1] == ("a", max(range(len(changes)), key=lambda place: changes[place][0]))
    assert at_most(math.log1p(0.03)).judge(least_important(heads).interval) == least
    assert above(0).judge(difference_of_heads(heads).interval) == differs
