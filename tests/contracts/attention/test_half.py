"""Half types are judged together: honest roundings of every style pass, and mistakes smaller than one are seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnsuite.cases import Call, list_tests
from attnsuite.cases.expected import WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.tensors import HALF
from attnsuite.contracts import contract
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase, expected_result
from attnsuite.contracts.attention.cases.one_call import extreme
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.judging import compare
from attnsuite.judging.aggregate import JUDGEMENTS
from attnsuite.worker.calling import run_calls

Style = Callable[..., Tensor]
unhurried = settings(deadline=None, max_examples=12)

HALF_CASES = {case.name: case for case in extreme() if case.family == "half"}
MUTANTS = {mutant.name: mutant.function for mutant in contract("attention").mutants()}


def in_half(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.to(dtype).float()


def hidden(scores: Tensor, is_causal: bool) -> Tensor:
    return scores.masked_fill(~torch.ones_like(scores).tril().bool(), -math.inf) if is_causal else scores


def all_in_float32(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    scores = query.float() @ key.float().mT / math.sqrt(query.shape[-1])
    return (hidden(scores, is_causal).softmax(-1) @ value.float()).to(query.dtype)


def everything_stored(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    stored = in_half(query.dtype)
    scores = stored(stored(query.float() @ key.float().mT) / math.sqrt(query.shape[-1]))
    scores = hidden(scores, is_causal)
    exponentials = stored(stored(scores - scores.amax(-1, keepdim=True)).exp())
    return (stored(exponentials / exponentials.sum(-1, keepdim=True)) @ value.float()).to(query.dtype)


def root_of_scale_stored(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    stored, root = in_half(query.dtype), query.shape[-1] ** -0.25
    scores = stored(stored(query.float() * root) @ stored(key.float() * root).mT)
    return (stored(hidden(scores, is_causal).softmax(-1)) @ value.float()).to(query.dtype)


def powers_of_two_in_tiles(query: Tensor, key: Tensor, value: Tensor, is_causal: bool = False) -> Tensor:
    """The last tile first, each tile's exponentials stored below the largest score so far, as on tensor cores."""
    stored, tile = in_half(query.dtype), 32
    scores = query.float() @ key.float().mT * (query.shape[-1] ** -0.5 / math.log(2))
    scores = hidden(scores, is_causal)
    output, total, largest = torch.zeros(*query.shape[:-1], value.shape[-1]), 0.0, torch.tensor(-1e30)
    for start in reversed(range(0, key.shape[-2], tile)):
        part = scores[..., start : start + tile]
        new = torch.maximum(largest, part.amax(-1, keepdim=True))
        exponentials, shrink = torch.exp2(part - new), torch.exp2(largest - new)
        output = output * shrink + stored(exponentials) @ value[..., start : start + tile, :].float()
        total, largest = total * shrink + exponentials.sum(-1, keepdim=True), new
    return (output / total).to(query.dtype)


STYLES = (all_in_float32, everything_stored, root_of_scale_stored, powers_of_two_in_tiles)


def numbers_of(style: Style, call: Call) -> Any:
    return compare.numbers(style(*(call.tensors[name] for name in INPUTS), **call.options))


def ratio(style: Style, call: Call, expected: WithinBounds) -> float:
    """The largest share of a limit that the errors of an output use together."""
    actual = numbers_of(style, call)
    actual = actual if expected.rows is None else actual[..., expected.rows, :]
    return compare.together(actual, expected.output.value, expected.aggregate_limits["output"])[1]


# Honest computations


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("style", STYLES)
@given(st.integers(0, 2**32 - 1))
@unhurried
def test_honest_roundings_never_reach_the_limits(dtype: str, style: Style, seed: int) -> None:
    random = np.random.default_rng(seed)
    case = AttentionCase(
        f"half/honest/{seed}", "", heads=4, batch=int(random.choice([1, 2])), queries=int(random.choice([64, 130])),
        keys=int(random.choice([2, 7, 64, 200])), width=int(random.choice([8, 16, 64])), value_width=64,
        draw=str(random.choice(["peaked", "even_weights", "even_weights_of_offset_values", "offset_values"])),
        causal=bool(random.integers(2)), dtypes=HALF,
    )  # fmt: skip
    call = case.call(dtype)
    expected = expected_result(call, {})

    if "output" in expected.aggregate_limits:
        assert ratio(style, call, expected) < 0.8


