"""Cases of the documents' examples can fail: zeros and the mistake that an example is about do not pass."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from builders import case_named
from torch import Tensor

from attnsuite.cases import Case, Conventions
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.contracts import contract, names
from attnsuite.contracts.steps.recurrent_gradient import DocumentedMean
from attnsuite.judging.shares import FALSE_REJECTION, MAX_TESTS, exactly, min_seeds
from attnsuite.judging.verdicts import Verdict
from attnsuite.worker.calling import run_calls

Function = Callable[..., Any]

NEG_INF = "documents/doc-003/3.5.1-neg-inf-before-softmax/masked_scores"
AFTER = "documents/doc-003/3.5.1-mask-after-softmax"
STRICT = "documents/doc-002/causal-strict/weights"
LENGTH_ZERO = "documents/doc-004/11.3.2.1-literal-lens-zero/weights"
EMPTY_ROW = "documents/doc-001/sdpa-empty-row/output"
NO_SUPPORT = "documents/doc-004/11.2-no-support/y_hat"
SATURATED = "documents/doc-004/11.1-softmax-gradient-saturates/d_weight0_d_score1"


def verdict(case: Case, function: Function, dtype: str = "", conventions: Conventions | None = None) -> Verdict:
    calls = case.calls(dtype or case.dtypes[0])
    expected = case.expected(calls, conventions or {})
    return case.verdict(calls, run_calls(function, calls), expected)


def times_zero(function: Function, is_model: bool) -> Function:
    def zeros(*inputs: Any, **options: Any) -> Any:
        return 0 * function(*inputs, **options)

    def factory(*inputs: Any, **options: Any) -> Any:
        return partial(times_zero(function(*inputs, **options), is_model=False))

    return factory if is_model else zeros


@pytest.mark.slow
@pytest.mark.parametrize("of", names())
def test_zeros_pass_no_example_and_the_control_passes_all(of: str) -> None:
    correct = next(iter(contract(of).controls().values()))
    zeros = times_zero(correct, contract(of).is_model)

    for case in contract(of).cases():
        if case.family == "documents" and not isinstance(case, BadInputCase):
            assert verdict(case, correct).status == "passed", case.name
            assert verdict(case, zeros).status == "failed", case.name


# Empty rows: the documents' own code


def filled(scores: Tensor, *, number: float, attn_mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
    """Scores with a number in place of hidden ones, as in the documents."""
    if lengths is not None:
        keys = torch.arange(scores.shape[-1])
        attn_mask = keys < lengths.reshape(*lengths.shape, *[1] * (scores.dim() - lengths.dim()))
    return scores if attn_mask is None else scores.masked_fill(~attn_mask, number)


def masked_softmax(scores: Tensor, *, number: float, **rules: Any) -> Tensor:
    return filled(scores, number=number, **rules).softmax(-1)


def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    scores = query @ key.mT / query.shape[-1] ** 0.5
    return masked_softmax(scores, number=-1e9, attn_mask=attn_mask) @ value


def boxcar(query: Tensor, key: Tensor, value: Tensor, *, kernel: str) -> Tensor:
    kernels = ((query[:, None] - key).abs() < 1).to(query.dtype)
    return kernels / kernels.sum(-1, keepdim=True) @ value


OWN = {
    ("attention", EMPTY_ROW): (attention, "mean"),
    ("attention_weights", STRICT): (partial(masked_softmax, number=-torch.inf), "nan"),
    ("attention_weights", LENGTH_ZERO): (partial(masked_softmax, number=-1e6), "mean"),
    ("kernel_pooling", NO_SUPPORT): (boxcar, "nan"),
}
"""The documents' code for examples with an empty row, and the convention of that code."""


@pytest.mark.parametrize(("of", "name"), OWN)
def test_an_empty_row_is_judged_by_the_convention_that_is_declared_and_by_the_document(of: str, name: str) -> None:
    own, convention = OWN[of, name]
    case, correct = case_named(of, name), next(iter(contract(of).controls().values()))

    def off(*inputs: Any, **options: Any) -> Tensor:
        output: Tensor = own(*inputs, **options).clone()
        rows = output.reshape(-1, output.shape[-1])
        rows[0] = rows[0].nan_to_num(0.0) + 1e-6
        return output

    declared = {"empty_row": convention}
    assert [verdict(case, function, conventions=declared).status for function in (own, correct, off)] == [
        *("passed", "failed", "failed"),
    ]
    assert verdict(case, own).status == "failed", "without a convention zeros are expected"
    assert verdict(case, correct).status == "passed"


