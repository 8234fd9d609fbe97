"""Modules with weights of their own: right ones pass, and each mistake of learners fails and is named."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from learners import MISTAKES, Encoder, EncoderBlock, Grouped, Head, Right, SelfAttention, with_mistake
from torch import Tensor, nn

import attnsuite
from attnsuite.model import Outcome, Status
from attnsuite.registry import from_function

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
        "maps/square_biased",
        "maps/one_sequence",
        "heads/many",
    ),
    *("mask/whole", "mask/by_item", "mask/empty_rows", "causal/square", "numerics/low_scores"),
)
"""Cases of modules with three inputs."""
ONE = ("causal/one_sequence", "maps/causal_sequence", "causal/long_sequence", "numerics/one_sequence")
"""Cases of causal modules with one input."""
STEPS = "documents/doc-001/mha-shapes/step_*"
GROUPED = (
    "maps/grouped",
    "heads/one_key_head",
    "maps/biased_grouped",
    "causal/grouped",
    "plain/one_sequence",
    "mask/whole",
)
OF_ONE_HEAD = ("heads/narrow_causal", "heads/narrow_long")
OF_MODELS = ("plain/usual", "plain/square", "padding/one_item")
CASES = {
    Right: THREE,
    SelfAttention: ONE,
    Grouped: GROUPED,
    Head: OF_ONE_HEAD,
    EncoderBlock: OF_MODELS,
    Encoder: OF_MODELS,
}
"""The cases of a class and of those with a mistake in it."""


def outcomes(made: type[nn.Module], *cases: str) -> list[Outcome]:
    return attnsuite.check(made, cases=cases, dtypes="float32")


@pytest.mark.parametrize("right", CASES)
def test_a_right_module_passes(right: type[nn.Module]) -> None:
    said = outcomes(right, *CASES[right])

    assert {each.case for each in said if each.status == Status.PASSED} == {*CASES[right]}


@pytest.mark.parametrize("mistake", ["dropout in evaluation", "dropout of the output in evaluation"])
def test_dropout_that_never_ends_fails_and_is_described(mistake: str) -> None:
    made = with_mistake(mistake)

    assert all(each.fails for each in outcomes(made, "plain/usual", "plain/one_sequence", "heads/many"))
    says = from_function(made, "multi_head_attention").declaration.conversion
    assert says.endswith("dropout in evaluation: two equal calls differ, so something is random")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake: str) -> None:
    base, mutant, _ = MISTAKES[mistake]
    failed = [each for each in outcomes(with_mistake(mistake), *CASES[base]) if each.fails]

    assert failed
    assert mutant in {name for each in failed for name in each.diagnosis}


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
