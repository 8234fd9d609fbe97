"""Wrong results are named by the mutant with the same mistake, also where others wrote it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from checks import CASES, CONTRACT, implementation
from mistaken import MISTAKEN
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import attnsuite
from attnsuite.conformance import diagnosis
from attnsuite.conformance.case_tests import CaseTests
from attnsuite.conformance.check import Check
from attnsuite.conformance.diagnosis import Diagnostician, WrongResult, convention_words, names_convention
from attnsuite.conformance.request import requested
from attnsuite.conformance.session import Session
from attnsuite.model import Outcome, Status
from attnsuite.registry import from_function
from attnsuite.worker.calling import run_calls

# Wrong kernels, as their authors would write them


def forgets_the_scale(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.einsum("bhls,bhsv->bhlv", torch.einsum("bhle,bhse->bhls", query, key).softmax(-1), value)


def starts_the_triangle_at_the_end(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    rows, columns = torch.arange(query.shape[-2])[:, None], torch.arange(key.shape[-2])
    mask = columns <= rows + key.shape[-2] - query.shape[-2]
    return scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)


def sees_the_next(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(1)
    return scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)


def takes_triu_for_the_future(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    hidden = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).triu()
    return ((query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(hidden, -math.inf)).softmax(-1) @ value


def is_never_causal(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    return scaled_dot_product_attention(query, key, value)


def forgets_to_write(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return torch.zeros(*query.shape[:-1], value.shape[-1])


def reads_true_as_hidden(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return scores.masked_fill(attn_mask, -math.inf).softmax(-1) @ value


def scales_the_mask(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
    return ((query @ key.mT + attn_mask) / math.sqrt(query.shape[-1])).softmax(-1) @ value


def fills_up_to(tile: int) -> Callable[..., Tensor]:
    """Keys of zeros fill up the last tile."""

    def fills_up(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        missing = -key.shape[-2] % tile
        key, value = (torch.cat([x, x.new_zeros(*x.shape[:-2], missing, x.shape[-1])], -2) for x in (key, value))
        return (query @ key.mT / math.sqrt(query.shape[-1])).softmax(-1) @ value

    return fills_up


def subtracts(number: float) -> Callable[..., Tensor]:
    """Hidden scores become lower by a number."""

    def lowers(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor) -> Tensor:
        return (query @ key.mT / math.sqrt(query.shape[-1]) - number * ~attn_mask).softmax(-1) @ value

    return lowers


def reads_keys(count: int) -> Callable[..., Tensor]:
    return lambda query, key, value: scaled_dot_product_attention(query, key[..., :count, :], value[..., :count, :])


class SwapsGroups(torch.autograd.Function):
    """Six heads on two: the gradient of head i goes to the key head i mod 2."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.repeat_interleave(3, 1)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient.unflatten(1, (3, 2)).sum(1)


def swaps_groups(query: Tensor, key: Tensor, value: Tensor, *, enable_gqa: bool = False) -> Tensor:
    return scaled_dot_product_attention(query, SwapsGroups.apply(key), SwapsGroups.apply(value))


