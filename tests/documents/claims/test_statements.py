"""Claims that are counted or drawn come out as they should, and turned round they come out the other way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest

from attnsuite.documents.claims import every
from attnsuite.documents.claims.claim import Claim, Range, at_least, at_most, exactly, power
from attnsuite.model import Claimed, Evidence, Holds

WRONG = {
    "causal/own",
    "dropout_factor/one_over_p",
    "image_size/flops_of_patches",
    "keys_and_values/widths",
    "kernels/similar",
    "normalisation/layer",
    "notes/channels",
    "notes/feed_forward",
    "notes/masked",
    "notes/sines",
    "softmax/never_vanishes",
    "unscaled_scores/same",
}
"""What documents say, and what is not so."""
TURNED: Mapping[str, Range] = {
    **{f"complexity/{layer}_{variable}_flops": power(other) for layer, variable, other in (
        ("convolution", "length", 2), ("convolution", "width", 1), ("convolution", "kernel", 2),
        ("recurrence", "length", 2), ("recurrence", "width", 1),
        ("self_attention", "length", 1), ("self_attention", "width", 2),
    )},
    "dropout_factor/one_over_p": exactly(1 / 0.9, 1e-6),
    "dropout_factor/one_over_kept": exactly(1.0, 1e-6),
    "image_size/attention_alone": power(1),
    "image_size/flops_of_patches": power(1),
    "initialisation/stable": at_most(1),
    "initialisation/any_width": power(1),
    "kernels/similar": at_least(1),
    "kernels/constant": at_least(0.01),
    "kernels/narrow": at_most(1),
    "kernels/consistent": at_most(1),
    "kernels/translation": at_least(0.01),
    "keys_and_values/counts": exactly(5),
    "keys_and_values/widths": exactly(5),
    "norm_placement/gradients": at_most(1),
    "normalisation/layer": exactly(0),
    "causal/later": exactly(8),
    "causal/own": exactly(8),
    "notes/feed_forward": exactly(0),
    "notes/channels": exactly(3),
    "notes/sines": exactly(1),
    "notes/masked": at_most(0.13),
    "notes/masked_of_chosen": at_least(0.13),
    "pooling/convex": at_least(0.01),
    "pooling/average": at_least(0.01),
    "pooling/query_cancels": at_least(0.01),
    "pooling/key_norms": at_least(0.1),
    "normalisation/batch": exactly(0),
    "path_length/convolution_kernel": power(0),
    "path_length/convolution_length": power(0),
    "path_length/recurrence_length": power(0),
    "path_length/self_attention_length": power(1),
    "path_length/two_convolutions": exactly(1),
    "positions/order_with": at_most(1e-10),
    "positions/order_without": at_least(0.01),
    "positions/shift_is_a_rotation": at_least(0.01),
    "scoring/additive_features": exactly(1),
    "scoring/additive_memory": at_most(1),
    "scoring/waiting_steps": at_most(1),
    "sequential_steps/convolution": power(1),
    "sequential_steps/recurrence": power(0),
    "sequential_steps/self_attention": power(1),
    "softmax/never_vanishes": exactly(0),
    "softmax/small_not_zero": exactly(0),
    "softmax/scaling_keeps_gradients": at_most(1),
    "softmax/scaled_at_any_width": at_most(0.5),
    **{f"softmax/variance_{width}": at_least(1.1) for width in (16, 64, 256)},
    "truncation/growing": at_most(1),
    "truncation/not_better": at_most(0.97),
    "truncation/unbiased": at_most(0.9),
    "truncation/variance": exactly(0),
    "truncation/vanishing": at_least(1),
    "unscaled_scores/causal_ways": at_least(0.01),
    "unscaled_scores/same": at_least(0.01),
}  # fmt: skip
"""The opposite of each claim: where its number would have to lie."""
COUNTED = [claim for claim in every() if claim.evidence in (Evidence.EXACT, Evidence.DRAWN)]


@cache
def examined(claim: Claim) -> Claimed:
    return claim.examine()


def test_every_claim_that_is_counted_or_drawn_is_turned_round_here() -> None:
    assert set(TURNED) == {claim.name for claim in COUNTED}


@pytest.mark.slow
@pytest.mark.parametrize("claim", COUNTED, ids=lambda claim: claim.name)
def test_a_claim_comes_out_as_it_is_known_to_and_turned_round_the_other_way(claim: Claim) -> None:
    found = examined(claim)
    assert found.value is not None, found.detail
    assert found.low is not None
    assert found.high is not None

    turned = TURNED[claim.name]
    inside = turned.low <= found.low and found.high <= turned.high
    outside = found.high < turned.low or turned.high < found.low

    wrong = claim.name in WRONG
    assert found.holds == (Holds.DOES_NOT if wrong else Holds.HOLDS), found
    assert (inside, outside) == (wrong, not wrong), found


@pytest.mark.parametrize("name", ["kernels/constant", "scoring/additive_memory", "sequential_steps/recurrence"])
def test_a_number_that_is_counted_is_the_same_each_time(name: str) -> None:
    (claim,) = (each for each in every() if each.name == name)

    assert claim.measure().of == claim.measure().of


def test_a_number_that_is_drawn_is_the_same_each_time() -> None:
    (claim,) = (each for each in every() if each.name == "kernels/narrow")

    assert claim.measure().samples == claim.measure().samples
