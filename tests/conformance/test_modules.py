"""Modules with weights of their own: right ones pass, and each mistake of learners fails and is named."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from torch import nn

import attnsuite
from attnsuite.model import Outcome, Status
from attnsuite.registry import from_function

LEARNERS = runpy.run_path(str(Path(__file__).parents[1] / "submissions" / "learners.py"))
THREE = (
    *(
        "plain/usual",
        "plain/square",
        "plain/one_sequence",
        "output_map/square_biased",
        "output_map/one_sequence",
        "heads/many",
    ),
    *("mask/whole", "mask/by_item", "mask/empty_rows", "causal/square", "numerics/low_scores"),
)
"""Cases of modules with three inputs."""
ONE = ("causal/one_sequence", "output_map/causal_sequence", "causal/long_sequence", "numerics/one_sequence")
"""Cases of causal modules with one input."""
NAMES = {
    "SplitByView": "split_by_reshape",
    "ScaledByAllFeatures": "full_width_scale",
    "Unscaled": "unscaled",
    "MergedWithoutPermute": "merged_by_reshape",
    "SoftmaxOverDimension1": "softmax_over_dimension_1",
    "SoftmaxOverQueries": "softmax_over_queries",
    "MaskHidesOnes": "inverted_mask",
    "FiniteFill": "fills_with_minus_10000",
    "IgnoresMask": "ignored_mask",
    "SharedProjection": "key_weights_by_query_weights",
    "KeysForValues": "keys_for_values",
    "WithoutOutputMap": "output_map_left_out",
    "SelfExcluded": "strictly_past",
    "SeesTheNext": "one_future_key",
    "SeesTheFuture": "future",
    "SelfScaledByAllFeatures": "full_width_scale",
    "SelfSplitByView": "split_by_reshape",
    "SelfMergedWithoutPermute": "merged_by_reshape",
    "SelfShared": "key_weights_by_query_weights",
}
"""The mutant that each mistake is called by."""


def outcomes(made: type[nn.Module], *cases: str) -> list[Outcome]:
    return attnsuite.check(made, cases=cases, dtypes="float32")


@pytest.mark.parametrize(("name", "cases"), [("Right", THREE), ("SelfAttention", ONE)])
def test_a_right_module_passes(name: str, cases: tuple[str, ...]) -> None:
    said = outcomes(LEARNERS[name], *cases)

    assert {each.case for each in said if each.status == Status.PASSED} == {*cases}


def test_dropout_that_never_ends_fails_and_is_described() -> None:
    made = LEARNERS["DropsInEvaluation"]

    assert all(each.fails for each in outcomes(made, "plain/usual", "plain/one_sequence", "heads/many"))
    says = from_function(made, "multi_head_attention").declaration.conversion
    assert says.endswith("two equal calls in evaluation mode differ: something is random, as dropout that never ends")


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_is_named(name: str) -> None:
    is_causal = issubclass(LEARNERS[name], LEARNERS["SelfAttention"])
    failed = [each for each in outcomes(LEARNERS[name], *(ONE if is_causal else THREE)) if each.fails]

    assert failed
    assert {mutant for each in failed for mutant in each.diagnosis} >= {NAMES[name]}
