"""Answers are judged by the declared conventions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from checks import Function, about, check, only, scores_of, statuses
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa


def with_empty_rows_of(value_of_empty: float, kinds: Mapping[str, float] | None = None) -> Function:
    """Correct attention whose empty rows hold this, or what `kinds` says for boolean and float masks."""

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        output = sdpa(query, key, value, attn_mask=attn_mask)
        if attn_mask is None:
            return output
        boolean = attn_mask.dtype == torch.bool
        closed = ~attn_mask if boolean else attn_mask == -math.inf
        empty = closed.all(-1, keepdim=True).expand(*output.shape[:-1], 1)
        filling = value_of_empty if kinds is None else kinds["bool_mask" if boolean else "float_mask"]
        return output.masked_fill(empty, filling)

    return attention


EMPTY_ROWS = ("empty_row/bool", "empty_row/float")
NAN_IN_FLOAT = with_empty_rows_of(0.0, {"bool_mask": 0.0, "float_mask": math.nan})


@pytest.mark.parametrize(
    ("function", "declared", "passing"),
    [
        (with_empty_rows_of(0.0), None, {"bool", "float"}),
        (with_empty_rows_of(0.0), "zeros", {"bool", "float"}),
        (with_empty_rows_of(0.0), "nan", set()),
        (with_empty_rows_of(math.nan), None, set()),
        (with_empty_rows_of(math.nan), "nan", {"bool", "float"}),
        (with_empty_rows_of(math.nan), "mean", set()),
        (NAN_IN_FLOAT, {"float_mask": "nan"}, {"bool", "float"}),
        (NAN_IN_FLOAT, {"bool_mask": "nan"}, set()),
        (NAN_IN_FLOAT, "nan", {"float"}),
    ],
)
def test_empty_rows_are_judged_by_the_declared_convention(function: Function, declared: Any, passing: set[str]) -> None:
    conventions = {} if declared is None else {"empty_row": declared}

    outcomes = check(function, *EMPTY_ROWS, conventions=conventions)

    assert {outcome.case.partition("/")[2] for outcome in outcomes if outcome.status == "passed"} == passing
    assert statuses(outcomes) <= {"passed", "wrong"}


def test_the_mean_in_empty_rows_may_be_declared() -> None:
    def mean(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
        scores = scores_of(query, key).masked_fill(~attn_mask, -1e30)
        return scores.softmax(-1) @ value

    assert only(check(mean, "empty_row/bool", conventions={"empty_row": "mean"})).status == "passed"
    assert only(check(mean, "empty_row/bool")).status == "wrong"


def test_nan_by_convention_hides_no_other_nan() -> None:
    function = with_empty_rows_of(math.nan)

    def all_nan(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        return function(query, key, value, attn_mask=attn_mask) * math.nan

    outcome = only(check(all_nan, "empty_row/bool", conventions={"empty_row": "nan"}))

    assert outcome.status == "wrong"


def test_gradients_of_empty_rows_are_not_asked_where_nan_is_the_convention() -> None:
    outcomes = check(with_empty_rows_of(math.nan), "empty_row_gradients", conventions={"empty_row": "nan"})

    reasons = {outcome.detail for outcome in outcomes if outcome.status == "declined"}

    assert "its convention answers NaN in empty rows, which leaves the gradients undefined" in reasons


def lower_right(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    queries, keys = query.shape[-2], key.shape[-2]
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries) if is_causal else None
    return sdpa(query, key, value, attn_mask=mask)


def test_causal_alignment_is_judged_by_the_declared_convention() -> None:
    cases = ("causal/more_keys", "causal/more_queries", "causal/one_query")

    assert statuses(check(lower_right, *cases, conventions={"causal": "lower_right"})) == {"passed"}
    assert statuses(check(lower_right, *cases)) == {"wrong"}
    assert statuses(check(sdpa, *cases, conventions={"causal": "lower_right"})) == {"wrong"}
    assert statuses(check(sdpa, *cases)) == {"passed"}


def test_an_inverted_boolean_mask_is_judged_by_the_declared_convention() -> None:
    def may_not(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
        return sdpa(query, key, value, attn_mask=~attn_mask if attn_mask.dtype == torch.bool else attn_mask)

    cases = ("bool_mask/random", "bool_mask/padding", "empty_row/bool")

    assert statuses(check(may_not, *cases, conventions={"bool_mask": "may_not"})) == {"passed"}
    assert statuses(check(may_not, *cases)) == {"wrong"}
    assert statuses(check(sdpa, *cases, conventions={"bool_mask": "may_not"})) == {"wrong"}


@pytest.mark.parametrize(
    ("conventions", "complaint"),
    [
        (
            {"masks": "inverted"},
            "'masks' is not a convention; there are: bool_mask, causal, window, empty_row, repeated_calls",
        ),
        ({"masks": 3}, "'masks' is not a convention; there are: bool_mask, causal, window, empty_row, repeated_calls"),
        ({"causal": "lower_left"}, "causal cannot be 'lower_left'; it can be: upper_left, lower_right"),
        ({"causal": True}, "causal cannot be True; it can be: upper_left, lower_right"),
        ({"causal": ["lower_right"]}, "causal cannot be ['lower_right']; it can be: upper_left, lower_right"),
        ({"empty_row": None}, "empty_row cannot be None; it can be: zeros, nan, mean"),
        ({"empty_row": {"bool_mask": "ones"}}, "empty_row cannot be 'ones'; it can be: zeros, nan, mean"),
        ({"empty_row": {"bool": "nan"}}, "empty_row cannot be declared for 'bool', which is not a feature"),
    ],
)
def test_an_unknown_convention_is_wrong_and_the_contract_s_own_is_asked(
    conventions: dict[str, Any], complaint: str
) -> None:
    outcomes = check(sdpa, "empty_row/bool", "causal/more_keys", conventions=conventions)

    assert list(about(outcomes).values()) == [complaint]
    assert [outcome.status for outcome in outcomes] == ["passed", "passed", "wrong"]
