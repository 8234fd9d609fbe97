"""Failures wait a little for the one name that later failures settle."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attnsuite
from attnsuite.conformance.session import Session, requested
from attnsuite.conformance.settling import WAITING, Settling
from attnsuite.model import Outcome, Status
from attnsuite.registry import from_function


def outcome(number: int) -> Outcome:
    return Outcome("attention/mine", "attention", f"plain/{number}", "float32", "cpu", Status.WRONG, "")


def test_outcomes_keep_their_order_and_wait_for_the_first_of_them() -> None:
    names: dict[str, str] = {}

    def settled(each: Outcome) -> Outcome | None:
        if each.case != "plain/0":
            return each
        return replace(each, detail=names["plain/0"]) if names else None

    line = Settling(settled)
    early = [*line.after(outcome(0)), *line.after(outcome(1))]
    names["plain/0"] = "a name"
    late = [*line.after(outcome(2))]

    assert early == []
    assert [(each.case, each.detail) for each in late] == [("plain/0", "a name"), ("plain/1", ""), ("plain/2", "")]
    assert list(line.rest()) == []


def test_nobody_waits_for_long() -> None:
    line = Settling(lambda each: None)

    left = [each for number in range(WAITING + 3) for each in line.after(outcome(number))]

    assert [each.case for each in left] == ["plain/0", "plain/1", "plain/2"]
    assert len(list(line.rest())) == WAITING


def leaves_out_every_scale(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
    return scaled_dot_product_attention(query, key, value, scale=1.0, enable_gqa=True)


def test_the_first_failure_of_a_second_mistake_has_its_name_where_later_ones_confirm_it() -> None:
    cases = ("plain", "scale/integer", "scale/half", "scale/small")
    named = {o.case: o for o in attnsuite.check(leaves_out_every_scale, cases=cases, dtypes="float32") if o.fails}

    assert named["scale/integer"].diagnosis == ("leaves_out_given_scale",), "a scale of 2 cut to 1 gives the same"
    assert named["scale/integer"].detail.startswith('equals "leaves_out_given_scale": ')
    assert named["scale/integer"].detail.count("should be") == 1


def ignores_boolean_masks(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    mask = None if attn_mask is None or attn_mask.dtype == torch.bool else attn_mask
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


def several_names(outcomes: list[Outcome]) -> list[str]:
    return [each.case for each in outcomes if len(each.diagnosis) > 1]


def test_of_two_names_the_one_is_said_that_others_settle() -> None:
    ambiguous = attnsuite.check(ignores_boolean_masks, cases="bool_mask/rank_1", dtypes="float32")
    settled = attnsuite.check(ignores_boolean_masks, cases=("bool_mask", "empty_row"), dtypes="float32")

    assert several_names(ambiguous) == ["bool_mask/rank_1"]
    assert several_names(settled) == []
    assert ("ignores_bool_mask",) in {each.diagnosis for each in settled}


def counting(asked: list[str], stop: Callable[[int], None] = lambda number: None) -> Callable[..., Tensor]:
    """Ignores masks, and notes each call."""

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        asked.append("")
        stop(len(asked))
        return ignores_boolean_masks(query, key, value, attn_mask=attn_mask)

    return attention


def test_where_the_first_failure_ends_the_check_it_does_not_wait() -> None:
    asked: list[str] = []
    ambiguous = "bool_mask/rank_1"

    outcomes = attnsuite.check(
        counting(asked), cases=(ambiguous, "bool_mask/padding", "bool_mask/random"), dtypes="float32", fail_fast=True
    )

    assert len([each for each in outcomes if each.fails]) == 1
    assert len(asked) == len(outcomes)


def test_what_waits_when_a_check_is_interrupted_is_reported() -> None:
    def stops(number: int) -> None:
        if number > 2:
            raise KeyboardInterrupt

    found: list[Outcome] = []
    ambiguous = ("bool_mask/random", "bool_mask/square", "bool_mask/window")
    asking = Session(requested(ambiguous, "float32", "cpu")).run(from_function(counting([], stops), "attention"))
    with pytest.raises(KeyboardInterrupt):
        found.extend(asking)

    assert len(found) == 2
    assert several_names(found) == [each.case for each in found]


def ignores_every_other_mask_of_one_query() -> Callable[..., Tensor]:
    """Two mistakes give its first wrong answer, and a right one after it refutes both, while the first still waits."""
    asked: set[tuple[object, ...]] = set()

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        if attn_mask is not None and attn_mask.dtype == torch.bool and query.shape[-2] == 1:
            asked.add((tuple(key.shape), int(attn_mask.sum()), float(query.flatten()[0])))
            attn_mask = None if len(asked) % 2 else attn_mask
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, enable_gqa=True)

    return attention


def test_mistakes_that_later_answers_refute_are_no_pair() -> None:
    outcomes = attnsuite.check(ignores_every_other_mask_of_one_query(), cases="bool_mask", dtypes="float32")

    assert any(each.status == Status.WRONG for each in outcomes)