# Mistakes


def test_a_left_out_key_is_named_and_equals_itself_alone() -> None:
    case = HALF_CASES["half/one_key_of_many"]
    calls = case.calls("bfloat16")
    expected = case.expected(calls, {})
    dropped = run_calls(MUTANTS["drops_one_key_of_1024_in_half"], calls)

    detail = case.verdict(calls, dropped, expected).detail

    assert detail.startswith("output as a whole is off by ")
    assert "in the direction of one key left out or counted twice (key 700), " in detail
    assert case.alike(calls, dropped, dropped, expected)
    assert not case.alike(calls, dropped, run_calls(all_in_float32, calls), expected)
    assert not case.alike(calls, dropped, run_calls(MUTANTS["counts_one_key_of_1024_twice_in_half"], calls), expected)


# Where nothing is judged together


@pytest.mark.parametrize(
    "unusual",
    [
        {"queries": 20},
        {"draw": "equal_logits"},
        {"draw": "repeated_queries"},
        {"scale": 0.0},
        {"scale": 1e-4},
        {"keys": 1},
        {"keys": 0},
        {"draw": "huge_logits", "width": 16},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", HALF)
def test_rows_whose_roundings_may_be_tied_are_left_to_their_bounds(unusual: dict[str, Any], dtype: str) -> None:
    usual: dict[str, Any] = {"batch": 1, "heads": 2, "queries": 128, "keys": 40, "value_width": 64}
    call = AttentionCase("half/silent", "", **(usual | unusual)).call(dtype)

    assert not expected_result(call, {}).aggregate_limits


@pytest.mark.parametrize("dtype", HALF)
def test_scores_on_a_lattice_are_rounded_alike_and_left_to_their_bounds(dtype: str) -> None:
    call = AttentionCase("half/lattice", "", queries=128, keys=40, width=16, value_width=64).call(dtype)
    assert expected_result(call, {}).aggregate_limits

    for name in ("query", "key"):
        call.tensors[name].round_()

    assert not expected_result(call, {}).aggregate_limits


def test_gradients_of_equal_output_gradients_are_rounded_alike_and_left_to_their_bounds() -> None:
    case = AttentionCase("half/equal_rows", "", queries=128, keys=40, value_width=64, gradient_of=INPUTS, batch=1)
    assert set(expected_result(case.call("bfloat16"), {}).aggregate_limits) == {"output", *INPUTS}

    equal = case.but(layout={"output_gradient": "expanded_rows"}).call("bfloat16")

    assert set(expected_result(equal, {}).aggregate_limits) == {"output"}


def test_weights_that_dropout_kept_are_left_to_their_bounds() -> None:
    call = AttentionCase("half/dropped", "", queries=128, keys=40, value_width=64, dropout_p=0.5).call("bfloat16")

    assert not expected_result(call, {}, np.ones((2, 2, 128, 40), dtype=bool)).aggregate_limits


def test_empty_rows_and_rows_alike_do_not_count() -> None:
    mask = Mask("bool")
    call = AttentionCase("half/some_rows", "", batch=2, queries=128, keys=40, value_width=64, mask=mask).call(
        "bfloat16"
    )
    call.tensors["attn_mask"][..., :10, :] = False
    call.tensors["query"][:, :, 20:30] = call.tensors["query"][:, :, 20:21]
    call.tensors["attn_mask"][..., 20:30, :] = True

    row_weights = expected_result(call, {}).aggregate_limits["output"].row_weights

    assert not row_weights[:, :, :10].any()
    assert (np.count_nonzero(row_weights[:, :, 20:30], axis=-1) <= 1).all()
    assert np.count_nonzero(row_weights) > 64


def test_a_run_judges_fewer_outputs_together_than_its_share_of_chance_allows() -> None:
    tensors = sum(
        len(getattr(item, "aggregate_limits", {}))
        for case, dtype in list_tests(cases(), "cpu", HALF)
        if case.family in ("half", "gradient_sizes")
        for item in case.expected(case.calls(dtype), {})
    )
    tests = len(list_tests(cases(), "cpu", HALF))

    assert tensors > 0
    assert 20 * (tests + tensors) < JUDGEMENTS
