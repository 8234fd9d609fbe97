"""Modules with weights of their own: right ones pass, and each mistake of learners fails and is named."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from torch import Tensor, nn

import attnsuite
from attnsuite.model import Outcome, Status
from attnsuite.registry import from_function

LEARNERS = runpy.run_path(str(Path(__file__).parents[1] / "submissions" / "learners.py"))
DOCUMENTS = Path(__file__).parents[2] / "examples" / "documents"
SEEDED = {
    "SelfAttention_v1": "3.4.2-self-attention-v1",
    "SelfAttention_v2": "3.4.2-self-attention-v2",
    "CausalAttention": "3.5.3-causal-attention-class",
    "MultiHeadAttentionWrapper": "3.6.1-head-wrapper",
    "MultiHeadAttention": "3.6.2-multi-head-split",
}
"""The classes of doc-003, and the example whose rows each prints under its seed."""
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
STEPS = "documents/doc-001/mha-shapes/step_*"
NAMES = {
    "SplitByView": "split_by_reshape",
    "ScaledByAllFeatures": "full_width_scale",
    "Unscaled": "unscaled",
    "MergedWithoutPermute": "merged_by_reshape",
    "SoftmaxOverDimension1": "softmax_over_dimension_1",
    "SoftmaxOverQueries": "softmax_over_queries",
    "MaskHidesOnes": "inverts_bool_mask",
    "FiniteFill": "fills_with_minus_10000",
    "IgnoresMask": "ignores_bool_mask",
    "SharedProjection": "key_weights_by_query_weights",
    "KeysForValues": "keys_for_values",
    "WithoutOutputMap": "output_map_left_out",
    "SelfExcluded": "excludes_the_diagonal",
    "SeesTheNext": "allows_one_future_key",
    "SeesTheFuture": "looks_ahead",
    "SelfScaledByAllFeatures": "full_width_scale",
    "SelfSplitByView": "split_by_reshape",
    "SelfMergedWithoutPermute": "merged_by_reshape",
    "SelfShared": "key_weights_by_query_weights",
    "SwappedQueriesAndKeys": "swapped_query_and_key_weights",
    "FiniteFillAndDimension1": "softmax_over_dimension_1",
    "DropsInEvaluation": "dropout_in_evaluation",
    "DropsOutput": "output_dropout_in_evaluation",
    "Tiled": "tiled_key_heads",
    "HeadScaledByInputs": "scaled_by_query_width",
    "PreNormEncoderBlock": "pre_norm",
    "SwappedNormsEncoderBlock": "swapped_norms",
    "SwappedQueriesAndKeysEncoderBlock": "swapped_query_and_key_weights",
    "EncoderFromOne": "positions_from_one",
}
"""The mutant that each mistake is called by."""
GROUPED = (
    "output_map/grouped",
    "heads/one_key_head",
    "output_map/biased_grouped",
    "causal/grouped",
    "plain/one_sequence",
    "mask/whole",
)
OF_ONE_HEAD = ("widths/one_head_causal", "widths/one_head_long")
OF_MODELS = ("plain/usual", "plain/square", "padding/one_item")
CASES = {
    ("Right",): THREE,
    ("SelfAttention",): ONE,
    ("Grouped",): GROUPED,
    ("Head",): OF_ONE_HEAD,
    ("EncoderBlock", "Encoder"): OF_MODELS,
}
"""The cases of classes that inherit from these; later ones count."""


def cases_of(name: str) -> tuple[str, ...]:
    """The cases of a class of learners."""
    bases = {base.__name__ for base in LEARNERS[name].__mro__}
    return [cases for names, cases in CASES.items() if bases & {*names}][-1]


def outcomes(made: type[nn.Module], *cases: str) -> list[Outcome]:
    return attnsuite.check(made, cases=cases, dtypes="float32")


@pytest.mark.parametrize("name", ["Right", "SelfAttention", "Grouped", "Head", "EncoderBlock", "Encoder"])
def test_a_right_module_passes(name: str) -> None:
    said = outcomes(LEARNERS[name], *cases_of(name))

    assert {each.case for each in said if each.status == Status.PASSED} == {*cases_of(name)}


@pytest.mark.parametrize("name", ["DropsInEvaluation", "DropsOutput"])
def test_dropout_that_never_ends_fails_and_is_described(name: str) -> None:
    made = LEARNERS[name]

    assert all(each.fails for each in outcomes(made, "plain/usual", "plain/one_sequence", "heads/many"))
    says = from_function(made, "multi_head_attention").declaration.conversion
    assert says.endswith("dropout in evaluation: two equal calls differ, so something is random")


@pytest.mark.parametrize("name", NAMES)
def test_a_mistake_is_named(name: str) -> None:
    failed = [each for each in outcomes(LEARNERS[name], *cases_of(name)) if each.fails]

    assert failed
    assert {mutant for each in failed for mutant in each.diagnosis} >= {NAMES[name]}


# The documents' classes


@pytest.mark.parametrize(("name", "example"), SEEDED.items(), ids=SEEDED)
@pytest.mark.filterwarnings("ignore:The use of `x.T`:UserWarning")  # the document has keys.T
def test_a_class_of_doc_003_prints_the_rows_of_its_seed(name: str, example: str) -> None:
    made = runpy.run_path(str(DOCUMENTS / "doc_003.py"))[name]

    (said,) = outcomes(made, f"documents/doc-003/{example}/drawn")

    assert said.status == Status.PASSED


def test_the_printed_rows_are_compared() -> None:
    class Unscaled(runpy.run_path(str(DOCUMENTS / "doc_003.py"))["SelfAttention_v2"]):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            return (self.W_query(x) @ self.W_key(x).mT).softmax(-1) @ self.W_value(x)

    (said,) = outcomes(Unscaled, "documents/doc-003/3.4.2-self-attention-v2/drawn")

    assert (said.status, said.diagnosis) == (Status.FAILED, ("unscaled",))


def test_the_keys_of_doc_001_are_judged_by_name() -> None:
    wrong = runpy.run_path(str(DOCUMENTS / "doc_001.py"))["MultiHeadAttention"]

    class Right(wrong):  # type: ignore[misc, valid-type]
        """Divides by the root of a head's width; its K_split is that of the queries."""

        def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
            steps: dict[str, Tensor] = super().forward(Q, K, V, mask)
            scores = steps["scores"] * self.n_head**0.5
            weights = scores.softmax(-1)
            heads = weights @ steps["V_split"]
            back = heads.transpose(1, 2)
            later = {"scores": scores, "attention": weights, "x_raw": heads, "x_rsh1": back, "x_rsh2": back.flatten(2)}
            return {**steps, **later, "K_split": steps["Q_split"], "x": self.lin_O(back.flatten(2))}

    said = {each.case.partition("step_")[2]: each for each in outcomes(Right, STEPS)}

    assert {each.status for each in outcomes(wrong, STEPS)} == {Status.FAILED}
    assert said["split_key"].detail.startswith("split_key")
    assert {name for name, each in said.items() if each.fails} == {"split_key"}
