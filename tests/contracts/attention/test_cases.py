"""The cases of `attention`: deterministic, buildable, sensitive, and fair where chance decides."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from suite import asking
from suite.asking import Call, Reply
from suite.asking.question import generator
from suite.contracts.attention import oracle
from suite.contracts.attention.cases import cases
from suite.contracts.attention.cases.case import (
    ACCEPT_OUTPUT,
    Case,
    as_asked,
    hold,
    judged,
    on_rows,
    sampled_rows,
)
from suite.contracts.attention.cases.draws import DRAWS, LARGEST, Sizes, targets
from suite.contracts.attention.cases.layouts import JUNK, LAYOUTS
from suite.contracts.attention.computation.asked import as_attention
from suite.contracts.attention.computation.dense import correct
from suite.contracts.attention.contract import needs
from suite.contracts.attention.features.dropout.draws import FALSE_ALARM, Kept, Statistic, binomial, neighbours
from suite.contracts.attention.features.mask import Mask
from suite.contracts.attention.features.mask.patterns import PATTERNS
from suite.contracts.attention.oracle import Asked
from suite.judging import compare
from suite.judging.precision import PRECISIONS, widest
from suite.judging.verdicts import Verdict
from suite.records import DTYPES
from suite.worker import ask

Array = np.ndarray[Any, Any]

correct_dense = as_attention(correct)

HALF = ("float16", "bfloat16")
EMPTYING = ("nothing", "empty_rows", "one_empty_row", "closed_rows")
"""The patterns that leave rows empty, and say so."""
SIZES = Sizes(batch=2, heads=4, key_heads=2, queries=6, keys=10, width=8, value_width=10)


@cache
def every_case() -> dict[str, asking.Case]:
    return {case.name: case for case in cases()}


def plain_cases() -> list[Case]:
    return [case for case in every_case().values() if isinstance(case, Case)]


def answered(case: asking.Case, function: Callable[..., Tensor], dtype: str) -> Verdict:
    calls = case.calls(dtype)
    return case.verdict(calls, ask(function, calls), case.truth(calls, {}))


# Names and reasons


def test_names_are_unique_and_say_family_and_what() -> None:
    names = [case.name for case in cases()]

    assert len(names) == len(set(names)) > 400
    for case in cases():
        assert re.fullmatch(r"[a-z_]+(/[\w.\-]+)+", case.name), case.name
        assert case.family == case.name.split("/", 1)[0]
        assert case.name.count("/") == 1 or case.family == "documents"


def test_every_case_says_why_it_exists() -> None:
    for case in cases():
        assert len(case.why) > 2, case.name
        assert case.why != case.name
        assert "\n" not in case.why


def test_every_case_is_asked_in_some_of_the_four_dtypes() -> None:
    for case in cases():
        assert case.dtypes, case.name
        assert set(case.dtypes) <= set(DTYPES)
        assert len(set(case.dtypes)) == len(case.dtypes)


def test_the_plainest_cases_come_first() -> None:
    assert next(iter(every_case().values())).name == "plain/small"
    assert needs(every_case()["plain/small"].calls("float32")) == {"float32"}


# Building


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_question_can_be_built_in_every_dtype_it_names(dtype: str) -> None:
    for case in every_case().values():
        if dtype not in case.dtypes:
            continue
        for call in case.calls(dtype):
            assert set(call.positional) == {"query", "key", "value"}
            for name, tensor in call.tensors.items():
                assert tensor.dtype == getattr(torch, dtype) or (name == "attn_mask" and tensor.dtype == torch.bool)
                assert not tensor.requires_grad
                numbers = tensor.double()
                assert bool((numbers.isfinite() | ((numbers == -torch.inf) & (name == "attn_mask"))).all()), case.name
            assert set(call.gradient_of) <= set(call.tensors)
            assert (call.output_gradient is not None) == bool(call.gradient_of)
            if call.output_gradient is not None:
                query, value = call.tensors["query"], call.tensors["value"]
                assert call.output_gradient.shape == (*query.shape[:-1], value.shape[-1])
            assert dtype in needs((call,))


def test_mask_and_causal_are_never_asked_together() -> None:
    for case in every_case().values():
        for call in case.calls(case.dtypes[0]):
            assert not (call.options.get("is_causal") and "attn_mask" in call.tensors), case.name


def digest() -> str:
    """A hash of every number of every question, and of how it lies in memory."""
    hashed = hashlib.blake2b()
    for case in cases():
        for call in case.calls(case.dtypes[-1]):
            hashed.update(repr((case.name, dict(call.options), call.gradient_of, call.seed)).encode())
            for name, tensor in [*call.tensors.items(), ("upstream", call.output_gradient)]:
                if tensor is not None:
                    hashed.update(repr((name, tensor.shape, tensor.stride(), tensor.storage_offset())).encode())
                    hashed.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return hashed.hexdigest()


def test_questions_are_the_same_in_every_process() -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_cases as t; print(t.digest())"
    command = [sys.executable, "-c", program, str(Path(__file__).parent)]
    torch.manual_seed(5)

    here, again = digest(), digest()
    there = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "77"}, capture_output=True, text=True, check=True
    ).stdout.strip()

    assert here == again == there


def test_building_questions_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(9)
    before = torch.get_rng_state()

    for case in every_case().values():
        case.calls(case.dtypes[0])

    assert torch.equal(torch.get_rng_state(), before)


def test_numbers_depend_on_the_name_alone() -> None:
    one, other = Case("some/name", "one reason"), Case("some/other", "one reason")

    first, again, second = one.call("float64"), one.but(why="another").call("float64"), other.call("float64")

    assert torch.equal(first.tensors["query"], again.tensors["query"])
    assert not torch.equal(first.tensors["query"], second.tensors["query"])


def test_a_narrower_dtype_rounds_the_same_numbers() -> None:
    case = Case("some/name", "")

    for dtype in DTYPES:
        assert torch.equal(
            case.call(dtype).tensors["key"], case.call("float64").tensors["key"].to(getattr(torch, dtype))
        )


def test_only_what_is_unusual_is_passed() -> None:
    assert Case("some/name", "").call("float32").options == {}
    assert set(Case("some/name", "").call("float32").tensors) == {"query", "key", "value"}
    unusual = Case("some/name", "", heads=4, key_heads=2, scale=0.0, dropout_p=0.0, causal=True)
    assert unusual.call("float32").options == {"is_causal": True, "scale": 0.0, "dropout_p": 0.0, "enable_gqa": True}


# Layouts


def alike(tensor: Tensor) -> Tensor:
    return tensor


STRIDES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], bool]]] = {
    "contiguous": (alike, lambda t: t.is_contiguous() and t.storage_offset() == 0),
    "transposed_heads": (alike, lambda t: t.transpose(-2, -3).is_contiguous() and not t.is_contiguous()),
    "column_major": (alike, lambda t: t.mT.is_contiguous() and t.stride(-1) > t.stride(-2) == 1),
    "strided": (alike, lambda t: t.stride(-1) == 2 and not t.is_contiguous()),
    "sliced": (
        alike,
        lambda t: (
            t.stride(-1) == 1
            and t.stride(-2) == t.shape[-1] + 5
            and t.stride(-3) == t.stride(-2) * (t.shape[-2] + 3)
            and t.storage_offset() > 0
        ),
    ),
    "offset": (alike, lambda t: t.is_contiguous() and t.storage_offset() == 3),
    "padded": (
        alike,
        lambda t: t.is_contiguous() and t.untyped_storage().nbytes() > 5 * t.numel() * t.element_size(),
    ),
    "expanded": (lambda t: t[:1, :1].repeat(*t.shape[:2], 1, 1), lambda t: t.stride()[:2] == (0, 0)),
    "expanded_rows": (lambda t: t[..., :1, :].repeat(1, 1, t.shape[-2], 1), lambda t: t.stride(-2) == 0),
    "expanded_everywhere": (lambda t: t[:1, :1, :1, :1].repeat(t.shape), lambda t: set(t.stride()) == {0}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bool])
def test_a_layout_has_the_strides_it_says_and_the_same_numbers(layout: str, dtype: torch.dtype) -> None:
    tensor = torch.from_numpy(np.random.default_rng(4).normal(size=(2, 3, 4, 5)) > 0)
    tensor = tensor if dtype == torch.bool else (tensor * 2 - 0.5).to(dtype)
    same, lies = STRIDES[layout]

    laid = LAYOUTS[layout](tensor)

    assert laid.shape == tensor.shape
    assert laid.dtype == dtype
    assert torch.equal(laid, same(tensor))
    assert lies(laid)


@pytest.mark.parametrize("layout", ["strided", "sliced", "offset", "padded"])
def test_what_lies_between_the_numbers_is_junk_that_shows(layout: str) -> None:
    laid = LAYOUTS[layout](torch.zeros(2, 3, 4, 5))

    storage = torch.as_strided(laid, (laid.untyped_storage().nbytes() // 4,), (1,), 0)

    assert int((storage == JUNK).sum()) == storage.numel() - laid.numel() > 0


def test_cases_ask_every_layout_of_every_tensor() -> None:
    asked = {
        (name, layout) for case in plain_cases() for name, layout in case.layout.items() if case.family == "layout"
    }

    strange = set(LAYOUTS) - {"contiguous", "padded", "expanded_everywhere"}
    assert {(name, layout) for name in ("query", "key", "value", "attn_mask") for layout in strange} <= asked
    assert {("output_gradient", layout) for layout in {*strange, "expanded_everywhere"}} <= asked


def test_a_case_lays_its_tensors_out_as_it_says() -> None:
    for case in plain_cases():
        if case.family != "layout":
            continue
        call = case.call("float32")
        for name, layout in case.layout.items():
            tensor = call.output_gradient if name == "output_gradient" else call.tensors[name]
            assert tensor is not None
            assert STRIDES[layout][1](tensor), case.name
        for name in set(call.tensors) - set(case.layout):
            assert call.tensors[name].is_contiguous(), case.name


# Masks


AXES = {"bhls": 4, "b1ls": 4, "1hls": 4, "b11s": 4, "bhl1": 4, "hls": 3, "ls": 2, "s": 1}


@pytest.mark.parametrize(
    ("pattern", "axes"),
    [
        (pattern, axes)
        for pattern in PATTERNS
        for axes in AXES
        if axes != "s"
        or pattern
        not in ("causal", "window", "single", "empty_rows", "one_empty_row", "closed_rows")  # those need rows
    ],
)
def test_only_patterns_that_say_so_leave_rows_empty(pattern: str, axes: str) -> None:
    for sizes in (SIZES, replace(SIZES, queries=10), replace(SIZES, keys=7), replace(SIZES, queries=1)):
        mask = Mask("bool", pattern, axes).draw(generator("masks"), sizes, torch.float32)

        assert mask.dim() == AXES[axes]
        assert bool((~mask.any(-1)).any()) == (pattern in EMPTYING)
        torch.broadcast_to(mask, (sizes.batch, sizes.heads, sizes.queries, sizes.keys))


def test_cases_have_empty_rows_exactly_where_their_pattern_says_so() -> None:
    for case in plain_cases():
        if case.values.get("mask") and case.keys:
            assert ("empty_row" in needs(case.calls("float32"))) == (case.values["mask"].pattern in EMPTYING), case.name


@pytest.mark.parametrize("pattern", ["random", "padding", "late", "early", "single", "window"])
def test_masks_hide_something_and_show_something(pattern: str) -> None:
    mask = Mask("bool", pattern).draw(generator("masks"), replace(SIZES, keys=40), torch.float32)

    assert mask.any()
    assert not mask.all()


def test_a_float_mask_hides_what_a_boolean_one_hides() -> None:
    for pattern in PATTERNS:
        boolean, bias = (
            Mask(kind, pattern).draw(generator("masks"), SIZES, torch.float16) for kind in ("bool", "float")
        )

        assert torch.equal(bias != -torch.inf, boolean), pattern
        assert bias.dtype == torch.float16


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_finite_fill_hides_without_infinity(dtype: torch.dtype) -> None:
    lowest = Mask("float", hidden="lowest").draw(generator("masks"), SIZES, dtype)
    finite = Mask("float", hidden=-1e4).draw(generator("masks"), SIZES, dtype)

    assert lowest.min() == torch.finfo(dtype).min
    assert abs(float(finite.min()) + 1e4) < 100
    assert lowest.isfinite().all()


# Draws


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_draw_fits_its_dtype_and_its_sizes(draw: str, dtype: str) -> None:
    query, key, value = DRAWS[draw](generator("draws"), SIZES, dtype)

    assert query.shape == (2, 4, 6, 8)
    assert key.shape == (2, 2, 10, 8)
    assert value.shape == (2, 2, 10, 10)
    for array in (query, key, value):
        assert abs(array).max() < torch.finfo(getattr(torch, dtype)).max
    assert abs(value).max() <= LARGEST[dtype]
    assert DRAWS[draw].__doc__


def test_identity_draws_show_the_weights() -> None:
    for draw in ("identity_values", "uniform_identity"):
        query, _, value = DRAWS[draw](generator("draws"), SIZES, "float64")
        assert (value == np.eye(10)).all()
        assert (query == 0).all() == (draw == "uniform_identity")
    for case in plain_cases():
        if "identity" in case.draw:
            assert case.sizes.value_width == case.keys, f"{case.name} does not show every weight"


def test_identity_values_return_the_weights_themselves() -> None:
    call = Case("some/identity", "", draw="identity_values", keys=8).call("float64")

    truth = judged(call, {}, weights=True).truth

    assert (abs(truth.output.value - truth.weights) <= truth.output.bound).all()


@pytest.mark.parametrize(
    "sizes", [replace(SIZES, queries=queries, keys=keys) for queries in (6, 40) for keys in (1, 9, 300)]
)
def test_peaked_queries_look_at_the_last_keys_at_their_own_and_at_all_places(sizes: Sizes) -> None:
    aimed = targets(sizes)

    assert ((aimed >= 0) & (aimed < sizes.keys)).all()
    assert sizes.keys - 1 in aimed
    assert len(set(aimed)) >= min(sizes.keys, sizes.queries) / 3


def test_a_peaked_softmax_is_peaked_at_every_size() -> None:
    for case in plain_cases():
        if case.family == "keys" and case.keys > 1:
            truth = judged(case.call("float32"), {}, weights=True).truth
            assert truth.weights.max() > 0.3, case.name
            assert truth.weights.max() * case.keys > 1.5


# Inputs are sensitive


def mistakes(asked: Asked) -> Iterator[tuple[str, Asked]]:
    """The question as somebody answers it who makes one mistake of indexing."""
    if asked.key.shape[2] > 1:
        yield "drops the last key", replace(asked, key=asked.key[:, :, :-1], value=asked.value[:, :, :-1])
        yield "shifts the values by one", replace(asked, value=np.roll(asked.value, 1, axis=2))
        yield "leaves the scores unscaled", replace(asked, options={"scale": 1.0})
        yield "drops the last column", replace(asked, query=asked.query[..., :-1], key=asked.key[..., :-1])
        if asked.query.shape[1] > 1:
            yield "swaps the heads", replace(asked, query=asked.query[:, ::-1])
        if asked.query.shape[2] > 1:
            yield "shifts the queries by one", replace(asked, query=np.roll(asked.query, 1, axis=2))
            yield (
                "shifts the last query",
                replace(asked, query=asked.query[:, :, [*range(asked.query.shape[2] - 1), 0]]),
            )


@pytest.mark.parametrize(
    ("dtype", "far", "share"),
    [("float64", 1e6, 1.0), ("float32", 50, 1.0), ("float16", 10, 0.95), ("bfloat16", 2, 0.94)],
)
def test_mistakes_of_indexing_stand_far_above_the_bound_at_every_size(dtype: str, far: float, share: float) -> None:
    found: dict[str, list[bool]] = {}
    for case in plain_cases():
        if case.family not in ("keys", "queries"):
            continue
        asked = as_asked(case.call(dtype), {})
        for mistake, changed in mistakes(asked):
            rows = sampled_rows(asked, dtype)
            pair = (asked, changed) if rows is None else (on_rows(asked, rows), on_rows(changed, rows))
            due, came = (oracle.attention(one, PRECISIONS[dtype], widest(dtype)).output for one in pair)
            ratio = compare.error_ratio(came.value.astype(np.float64), due.value, due.bound)
            found.setdefault(mistake, []).append(ratio > far)

    assert len(found) == 7
    for mistake, seen in found.items():
        assert len(seen) > 50
        assert np.mean(seen) >= share, (mistake, np.mean(seen))


# Judging one reply


def reply_to(call: Call, function: Callable[..., Tensor] = correct_dense) -> Reply:
    return ask(function, (call,))[0]


@pytest.mark.parametrize(
    ("changes", "status", "says"),
    [
        ({}, "passed", ""),
        ({"raised": "ValueError: no"}, "raised", "ValueError: no"),
        ({"output": None, "kind": "tuple"}, "wrong", "returned tuple, should return a Tensor"),
        ({"output": torch.zeros(2, 2, 5, 8)}, "wrong", "output is float32, should be float64"),
        (
            {"output": torch.zeros(2, 5, 2, 8).double()},
            "wrong",
            "output has shape (2, 5, 2, 8), should have (2, 2, 5, 8)",
        ),
        ({"gradients": {}}, "wrong", "no gradient reached key"),
        ({"gradients": {"key": None}}, "wrong", "no gradient reached key"),
        ({"gradients": {"key": torch.zeros(2, 2, 5, 8).double()}}, "wrong", "gradient of key has shape (2, 2, 5, 8)"),
        ({"changed": ("query", "key")}, "wrong", "changed its input query and key"),
        ({"aliased": ("value",)}, "wrong", "the output shares memory with value"),
        ({"overwritten": True}, "wrong", "a later call changed this output"),
    ],
)
def test_a_reply_is_judged_by_what_it_is_before_its_numbers(changes: dict[str, Any], status: str, says: str) -> None:
    call = Case("some/reply", "", gradient_of=("key",)).call("float64")

    verdict = hold(call, replace(reply_to(call), **changes), judged(call, {}))

    assert verdict.status == status
    assert verdict.detail.startswith(says)
    assert not verdict.output_wrong


def test_wrong_numbers_are_measured_in_bounds_and_open_to_diagnosis() -> None:
    call = Case("some/reply", "", gradient_of=("key",)).call("float32")
    reply, truth = reply_to(call), judged(call, {})
    assert reply.output is not None
    assert reply.gradients["key"] is not None

    passed = hold(call, reply, truth)
    output = hold(call, replace(reply, output=reply.output * 1.01), truth)
    gradient = hold(call, replace(reply, gradients={"key": reply.gradients["key"] * 1.01}), truth)

    assert passed.error_ratio is not None
    assert 0 < passed.error_ratio < 1
    for verdict, name in ((output, "output["), (gradient, "gradient of key[")):
        assert verdict.status == "wrong"
        assert verdict.output_wrong
        assert verdict.detail.startswith(name)
        assert verdict.error_ratio is not None
        assert verdict.error_ratio > ACCEPT_OUTPUT


def test_nan_never_passes_not_even_in_rows_that_are_not_sampled() -> None:
    call = Case("some/long", "", batch=1, heads=1, queries=700, keys=300).call("float32")
    reply, truth = reply_to(call), judged(call, {})
    assert reply.output is not None
    assert truth.rows is not None
    assert hold(call, reply, truth).status == "passed"

    for row in (0, next(row for row in range(700) if row not in truth.rows)):
        spoilt = reply.output.clone()
        spoilt[0, 0, row, 3] = torch.nan
        verdict = hold(call, replace(reply, output=spoilt), truth)
        assert verdict.status == "wrong"
        assert verdict.output_wrong


# Dropout


def honest_draw(random: np.random.Generator, p: float, *shape: int) -> Array:
    kept: Array = random.random(shape) >= p
    return kept


def dropped(call: Call, kept: Array, factor: float) -> Tensor:
    """Attention whose weights are dropped where `kept` says so and multiplied by `factor` elsewhere."""
    weights = judged(call, {}, weights=True).truth.weights.astype(np.float64)
    query, value = call.tensors["query"], compare.numbers(call.tensors["value"])
    value = np.repeat(value, query.shape[-3] // value.shape[-3], axis=-3)
    output = (weights * kept * factor @ value).reshape(*query.shape[:-1], -1)
    return torch.from_numpy(output).to(query.dtype)


KEPT = {case.name: case for case in cases() if isinstance(case, Kept)}
STATISTICS = {case.name: case for case in cases() if isinstance(case, Statistic)}


@pytest.mark.parametrize("name", [name for name, case in KEPT.items() if not case.of.gradient_of])
def test_the_factor_of_kept_weights_is_read_off(name: str) -> None:
    case = KEPT[name]
    p = case.of.values["dropout_p"]
    assert p is not None
    for dtype in case.dtypes:
        calls = case.calls(dtype)
        query, key = calls[0].tensors["query"], calls[0].tensors["key"]
        kept = honest_draw(np.random.default_rng(1), p, *query.shape[:-1], key.shape[-2])
        for factor, status in ((1 / (1 - p), "passed"), (1 / p, "wrong"), (1.0, "wrong"), (1 - p, "wrong")):
            replies = (Reply(dropped(calls[0], kept, factor)),)
            verdict = case.verdict(calls, replies, case.truth(calls, {}))
            assert verdict.status == status, (dtype, factor, verdict.detail)


@pytest.mark.parametrize(("share", "says"), [(0.0, "dropped everything"), (1.0, "dropped nothing")])
def test_dropout_that_drops_all_or_nothing_is_wrong(share: float, says: str) -> None:
    case = KEPT["dropout/kept"]
    calls = case.calls("float32")

    verdict = case.verdict(calls, (Reply(dropped(calls[0], np.full((2, 2, 8, 8), share), 1 / 0.6)),), {})

    assert verdict.status == "wrong"
    assert says in verdict.detail


def test_a_backward_pass_with_a_mask_of_its_own_is_wrong() -> None:
    case = KEPT["dropout/gradient"]
    calls = case.calls("float32")
    honest, other = (reply_to(replace(calls[0], seed=seed)) for seed in (1, 2))

    own = case.verdict(calls, (honest,), {})
    mixed = case.verdict(calls, (replace(honest, gradients=other.gradients),), {})

    assert own.status == "passed", own.detail
    assert mixed.status == "wrong"
    assert mixed.detail.startswith("gradient of")


def kept_by(case: Statistic, random: np.random.Generator, *size: int) -> list[Array]:
    """What an honest implementation keeps in each call; the same seed keeps the same."""
    drawn: dict[Any, Array] = {}
    kept = []
    for number, seed in enumerate(case.seeds):
        key = number if seed is None else ("seed", seed)
        kept.append(drawn.setdefault(key, honest_draw(random, case.p, *size)))
    return kept


@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistical_case_never_accuses_an_honest_generator(name: str) -> None:
    case = STATISTICS[name]
    random = np.random.default_rng(7)
    calls = case.calls("float32")

    small = [case.judge(calls, kept_by(case, random, 4, 4, 16, 16), case.p) for _ in range(2000)]
    large = [case.judge(calls, kept_by(case, random, *_size(case)), case.p) for _ in range(20)]

    assert [complaint for complaint in (*small, *large) if complaint] == []


def _size(case: Statistic) -> tuple[int, ...]:
    return (case.batch, case.heads, case.size, case.size)


@pytest.mark.parametrize("total", [64, 16384, 262144])
@pytest.mark.parametrize("probability", [0.1, 0.5, 0.58, 0.9])
def test_limits_are_left_with_the_stated_probability_and_hardly_less(total: int, probability: float) -> None:
    low, high = binomial(total, probability)

    assert stats.binom.cdf(low - 1, total, probability) + stats.binom.sf(high, total, probability) <= FALSE_ALARM
    assert stats.binom.cdf(low, total, probability) >= FALSE_ALARM / 2
    assert stats.binom.sf(high - 1, total, probability) >= FALSE_ALARM / 2 * (1 - 1e-5)
    assert low < total * probability < high


def test_no_statistical_case_accuses_more_often_than_promised() -> None:
    judgements = {neighbours: 4}

    for case in STATISTICS.values():
        assert judgements.get(case.judge, 1) * len(case.dtypes) * FALSE_ALARM <= 1e-9


def test_the_dispersion_limit_lies_far_outside_what_honest_counts_do() -> None:
    random = np.random.default_rng(8)
    for p in (0.1, 0.5):
        variance = 16 * p * (1 - p)
        counts = random.binomial(16, 1 - p, size=(4000, 256))
        statistic = ((counts - 16 * (1 - p)) ** 2).sum(-1) / variance

        standard = (statistic - 256) / np.sqrt(256 * (2 + (1 - 6 * p * (1 - p)) / variance))

        assert abs(standard.std() - 1) < 0.05, "the variance that the limit supposes is right"
        assert abs(standard).max() < stats.norm.isf(FALSE_ALARM / 2) * 1.3 * 0.75


def _by(axis: int) -> Callable[[np.random.Generator, float, tuple[int, ...]], Array]:
    """Draws shared along one axis: heads, items, rows or keys that do not draw for themselves."""

    def drawn(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
        one = list(size)
        one[axis] = 1
        return np.broadcast_to(honest_draw(random, p, *one), size)

    drawn.__name__ = f"shared_by_{('items', 'heads', 'queries', 'keys')[axis]}"
    return drawn


def _swapped(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
    return honest_draw(random, 1 - p, *size)


def _coarse(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
    """p rounded to a sixteenth."""
    return honest_draw(random, round(p * 16) / 16, *size)


def _exact_share(random: np.random.Generator, p: float, size: tuple[int, ...]) -> Array:
    """In every row the same number of weights is kept."""
    return random.random(size).argsort(-1) >= round(p * size[-1])


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("dropout/share_0.1", _swapped),
        ("dropout/share_0.1", _coarse),
        ("dropout/variance_rows_0.1", _by(3)),
        ("dropout/variance_rows_0.5", _by(3)),
        ("dropout/variance_rows_0.5", _exact_share),
        ("dropout/variance_columns_0.1", _by(2)),
        ("dropout/variance_columns_0.5", _by(2)),
        *((f"dropout/independent_{p}", _by(axis)) for p in (0.1, 0.5) for axis in range(4)),
    ],
)
def test_a_statistical_case_accuses_a_dishonest_generator(
    name: str, mistake: Callable[[np.random.Generator, float, tuple[int, ...]], Array]
) -> None:
    case = STATISTICS[name]

    kept = mistake(np.random.default_rng(3), case.p, _size(case))

    assert case.judge(case.calls("float32"), [kept], case.p)


def test_seeds_and_successive_calls_accuse_who_ignores_the_generator() -> None:
    random = np.random.default_rng(3)
    one, two, three = (honest_draw(random, 0.3, 8, 8, 16, 16) for _ in range(3))
    seeds, successive = STATISTICS["dropout/seeds"], STATISTICS["dropout/successive_calls"]

    assert seeds.judge(seeds.calls("float32"), [one, two, three], 0.3) == "one seed gave two masks"
    assert seeds.judge(seeds.calls("float32"), [one, one, one], 0.3) == "two seeds gave one mask"
    assert seeds.judge(seeds.calls("float32"), [one, one, two], 0.3) is None
    assert successive.judge(successive.calls("float32"), [one, one], 0.3)
    assert successive.judge(successive.calls("float32"), [one, two], 0.3) is None


def test_statistics_are_read_off_what_torch_really_drops() -> None:
    for name, case in STATISTICS.items():
        verdict = answered(case, torch.nn.functional.scaled_dot_product_attention, "float32")
        assert verdict.status == "passed", (name, verdict.detail)