def test_cases_without_a_result_under_a_convention_are_excluded() -> None:
    weights = contract("attention_weights")
    declared = {
        case.name: weights.undefined_reason(case, frozenset(), {"empty_row": "mean"}) for case in weights.cases()
    }

    undefined = {name for name, says in declared.items() if says}
    assert undefined == {"mask/with_minus_infinity", "numerics/minus_infinity"}
    assert not any(weights.undefined_reason(case, frozenset(), {"empty_row": "nan"}) for case in weights.cases())


# The mistake of an example


def test_weights_that_are_not_masked_after_the_softmax_fail() -> None:
    def without_a_mask(scores: Tensor, *, is_causal: bool = False) -> Tensor:
        return scores.softmax(-1)

    for quantity in ("masked_weights", "row_sums", "renormalised", "renormalised_row_sums"):
        assert verdict(case_named("attention_weights", f"{AFTER}/{quantity}"), without_a_mask).status == "failed"


@pytest.mark.parametrize("number", [-1e9, -1e6, 0.0])
def test_a_finite_number_is_not_minus_infinity(number: float) -> None:
    def scores(query: Tensor, key: Tensor, *, score: str, attn_mask: Tensor) -> Tensor:
        return (query @ key.mT).masked_fill(~attn_mask, number)

    def right(query: Tensor, key: Tensor, *, score: str, attn_mask: Tensor) -> Tensor:
        return (query @ key.mT).masked_fill(~attn_mask, -torch.inf)

    for name in (NEG_INF, "documents/doc-000/2-neg-inf-mask/mask"):
        assert verdict(case_named("attention_scores", name), scores).status == "failed"
        assert verdict(case_named("attention_scores", name), right).status == "passed"


def test_a_saturated_derivative_may_be_that_of_a_sigmoid_but_not_that_of_smaller_scores() -> None:
    def right(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
        return (query @ key.mT).softmax(-1) @ value

    def sigmoid(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
        first = (query @ (key[..., :1, :] - key[..., 1:, :]).mT).sigmoid()
        return first * value[..., :1, :] + (1 - first) * value[..., 1:, :]

    def damped(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
        smaller = (query @ key.mT / 4).softmax(-1) @ value
        return right(query, key, value).detach() + smaller - smaller.detach()

    case = case_named("attention", SATURATED)
    assert case.dtypes == ("float64",)
    assert verdict(case, right).status == verdict(case, sigmoid).status == "passed"
    assert verdict(case, damped).detail.startswith("gradient of key[")


# Seeds


def test_a_constant_output_fails_by_the_number_of_seeds() -> None:
    distinguished = 0
    for case in contract("recurrent_gradient").cases():
        outputs: Any = case.expected(case.calls("float64"), {}) if isinstance(case, DocumentedMean) else ()
        probabilities: dict[int, float] = {}
        for possible in outputs:
            probabilities[possible.number] = probabilities.get(possible.number, 0.0) + possible.probability
        if len(probabilities) < 2:
            continue
        likeliest = max(outputs, key=lambda output: probabilities[output.number])
        output = torch.from_numpy(likeliest.expected.numbers)

        def constant(*inputs: Tensor, _output: Tensor = output, **options: Any) -> Tensor:
            return _output.to(inputs[0].dtype).clone()

        assert verdict(case, constant, "float64").status == "failed", case.name
        distinguished += 1
    assert distinguished == 2, "the other two have one output each"


@pytest.mark.parametrize(("likeliest", "statistics"), [(0.5, 3), (0.75, 3), (0.9, 7)])
def test_fewer_seeds_would_not_distinguish(likeliest: float, statistics: int) -> None:
    tail = FALSE_REJECTION / MAX_TESTS / statistics / 2
    enough = min_seeds(likeliest, statistics)

    for count, accused in ((enough, True), (enough - 1, False)):
        _, most = exactly("answers are the likeliest", count, count, likeliest).limits(tail)
        assert (count > most) == accused
