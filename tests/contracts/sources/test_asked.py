"""What is asked of an example is really asked: zeros pass none, and who gets wrong what it is about fails it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from attnsuite.cases import Case, Conventions
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.contracts import contract, names
from attnsuite.contracts.steps._randomised import DocumentedMean
from attnsuite.judging.shares import FALSE_ALARM, MAX_TESTS, exactly, seeds_that_tell
from attnsuite.judging.verdicts import Verdict
from attnsuite.worker import run_calls

Function = Callable[..., Any]

NEG_INF = "documents/doc-003/3.5.1-neg-inf-before-softmax/masked_scores"
AFTER = "documents/doc-003/3.5.1-mask-after-softmax"
STRICT = "documents/doc-002/causal-strict/weights"
LENGTH_ZERO = "documents/doc-004/11.3.2.1-literal-lens-zero/weights"
EMPTY_ROW = "documents/doc-001/sdpa-empty-row/output"
NO_SUPPORT = "documents/doc-004/11.2-no-support/y_hat"
SATURATED = "documents/doc-004/11.1-softmax-gradient-saturates/d_weight0_d_score1"


def named(of: str, name: str) -> Case:
    return next(case for case in contract(of).cases() if case.name == name)


def verdict(case: Case, function: Function, dtype: str = "", conventions: Conventions | None = None) -> Verdict:
    """The judgement on a function that is asked a case."""
    calls = case.calls(dtype or case.dtypes[0])
    truth = case.expected(calls, conventions or {})
    return case.verdict(calls, run_calls(function, calls), truth)


def times_zero(function: Function, is_model: bool) -> Function:
    """A computation that answers zeros of the due shape."""

    def zeros(*given: Any, **named: Any) -> Any:
        return 0 * function(*given, **named)

    def factory(*given: Any, **named: Any) -> Any:
        return partial(times_zero(function(*given, **named), is_model=False))

    return factory if is_model else zeros


@pytest.mark.slow
@pytest.mark.parametrize("of", names())
def test_zeros_pass_no_example_and_what_is_right_passes_all(of: str) -> None:
    correct = next(iter(contract(of).controls().values()))
    zeros = times_zero(correct, contract(of).is_model)

    for case in contract(of).cases():
        if case.family == "documents" and not isinstance(case, BadInputCase):
            assert verdict(case, correct).status == "passed", case.name
            assert verdict(case, zeros).status == "failed", case.name


# Empty rows: the documents' own code, and what the contract has there


def filled(scores: Tensor, *, number: float, attn_mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
    """Weights of scores over which a number is written where a query may not attend, as the documents have it."""
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
"""The code of the documents whose example leaves a row empty, and the convention that it would declare."""


@pytest.mark.parametrize(("of", "name"), OWN)
def test_an_empty_row_is_judged_by_the_convention_that_is_declared(of: str, name: str) -> None:
    own, convention = OWN[of, name]
    case, correct = named(of, name), next(iter(contract(of).controls().values()))

    assert verdict(case, own, conventions={"empty_row": convention}).status == "passed"
    assert verdict(case, own).status == "failed", "zeros are due of who declares nothing"
    assert verdict(case, correct).status == "passed"
    assert verdict(case, correct, conventions={"empty_row": convention}).status == "failed"


@pytest.mark.parametrize(("of", "name"), OWN)
def test_the_row_in_question_is_held_against_the_document(of: str, name: str) -> None:
    own, convention = OWN[of, name]

    def off(*given: Any, **named: Any) -> Tensor:
        found: Tensor = own(*given, **named).clone()
        rows = found.reshape(-1, found.shape[-1])
        rows[0] = rows[0].nan_to_num(0.0) + 1e-6
        return found

    assert verdict(named(of, name), off, conventions={"empty_row": convention}).status == "failed"


def test_what_a_convention_leaves_open_is_not_asked() -> None:
    weights = contract("attention_weights")
    declared = {
        case.name: weights.undefined_reason(case, frozenset(), {"empty_row": "mean"}) for case in weights.cases()
    }

    open_ = {name for name, says in declared.items() if says}
    assert open_ == {"mask/with_minus_infinity", "numerics/minus_infinity"}
    assert not any(weights.undefined_reason(case, frozenset(), {"empty_row": "nan"}) for case in weights.cases())


# What an example is about


def test_weights_that_are_not_masked_after_the_softmax_are_wrong() -> None:
    def without_a_mask(scores: Tensor, *, is_causal: bool = False) -> Tensor:
        return scores.softmax(-1)

    for quantity in ("masked_weights", "row_sums", "renormalised", "renormalised_row_sums"):
        assert verdict(named("attention_weights", f"{AFTER}/{quantity}"), without_a_mask).status == "failed"


@pytest.mark.parametrize("number", [-1e9, -1e6, 0.0])
def test_a_finite_number_is_not_minus_infinity(number: float) -> None:
    def scores(query: Tensor, key: Tensor, *, score: str, attn_mask: Tensor) -> Tensor:
        return (query @ key.mT).masked_fill(~attn_mask, number)

    for name in (NEG_INF, "documents/doc-000/2-neg-inf-mask/mask"):
        assert verdict(named("attention_scores", name), scores).status == "failed"
        assert verdict(named("attention_scores", name), partial(scores_of_dots)).status == "passed"


def scores_of_dots(query: Tensor, key: Tensor, *, score: str, attn_mask: Tensor) -> Tensor:
    return (query @ key.mT).masked_fill(~attn_mask, -torch.inf)


def test_a_derivative_that_is_nearly_zero_is_told_from_zero() -> None:
    def in_float32(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
        scores = query.float() @ key.float().mT
        return (scores.softmax(-1) @ value.float()).to(query.dtype)

    def right(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
        return (query @ key.mT).softmax(-1) @ value

    case = named("attention", SATURATED)
    assert case.dtypes == ("float64",)
    assert verdict(case, right).status == "passed"
    assert verdict(case, in_float32).detail.startswith("gradient of key[")


# Seeds


def test_so_many_seeds_are_asked_that_the_likeliest_answer_alone_is_accused() -> None:
    told = 0
    for expected in contract("recurrent_gradient").cases():
        if not isinstance(expected, DocumentedMean) or len({each.number for each in possible(expected)}) < 2:
            continue
        likeliest = max(possible(expected), key=lambda each: shares_of(expected)[each.number])
        always: Mapping[str, Tensor] = {"answer": torch.from_numpy(likeliest.expected.numbers)}

        def stubborn(*given: Tensor, _answer: Tensor = always["answer"], **named: Any) -> Tensor:
            return _answer.to(given[0].dtype).clone()

        assert verdict(expected, stubborn, "float64").status == "failed", expected.name
        told += 1
    assert told == 2, "the other two have one answer each"


def possible(case: DocumentedMean) -> Any:
    return case.expected(case.calls("float64"), {})


def shares_of(case: DocumentedMean) -> dict[int, float]:
    """The probability of each answer by its number."""
    found: dict[int, float] = {}
    for each in possible(case):
        found[each.number] = found.get(each.number, 0.0) + each.probability
    return found


@pytest.mark.parametrize(("likeliest", "statistics"), [(0.5, 3), (0.75, 3), (0.9, 7)])
def test_fewer_seeds_would_not_tell(likeliest: float, statistics: int) -> None:
    tail = FALSE_ALARM / MAX_TESTS / statistics / 2
    enough = seeds_that_tell(likeliest, statistics)

    for count, accused in ((enough, True), (enough - 1, False)):
        _, most = exactly("answers are the likeliest", count, count, likeliest).limits(tail)
        assert (count > most) == accused