@pytest.mark.parametrize(
    ("kernel", "case", "mutant"),
    [
        (fills_up_to(64), "plain/small", "attends_to_padding_of_64"),
        (fills_up_to(48), "plain/small", "attends_to_padding_of_48"),
        (subtracts(1e4), "empty_row/bool", "adds_minus_10000_to_masked"),
        (reads_keys(13), "keys/31", "breaks_beyond_13_keys"),
        (swaps_groups, "gradients/grouped", "gives_gradients_to_wrong_key_heads"),
        (forgets_the_scale, "plain/small", "unscaled"),
        (starts_the_triangle_at_the_end, "causal/more_keys", "aligns_causal_at_the_end"),
        (takes_triu_for_the_future, "causal/square_5", "excludes_the_diagonal"),
        (is_never_causal, "causal/square_5", "ignores_causal"),
        (forgets_to_write, "plain/small", "returns_zeros"),
        (reads_true_as_hidden, "bool_mask/window", "inverts_bool_mask"),
        (scales_the_mask, "float_mask/random", "adds_mask_before_scaling"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_known_mistake_is_named(kernel: Callable[..., Tensor], case: str, mutant: str) -> None:
    (outcome,) = attnsuite.check(kernel, cases=case, dtypes="float32")

    assert outcome.status == "failed"
    assert outcome.detail.startswith(f'equals "{mutant}": ')
    assert outcome.diagnosis == (mutant,)
    assert "should be" in outcome.detail, "the numbers follow the diagnosis"


def streams(mistake: str, tile: int) -> Callable[..., Tensor]:
    """An online softmax over tiles of keys, with a mistake."""

    def online(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        queries, keys = query.shape[-2], key.shape[-2]
        largest = query.new_full((*query.shape[:-1], 1), -math.inf)
        total, output = torch.zeros_like(largest), torch.zeros_like(query @ key.mT @ value)
        for start in range(
            tile if mistake == "first" else 0, keys - keys % tile if mistake == "ragged" else keys, tile
        ):
            part = slice(start, min(start + tile, keys))
            scores = query @ key[..., part, :].mT / math.sqrt(query.shape[-1])
            if is_causal:
                rows, columns = torch.arange(queries)[:, None], torch.arange(keys)[part]
                hidden = columns // tile > rows // tile if mistake == "whole" else columns > rows
                scores = scores.masked_fill(hidden, -math.inf)
            before, largest = largest, torch.maximum(largest, scores.amax(-1, keepdim=True)).detach()
            weights, shrink = (scores - largest).exp(), (before - largest).exp()
            total = total * (1 if mistake in ("sum", "both") else shrink) + weights.sum(-1, keepdim=True)
            output = output * (1 if mistake in ("output", "both") else shrink) + weights @ value[..., part, :]
        return output / total.clamp(min=1e-30)

    return online


@pytest.mark.parametrize(
    ("mistake", "tile", "mutant"),
    [
        ("sum", 64, "does_not_rescale_sum_of_tiles_of_64"),
        ("output", 32, "does_not_rescale_output_of_tiles_of_32"),
        ("both", 16, "does_not_rescale_tiles_of_16"),
        ("first", 8, "skips_first_tile_of_8"),
        ("ragged", 16, "drops_ragged_tile_of_16"),
        ("whole", 16, "masks_whole_tiles_of_16"),
    ],
)
def test_a_mistake_in_tiles_of_any_size_is_named_alone(mistake: str, tile: int, mutant: str) -> None:
    outcomes = attnsuite.check(streams(mistake, tile), cases=("plain", "causal", "keys"), dtypes="float32")

    named = {name for outcome in outcomes if outcome.fails for name in outcome.diagnosis}
    assert named - {"gives_nan_without_keys"} == {mutant}


def test_a_right_kernel_in_tiles_passes() -> None:
    outcomes = attnsuite.check(streams("", 16), cases=("plain", "causal", "keys"), dtypes="float32")

    assert [outcome.says for outcome in outcomes if outcome.fails] == []


NOT_NAMED = {"weights in half", "ε in the sum", "1/√64 always", "output in (b, l, h, e)"}
"""Their results depend on the last bit of what is rounded, are nearly right, match several mutants here, or have
another shape."""


@pytest.mark.slow
def test_a_mistake_that_shows_in_the_plainest_case_is_named_there() -> None:
    wrong = set()
    for says, (attention, names) in MISTAKEN.items():
        (outcome,) = attnsuite.check(attention, cases="plain/small", dtypes="float32")
        if outcome.fails and not names & set(outcome.diagnosis):
            wrong.add(says)

    assert wrong <= NOT_NAMED


@pytest.mark.parametrize(
    ("function", "status", "detail"),
    [
        (lambda q, k, v: scaled_dot_product_attention(q, k, v) + 0.01, "failed", "output["),
        (lambda q, k, v: None, "failed", "returned None, should return a Tensor"),
        (scaled_dot_product_attention, "passed", ""),
    ],
)
def test_other_results_have_no_name(function: Callable[..., Any], status: str, detail: str) -> None:
    (outcome,) = attnsuite.check(function, cases="plain/small", dtypes="float32")

    assert (outcome.status, outcome.diagnosis) == (status, ())
    assert outcome.detail.startswith(detail)


def test_a_mutant_matches_each_reply_to_a_call_and_a_changed_one() -> None:
    (outcome,) = attnsuite.check(sees_the_next, cases="metamorphic/future_changed", dtypes="float32")

    assert "allows_one_future_key" in outcome.diagnosis


def off_by(bounds: float) -> Outcome:
    """The outcome of a result that forgets the scale, brought to within so many error bounds of the expected one."""
    test = CaseTests(CONTRACT, keep=False).test(CASES["plain/small"], "float32", {})
    (reply,), (wrong,) = run_calls(scaled_dot_product_attention, test.calls), run_calls(forgets_the_scale, test.calls)
    assert reply.output is not None
    assert wrong.output is not None
    if bounds < math.inf:
        reply.output[0, 0, 0, 0] += bounds * float(test.expected[0].output.bound[0, 0, 0, 0])
        wrong = reply
    of = implementation(scaled_dot_product_attention, run=lambda calls: (wrong,))
    return Check(of, CaseTests(CONTRACT, keep=False), [(test.case, "float32")]).outcome(test.case, "float32")


def test_a_marginal_error_has_no_name() -> None:
    marginal = off_by(3.0)

    assert (marginal.status, marginal.diagnosis) == ("failed", ())
    assert marginal.detail.endswith("1 of 160 elements); close to the tolerance, so no known mistake is named")
    assert off_by(math.inf).diagnosis == ("unscaled",)


# Which of several mutants


def names(function: Callable[..., Any], *cases: str, dtypes: Any = "float32") -> dict[tuple[str, str], tuple[str, ...]]:
    """The names of the failures of a function in these cases, by case and dtype."""
    outcomes = attnsuite.check(function, cases=cases, dtypes=dtypes)
    return {(outcome.case, outcome.dtype): outcome.diagnosis for outcome in outcomes if outcome.fails}


def wrong(name: str, function: Callable[..., Any], dtype: str = "float32") -> dict[tuple[str, str], WrongResult]:
    case = CASES[name]
    calls = case.calls(dtype)
    return {(name, dtype): WrongResult(case, calls, run_calls(function, calls), case.expected(calls, {}))}


UNSCALED = ("plain/small", "widths/16", "keys/3", "queries/3")


def ignores_bool_masks(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    mask = None if attn_mask is None or attn_mask.dtype == torch.bool else attn_mask
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


def causal_and_unscaled(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Two mistakes, of which one shows under causal alone."""
    if is_causal:
        return starts_the_triangle_at_the_end(query, key, value, is_causal=True)
    return scaled_dot_product_attention(query, key, value, scale=1.0)


def leaves_out_every_scale(query: Tensor, key: Tensor, value: Tensor, *, scale: float | None = None) -> Tensor:
    return scaled_dot_product_attention(query, key, value, scale=1.0, enable_gqa=True)


def test_later_failures_settle_the_name_of_earlier_ones() -> None:
    alone = attnsuite.check(leaves_out_every_scale, cases="scale/large", dtypes="float32")
    together = attnsuite.check(leaves_out_every_scale, cases=("scale/large", "scale/half"), dtypes="float32")

    assert [len(outcome.diagnosis) > 1 for outcome in alone] == [True], "a scale of 3 cut to 1 gives the same"
    assert {outcome.diagnosis for outcome in together} == {("leaves_out_given_scale",)}


def test_the_first_failure_of_a_second_mistake_has_its_name_where_later_ones_confirm_it() -> None:
    cases = ("plain", "scale/integer", "scale/half", "scale/small")
    outcomes = {o.case: o for o in attnsuite.check(leaves_out_every_scale, cases=cases, dtypes="float32") if o.fails}

    assert outcomes["scale/integer"].diagnosis == ("leaves_out_given_scale",), "a scale of 2 cut to 1 gives the same"
    assert outcomes["scale/integer"].detail.startswith('equals "leaves_out_given_scale": ')
    assert outcomes["scale/integer"].detail.count("should be") == 1


def test_an_established_mutant_is_named_where_its_result_is_nearly_right() -> None:
    nearly = wrong("widths/2", forgets_the_scale, "bfloat16")
    others = {key: result for name in UNSCALED for key, result in wrong(name, forgets_the_scale).items()}

    assert Diagnostician(CONTRACT, {}).diagnoses(nearly, []) == {}
    assert len(Diagnostician(CONTRACT, {}).diagnoses(others | nearly, [])) == len(UNSCALED) + 1


def test_a_second_mutant_needs_two_cases() -> None:
    one = names(causal_and_unscaled, "causal/more_keys", *UNSCALED)
    two = names(causal_and_unscaled, "causal/more_keys", "causal/more_queries", *UNSCALED)

    assert one["causal/more_keys", "float32"] == ()
    assert two["causal/more_keys", "float32"] == two["causal/more_queries", "float32"] == ("aligns_causal_at_the_end",)


def nan_where_a_mask_is_boolean(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Any = None) -> Tensor:
    """Unscaled, and NaN under a mask, for which a mutant is one of several reasons."""
    output = scaled_dot_product_attention(query, key, value, scale=1.0)
    return output if attn_mask is None else output * torch.nan


def test_nan_names_no_mutant_after_one_that_numbers_have_established() -> None:
    after = names(nan_where_a_mask_is_boolean, *UNSCALED, "bool_mask/random", "bool_mask/padding", "bool_mask/rank_1")

    assert {diagnosis for (case, _), diagnosis in after.items() if case.startswith("bool_mask")} == {()}


def nan_for_hidden_tiles(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Any = None) -> Tensor:
    """Unscaled, and NaN in rows whose first 128 keys are hidden."""
    output = scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, scale=1.0)
    if attn_mask is None:
        return output
    seen = attn_mask if attn_mask.dtype == torch.bool else attn_mask > -math.inf
    first = seen.expand(*seen.shape[:-1], key.shape[-2])[..., :128].any(-1, keepdim=True)
    return output.masked_fill(~first, torch.nan)


def test_nan_alone_names_a_mutant_that_no_passed_test_refutes() -> None:
    leading = "numerics/leading_block_bool", "numerics/leading_block_float", "bool_mask/decode_late"

    after = names(nan_for_hidden_tiles, *UNSCALED, "keys/1", *leading)

    assert all(after[case, "float32"][0].startswith("gives_nan_for_") for case in leading), after


def test_the_work_of_a_diagnosis_is_counted_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    unscaled = wrong("plain/small", forgets_the_scale)
    limited, free = Diagnostician(CONTRACT, {}, budget=10.0), Diagnostician(CONTRACT, {})

    assert limited.diagnoses(unscaled, []) == {}
    assert 10.0 <= limited.work < 12.0, "a try on a small case costs little more than 1"
    assert limited.uncompared == {*unscaled}
    assert [found.mutants for found in free.diagnoses(unscaled, []).values()] == [("unscaled",)]
    assert free.examined == 1
    monkeypatch.setattr(diagnosis, "MAX_EXAMINED", 1)
    assert free.diagnoses(wrong("causal/more_keys", starts_the_triangle_at_the_end), []) == {}
    assert [*free.diagnoses(wrong("keys/3", forgets_the_scale), [])] == [("keys/3", "float32")], "it is tried first"


def ignores_every_other_mask_of_one_query() -> Callable[..., Tensor]:
    """Two mutants give its first wrong result, and a passed test after it refutes both."""
    calls: set[tuple[object, ...]] = set()

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        if attn_mask is not None and attn_mask.dtype == torch.bool and query.shape[-2] == 1:
            calls.add((tuple(key.shape), int(attn_mask.sum()), float(query.flatten()[0])))
            attn_mask = None if len(calls) % 2 else attn_mask
        return scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, enable_gqa=True)

    return attention


def test_mutants_that_later_tests_refute_are_no_pair() -> None:
    outcomes = attnsuite.check(ignores_every_other_mask_of_one_query(), cases="bool_mask", dtypes="float32")

    assert any(outcome.status == Status.FAILED for outcome in outcomes)
    assert not any("ignores_bool_mask" in outcome.diagnosis for outcome in outcomes)


def adds_half_of_bool_masks(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
    """Where all keys are hidden, or none is, this is as if the mask were ignored."""
    mask = attn_mask if attn_mask is None or attn_mask.dtype != torch.bool else attn_mask.to(query) / 2
    return scaled_dot_product_attention(query, key, value, attn_mask=mask)


def test_a_mutant_that_contradicts_more_results_than_it_explains_is_not_named() -> None:
    cases = ("empty_row/all_bool", "empty_row/one_bool", "bool_mask/random", "bool_mask/padding", "bool_mask/square")
    outcomes = attnsuite.check(adds_half_of_bool_masks, cases=cases, dtypes="float32")

    assert all(outcome.status == Status.FAILED for outcome in outcomes)
    assert {outcome.diagnosis for outcome in outcomes} == {()}


def window_with_own_position(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Gives what a mutant gives, in the cases of windows."""
    mutant = next(each for each in CONTRACT.mutants() if each.name == "counts_window_with_own_position")
    output: Tensor = mutant.function(query, key, value, **options)
    return output


@pytest.mark.parametrize(("passed", "named"), [("window/left_15", 0), ("dropout/drawn_windowed", 2)])
def test_a_mutant_that_explains_few_results_is_refuted_by_a_passed_test_unless_numbers_are_drawn(
    passed: str, named: int
) -> None:
    other = wrong("plain/one_head", lambda query, key, value: value[..., :1, :].expand_as(query) + 0.1)
    windows = [wrong(name, window_with_own_position) for name in ("window/left_1", "window/left_0")]

    diagnoses = Diagnostician(CONTRACT, {}).diagnoses(windows[0] | windows[1] | other, [(CASES[passed], "float32")])

    assert [found.mutants for found in diagnoses.values()] == [("counts_window_with_own_position",)] * named


# When the names appear


def counting(ran: list[str], stop: Callable[[int], None] = lambda number: None) -> Callable[..., Tensor]:
    """Ignores masks, and notes each call."""

    def attention(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        ran.append("")
        stop(len(ran))
        return ignores_bool_masks(query, key, value, attn_mask=attn_mask)

    return attention


def test_statuses_come_first_and_then_the_failures_with_their_names() -> None:
    session = Session(requested("plain/*s", "float32", "cpu"))

    outcomes = list(session.run(from_function(forgets_the_scale, "attention")))

    half = len(outcomes) // 2
    assert [outcome.diagnosis for outcome in outcomes] == [()] * half + [("unscaled",)] * half
    assert [outcome.key for outcome in outcomes[:half]] == [outcome.key for outcome in outcomes[half:]]
    assert session.outcomes(from_function(forgets_the_scale, "attention"))[0].diagnosis == ("unscaled",)


def test_the_first_failure_of_a_fail_fast_check_has_a_name() -> None:
    ran: list[str] = []

    outcomes = attnsuite.check(counting(ran), cases="bool_mask", dtypes="float32", fail_fast=True)

    assert [bool(outcome.diagnosis) for outcome in outcomes if outcome.fails] == [True]
    assert len(ran) == len(outcomes)


def test_an_interrupted_check_keeps_its_outcomes() -> None:
    def stops(number: int) -> None:
        if number > 2:
            raise KeyboardInterrupt

    outcomes: list[Outcome] = []
    session = Session(requested(("bool_mask/random", "bool_mask/square", "bool_mask/window"), "float32", "cpu"))
    with pytest.raises(KeyboardInterrupt):
        outcomes.extend(session.run(from_function(counting([], stops), "attention")))

    assert [outcome.status for outcome in outcomes] == ["failed", "failed"]


# Conventions


def test_a_broken_convention_is_reported_in_plain_words() -> None:
    declared = {"causal": "lower_right", "empty_row": "nan", "repeated_calls": "equal_bits"}

    words = [convention_words([point], CONTRACT.conventions, declared) for point in declared]

    assert words == [
        "causal is aligned at the first key; the declared convention: aligned at the last key (causal is lower_right)",
        "a query that may attend to nothing gives zeros; the declared convention: NaN (empty_row is nan)",
        "repeated_calls is within_bounds; the declared convention: equal_bits (repeated_calls is equal_bits)",
    ]
    assert all(map(names_convention, words))


def test_a_wrongly_declared_convention_is_no_mistake_of_the_computation() -> None:
    @attnsuite.implementation(conventions={"causal": "lower_right"})
    def declared(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        return scaled_dot_product_attention(query, key, value, is_causal=is_causal)

    outcome = attnsuite.check(declared, cases="causal/more_keys", dtypes="float32")[0]

    assert outcome.status == "failed"
    assert outcome.detail.startswith(
        "causal is aligned at the first key; the declared convention: aligned at the last key (causal is lower_right); "
    )


def one_key_too_many(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
    """Causal is aligned at the last key, and sees one beyond."""
    mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril(key.shape[-2] - query.shape[-2] + 1)
    output = scaled_dot_product_attention(query, key, value, attn_mask=mask if is_causal else None)
    return output.nan_to_num(0.0)


def test_mutants_follow_the_declared_conventions() -> None:
    declared, cases = {"causal": "lower_right"}, ("causal/more_keys", "causal/more_queries", "gradients/causal_wide")

    for (key, result), *_ in (wrong(name, one_key_too_many).items() for name in cases):
        expected = result.case.expected(result.calls, declared)
        found = Diagnostician(CONTRACT, declared).diagnoses({key: replace(result, expected=expected)}, [])
        assert "allows_one_future_key" in found[key].mutants


def test_of_two_conventions_the_broken_one_is_named() -> None:
    def first_key(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False, window: Any = None) -> Tensor:
        """A causal mask that begins at the first key, with a window that ends at the last one."""
        rows, columns = torch.arange(query.shape[-2])[:, None], torch.arange(key.shape[-2])
        last = rows + key.shape[-2] - query.shape[-2]
        near = (columns >= last - window[0]) & (columns <= last + window[1])
        visible = near & (columns <= rows) if is_causal else near
        scores = (query @ key.mT / math.sqrt(query.shape[-1])).masked_fill(~visible, -1e30)
        return scores.softmax(-1).masked_fill(~visible, 0.0) @ value

    declared: dict[str, Any] = {"causal": "lower_right", "window": "lower_right"}
    case: Any = CASES["window/more_keys"].but(causal=True, window=(25, 1))  # type: ignore[attr-defined]
    calls = case.calls("float32")

    result = WrongResult(case, calls, run_calls(first_key, calls), case.expected(calls, declared))
    found = Diagnostician(CONTRACT, declared).diagnoses({(case.name, "float32"): result}, [])

    assert [each.says.endswith("(causal is lower_right)") for each in found.values()] == [True]


# NaN and infinity


def without_largest(
    query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """The softmax as it is written down, in which powers overflow, or vanish all together."""
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = query.to(wide) @ key.to(wide).mT / math.sqrt(query.shape[-1])
    if attn_mask is not None:
        mask = attn_mask if attn_mask.dtype != torch.bool else torch.where(attn_mask, 0.0, -math.inf).to(wide)
        scores = scores + mask
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    powers = scores.exp()
    return (powers / powers.sum(-1, keepdim=True) @ value.to(wide)).to(query.dtype)


@pytest.mark.parametrize(
    "cases",
    [
        ("numerics/huge_equal_logits", "window/huge_logits"),
        ("numerics/huge_equal_logits", "numerics/far_below_zero"),
        ("numerics/allowed_below_fill", "numerics/far_below_zero_masked"),
    ],
)
def test_powers_that_overflow_or_vanish_are_named_and_no_mistake_with_masks(cases: tuple[str, ...]) -> None:
    huge = ("numerics/huge_logits_causal", "numerics/huge_logits")
    outcomes = attnsuite.check(without_largest, cases=(*huge, *cases), dtypes=("float64", "float32"))

    assert {outcome.diagnosis for outcome in outcomes if outcome.fails} == {("does_not_subtract_largest",)}


def test_nan_everywhere_that_matches_several_mutants_names_none() -> None:
    (outcome,) = attnsuite.check(without_largest, cases="numerics/allowed_below_fill", dtypes="float32")

    assert (outcome.status, outcome.diagnosis) == ("failed", ())


def test_where_error_bounds_are_loose_only_an_established_mutant_is_named() -> None:
    loose = wrong("numerics/huge_logits", without_largest, "bfloat16")
    tight = ("numerics/huge_logits_causal", "numerics/huge_logits", "numerics/huge_equal_logits")
    results = {key: result for name in tight for key, result in wrong(name, without_largest).items()}

    found = Diagnostician(CONTRACT, {}).diagnoses(results | loose, [])

    assert found["numerics/huge_logits", "bfloat16"].mutants == ("does_not_subtract_largest",)
    assert not Diagnostician(CONTRACT, {}).diagnoses(loose, [])


def test_the_softmax_of_an_empty_row_is_named_and_nan_everywhere_is_not() -> None:
    def textbook(query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None) -> Tensor:
        scores = query @ key.mT / query.shape[-1] ** 0.5
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        return scores.softmax(-1) @ value

    first, *named = [o for o in attnsuite.check(textbook, cases="empty_row/gradient*", dtypes="float32") if o.fails]
    (nan_alone,) = attnsuite.check(textbook, cases="empty_row/gradient_all_float", dtypes="float32")

    assert first.diagnosis, "several mutants explain the first result"
    assert {outcome.diagnosis for outcome in named} == {("takes_softmax_of_empty_row",)}
    assert (nan_alone.status, nan_alone.diagnosis) == ("failed", ())
