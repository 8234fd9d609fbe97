"""The oracle against the definition in fifty digits, and its bounds against honest and mistaken computations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnsuite.cases.expected import WithinBounds
from attnsuite.contracts.attention.cases import cases
from attnsuite.contracts.attention.cases.case import AttentionCase, as_problem, expected_result, oracle_result
from attnsuite.contracts.attention.oracle import OracleResult, Problem, attention
from attnsuite.contracts.attention.tolerance import Spread
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, widened, widest
from attnsuite.model import DTYPES

Array = np.ndarray[Any, Any]

INPUTS = ("query", "key", "value")
FLOAT64 = PRECISIONS["float64"]

fifty = mpmath.MPContext()
"""Arithmetic of fifty digits, which shares nothing with the oracle's."""
fifty.dps = 50

needs_wide_longdouble = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant <= 52, reason="longdouble is no wider than float64 here"
)
ARITHMETIC = [
    pytest.param(np.float64, 1e-13, id="float64"),
    pytest.param(np.longdouble, 2e-17, id="longdouble", marks=needs_wide_longdouble),
    pytest.param(np.object_, 1e-30, id="mpmath"),
]


# The definition, spelled out


def by_definition(problem: Problem) -> tuple[Array, Array]:
    """The output and the log-sum-exp, number by number.

    output[b, h, i, v] = Σ_j dropped(exp S_j / total) v_jv, with S = cap · tanh(scale · q_i k_j / cap) + bias and
    total = exp(sink) + Σ_j exp S_j.
    """
    batch, heads, queries, _ = problem.query.shape
    key_heads, keys, value_width = problem.key.shape[1], problem.key.shape[2], problem.value.shape[3]
    shape = (batch, heads, queries, keys)
    mask, scale = problem.options.get("attn_mask"), problem.options.get("scale", problem.query.shape[-1] ** -0.5)
    mask = None if mask is None else np.broadcast_to(mask, shape)
    bias, allowed = (None, mask) if mask is not None and mask.dtype == bool else (mask, None)
    shift = keys - queries if problem.conventions.get("causal") == "lower_right" else 0
    ahead = shift if problem.options.get("is_causal") else keys
    left, right = (queries + keys if side is None else side for side in problem.options.get("window", (None, None)))
    middle = keys - queries if problem.conventions.get("window") == "lower_right" else 0
    p, cap, sinks = (problem.options.get(name) for name in ("dropout_p", "softcap", "sinks"))
    kept = None if problem.keep_mask is None else np.broadcast_to(problem.keep_mask, shape)
    output, lse = np.full((*shape[:-1], value_width), fifty.zero), np.full(shape[:-1], -fifty.inf)
    for b, h, i in np.ndindex(batch, heads, queries):
        g = h // (heads // key_heads)
        exponentials = {}
        for j in range(keys):
            seen = j <= i + ahead and (allowed is None or allowed[b, h, i, j])
            seen = seen and i + middle - left <= j <= i + middle + right
            if seen and (bias is None or bias[b, h, i, j] != -np.inf):
                score = fifty.mpf(scale) * fifty.fdot(zip(problem.query[b, h, i], problem.key[b, g, j], strict=True))
                score = score if cap is None else cap * fifty.tanh(score / cap)
                exponentials[j] = fifty.exp(score if bias is None else score + bias[b, h, i, j])
        total = sum(exponentials.values()) + (0 if sinks is None else fifty.exp(sinks[h]))
        if total:
            lse[b, h, i] = fifty.log(total)
        if not total and problem.conventions.get("empty_row") == "mean":
            exponentials, total = dict.fromkeys(range(keys), fifty.one), fifty.mpf(keys)
        for j, power in exponentials.items():
            if kept is None or kept[b, h, i, j]:
                output[b, h, i] += power / total / (1 - fifty.mpf(p or 0)) * problem.value[b, g, j]
    return output, lse


def slopes(problem: Problem, name: str) -> Array:
    """The gradient of Σ output · dO + Σ lse · dL by central differences, whose error in fifty digits is 1e-30."""
    exact = np.vectorize(fifty.mpf, otypes=[object])
    problem = replace(problem, **{name: exact(getattr(problem, name)) for name in INPUTS})
    array, step = (
        exact(problem.options[name] if name in problem.options else getattr(problem, name)),
        fifty.mpf(10) ** -15,
    )
    actual = np.zeros(array.shape, dtype=object)
    for index in np.ndindex(array.shape):
        if not fifty.isfinite(array[index]):
            continue  # a forbidden score stays forbidden
        ends = []
        for moved in (array[index] + step, array[index] - step):
            changed = array.copy()
            changed[index] = moved
            options = {**problem.options, name: changed}
            output, lse = by_definition(
                replace(problem, **({"options": options} if name in problem.options else {name: changed}))
            )
            ends.append((output * problem.output_gradient).sum())
            if problem.lse_gradient is not None:
                ends[-1] += (np.where(lse == -fifty.inf, 0, lse) * problem.lse_gradient[..., 0]).sum()
        actual[index] = (ends[0] - ends[1]) / (2 * step)
    return actual


def distance(actual: Array, expected: Array) -> float:
    """The largest difference, taken in fifty digits, relative to the size of the expected numbers."""
    assert actual.shape == expected.shape
    size = max([1.0, *(abs(float(number)) for number in expected.flat)])
    distances = [abs(_exactly(a) - b) for a, b in zip(actual.flat, expected.flat, strict=True)]
    return float(max(distances, default=0)) / size


def _exactly(number: Any) -> Any:
    if isinstance(number, np.longdouble):  # no float holds it, but two do
        return fifty.mpf(float(number)) + float(number - np.longdouble(float(number)))
    return fifty.mpf(number)


# Small problems


def small_problem(
    queries: int = 3, keys: int = 4, heads: int = 2, key_heads: int = 2, scale: float = 0.6, **changes: Any
) -> Problem:
    random = np.random.default_rng(queries * 100 + keys * 10 + heads)
    problem = Problem(
        random.normal(size=(2, heads, queries, 3)),
        random.normal(size=(2, key_heads, keys, 3)),
        random.normal(size=(2, key_heads, keys, 2)) + 0.5,
        {"scale": scale},
        output_gradient=random.normal(size=(2, heads, queries, 2)),
    )
    drawn = {name: change(random) if callable(change) else change for name, change in changes.items()}
    fields = {name: drawn.pop(name) for name in ("keep_mask", "conventions") if name in drawn}
    if drawn.get("return_lse"):
        fields["lse_gradient"] = random.normal(size=(2, heads, queries, 1))
    return replace(problem, options={**problem.options, **drawn}, **fields)


def bias(*shape: int, hidden: float = 0.0) -> Callable[[np.random.Generator], Array]:
    def drawn(random: np.random.Generator) -> Array:
        return np.where(random.random(shape) < hidden, -np.inf, random.normal(size=shape))

    return drawn


def boolean(*shape: int, share: float = 0.6) -> Callable[[np.random.Generator], Array]:
    return lambda random: random.random(shape) < share


EMPTY = np.array([[True, False, True, True], [False] * 4, [True] * 4])
"""A mask l s whose second row is empty."""
EMPTY_BIAS = np.where(EMPTY, 0.5, -np.inf)

PROBLEMS = {
    "plain": small_problem(),
    "negative_scale": small_problem(scale=-1.3),
    "scale_zero": small_problem(scale=0.0),
    "one_key": small_problem(keys=1),
    "one_query": small_problem(queries=1),
    "grouped": small_problem(heads=4, key_heads=2),
    "multi_query": small_problem(heads=3, key_heads=1),
    "bias": small_problem(attn_mask=bias(2, 2, 3, 4)),
    "bias_with_hidden": small_problem(attn_mask=bias(2, 2, 3, 4, hidden=0.2)),
    "bias_l_s": small_problem(attn_mask=bias(3, 4)),
    "bias_s": small_problem(attn_mask=bias(4, hidden=0.3)),
    "bias_b_1_1_s": small_problem(attn_mask=bias(2, 1, 1, 4, hidden=0.3)),
    "bias_b_h_l_1": small_problem(attn_mask=bias(2, 2, 3, 1)),
    "bias_h_l_s": small_problem(attn_mask=bias(2, 3, 4)),
    "bias_grouped": small_problem(heads=4, attn_mask=bias(1, 4, 3, 4)),
    "allowed": small_problem(attn_mask=boolean(2, 2, 3, 4)),
    "allowed_l_s": small_problem(attn_mask=boolean(3, 4)),
    "allowed_b_1_1_s": small_problem(attn_mask=boolean(2, 1, 1, 4)),
    "causal_with_bias": small_problem(is_causal=True, attn_mask=bias(2, 2, 3, 4, hidden=0.2)),
    "causal_more_keys": small_problem(queries=3, keys=5, is_causal=True),
    "causal_more_queries": small_problem(queries=5, keys=3, is_causal=True),
    "causal_lower_right": small_problem(queries=3, keys=5, is_causal=True, conventions={"causal": "lower_right"}),
    "causal_lower_right_with_empty_rows": small_problem(
        queries=5, keys=3, is_causal=True, conventions={"causal": "lower_right"}
    ),
    "window": small_problem(queries=5, keys=5, window=(1, 0)),
    "window_more_keys": small_problem(queries=4, keys=6, window=(None, 1)),
    "window_more_queries": small_problem(queries=6, keys=3, window=(1, None)),
    "window_ahead_causal": small_problem(queries=4, keys=6, window=(2, 2), is_causal=True),
    "window_lower_right": small_problem(queries=3, keys=5, window=(1, 0), conventions={"window": "lower_right"}),
    "window_lower_right_with_empty_rows": small_problem(
        queries=5, keys=3, window=(0, 1), conventions={"window": "lower_right"}
    ),
    "dropout": small_problem(keep_mask=boolean(2, 2, 3, 4), dropout_p=0.4),
    "dropout_masked": small_problem(keep_mask=boolean(2, 2, 3, 4), dropout_p=0.1, attn_mask=boolean(2, 2, 3, 4)),
    "dropout_grouped": small_problem(heads=4, keep_mask=boolean(2, 4, 3, 4), dropout_p=0.7),
    "everything_dropped": small_problem(keep_mask=np.zeros((), dtype=bool), dropout_p=1.0),
    "empty_row": small_problem(attn_mask=EMPTY),
    "empty_row_bias": small_problem(attn_mask=EMPTY_BIAS),
    "empty_row_mean": small_problem(attn_mask=EMPTY, conventions={"empty_row": "mean"}),
    "empty_row_mean_bias": small_problem(attn_mask=EMPTY_BIAS, conventions={"empty_row": "mean"}),
    "nothing_allowed": small_problem(attn_mask=np.zeros((1, 1), dtype=bool)),
    "cap": small_problem(softcap=0.8),
    "cap_and_bias": small_problem(softcap=0.8, attn_mask=EMPTY_BIAS),
    "sinks": small_problem(sinks=np.array([0.7, -1.2])),
    "lse": small_problem(return_lse=True, attn_mask=EMPTY_BIAS),
    "all": small_problem(softcap=0.6, sinks=np.array([1.5, -0.3]), return_lse=True, attn_mask=EMPTY_BIAS),
}


def first_item(problem: Problem) -> Problem:
    """The problem of the first batch item alone, whose slopes take a quarter of the time."""
    arrays = {name: getattr(problem, name) for name in (*INPUTS, "output_gradient", "lse_gradient", "keep_mask")}
    options = {name: value[:1] if np.ndim(value) == 4 else value for name, value in problem.options.items()}
    return replace(problem, options=options, **{n: a[:1] for n, a in arrays.items() if np.ndim(a) == 4})


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(("arithmetic", "tolerance"), ARITHMETIC)
def test_output_is_the_definition_in_fifty_digits(name: str, arithmetic: type, tolerance: float) -> None:
    problem = PROBLEMS[name]
    expected, logarithms = by_definition(problem)

    actual = attention(problem, FLOAT64, arithmetic)

    assert distance(actual.output.value, expected) < tolerance
    np.testing.assert_allclose(actual.output.bound, attention(problem, FLOAT64, np.float64).output.bound, rtol=1e-6)
    if actual.lse is not None:
        finite = logarithms != -fifty.inf
        assert distance(actual.lse.value[finite], logarithms[finite]) < tolerance
        assert (actual.lse.value[~finite] == -np.inf).all()


@pytest.mark.parametrize(
    "name",
    [
        *("plain", "negative_scale", "scale_zero", "one_key", "grouped", "multi_query", "causal_more_queries"),
        *("causal_with_bias", "dropout", "dropout_grouped", "empty_row", "empty_row_mean", "nothing_allowed"),
        *("cap", "cap_and_bias", "sinks", "lse", "all"),
    ],
)
def test_gradients_are_the_slopes_of_the_definition(name: str) -> None:
    problem = first_item(PROBLEMS[name])
    names = (*INPUTS, *({"sinks"} & set(problem.options)))
    expected = {name: slopes(problem, name) for name in names}

    for arithmetic, tolerance in ((np.float64, 1e-13), (widest("float64"), 2e-17), (np.object_, 1e-28)):
        actual = attention(replace(problem, gradient_of=names), FLOAT64, arithmetic).gradients
        assert set(actual) == set(names)
        for name in names:
            assert distance(actual[name].value, expected[name]) < tolerance, (name, arithmetic)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in PROBLEMS
        if PROBLEMS[name].options.get("attn_mask") is not None and PROBLEMS[name].options["attn_mask"].dtype != bool
    ],
)
def test_the_gradient_of_a_bias_is_its_slope_summed_where_it_was_broadcast(name: str) -> None:
    problem = PROBLEMS[name]
    if problem.conventions.get("empty_row") == "mean":
        problem = replace(problem, conventions={})
    expected = slopes(problem, "attn_mask")

    for arithmetic, tolerance in ((np.float64, 1e-13), (np.object_, 1e-28)):
        actual = attention(replace(problem, gradient_of=("attn_mask",)), FLOAT64, arithmetic).gradients["attn_mask"]
        assert distance(actual.value, expected) < tolerance
        assert actual.bound.shape == actual.value.shape


# Empty rows and no keys


@pytest.mark.parametrize("arithmetic", [np.float64, np.object_])
def test_an_empty_row_is_exactly_zero_and_so_are_its_gradients(arithmetic: type) -> None:
    problem = replace(PROBLEMS["empty_row_bias"], gradient_of=(*INPUTS, "attn_mask"))

    result = attention(problem, FLOAT64, arithmetic)

    assert (result.output.value[:, :, 1] == 0).all()
    assert (result.output.bound[:, :, 1] == 0).all()
    assert (result.gradients["query"].value[:, :, 1] == 0).all()
    assert (result.gradients["attn_mask"].value[1] == 0).all()


@pytest.mark.parametrize("arithmetic", [np.float64, np.object_])
def test_an_empty_row_may_be_nan_but_its_gradients_never_are(arithmetic: type) -> None:
    problem = replace(PROBLEMS["empty_row"], conventions={"empty_row": "nan"}, gradient_of=INPUTS)

    result = attention(problem, FLOAT64, arithmetic)

    assert np.isnan(result.output.value.astype(float)[:, :, 1]).all()
    assert not np.isnan(result.output.value.astype(float)[:, :, ::2]).any()
    assert not np.isnan(result.output.bound).any()
    assert all(np.isfinite(result.gradients[name].value.astype(float)).all() for name in INPUTS)


@pytest.mark.parametrize("rule", ["zeros", "nan"])
@pytest.mark.parametrize("arithmetic", [np.float64, np.object_])
def test_without_keys_every_row_is_empty(rule: str, arithmetic: type) -> None:
    problem = replace(small_problem(keys=0), conventions={"empty_row": {"no_keys": rule}}, gradient_of=INPUTS)

    result = attention(problem, FLOAT64, arithmetic)

    assert result.output.value.shape == (2, 2, 3, 2)
    assert (result.output.value == 0).all() if rule == "zeros" else np.isnan(result.output.value.astype(float)).all()
    assert (result.output.bound == 0).all()
    assert result.gradients["key"].value.shape == (2, 2, 0, 3)
    assert (result.gradients["query"].value == 0).all()


@pytest.mark.parametrize("arithmetic", [np.float64, np.object_])
def test_without_queries_or_items_the_output_is_empty(arithmetic: type) -> None:
    without_queries = replace(small_problem(queries=0), gradient_of=INPUTS)
    without_items = replace(
        small_problem(), **{name: getattr(small_problem(), name)[:0] for name in (*INPUTS, "output_gradient")}
    )

    assert attention(without_queries, FLOAT64, arithmetic).output.value.shape == (2, 2, 0, 2)
    assert (attention(without_queries, FLOAT64, arithmetic).gradients["value"].value == 0).all()
    assert attention(without_items, FLOAT64, arithmetic).output.value.shape == (0, 2, 3, 2)


# Arithmetic


def test_float64_is_judged_in_more_digits_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = type("finfo", (), {"nmant": 52})
    assert all(widest(dtype) is np.float64 for dtype in DTYPES if dtype != "float64")

    monkeypatch.setattr(np, "finfo", lambda dtype: narrow)

    assert widest("float64") is np.object_
    third = widened(np.ones(1), np.object_) / 3
    assert abs(fifty.mpf(third[0]) - fifty.one / 3) < 1e-33, "mpmath itself defaults to the digits of float64"


# Bounds


@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.0, 1e-3, 1.0, 1e4]))
@settings(max_examples=100, deadline=None)
def test_spread_bounds_the_sum_of_distances(seed: int, keys: int, offset: float) -> None:
    random = np.random.default_rng(seed)
    coefficients = random.random((2, 3, keys)) ** random.integers(1, 20)
    value = random.normal(size=(2, keys, 5)) * 10.0 ** random.integers(-8, 8) + offset
    weights = random.dirichlet(np.ones(keys), size=(2, 3))
    output = weights @ value

    actual = Spread(value, output).by(coefficients)

    exact = (coefficients[..., None] * abs(value[:, None] - output[:, :, None])).sum(-2)
    noise = 1e-7 * coefficients.sum(-1, keepdims=True) * abs(value - value.mean(-2, keepdims=True)).max(initial=1e-9)
    assert (actual >= exact - noise).all()


def test_every_case_has_finite_bounds() -> None:
    assert [problem for problem, (misjudged, _) in seen().items() if misjudged] == []


@pytest.mark.slow
def test_every_case_has_finite_bounds_under_every_other_convention() -> None:
    for case in cases():
        calls = case.calls(case.dtypes[-1])
        for conventions in ({"causal": "lower_right"}, {"empty_row": "mean"}, {"empty_row": "nan"}):
            actual = oracle_results(case.expected(calls, conventions))
            assert not any(is_misjudged(conventions, result) for result in actual), (case.name, conventions)


def is_misjudged(conventions: dict[str, str], result: OracleResult | WithinBounds) -> bool:
    """Whether a bound is infinite, negative, or of another shape than its numbers, or a number is no number."""
    return any(
        not np.isfinite(actual.bound).all()
        or not (actual.bound >= 0).all()
        or actual.bound.shape != actual.value.shape
        or (conventions.get("empty_row") != "nan" and not np.isfinite(actual.value.astype(float)).all())
        for actual in (result.output, *result.gradients.values())
    )


@cache
def seen() -> dict[tuple[str, str], tuple[bool, bool]]:
    """For each case and dtype, whether its results are misjudged, and whether one is loose; computed once."""
    actual = {}
    for case in cases():
        for dtype in case.dtypes:
            item = oracle_results(case.expected(case.calls(dtype), {}))
            actual[case.name, dtype] = (
                any(is_misjudged({}, result) for result in item),
                any(result.loose for result in item),
            )
    return actual


def oracle_results(actual: Any) -> list[OracleResult | WithinBounds]:
    item = actual if isinstance(actual, tuple | list) else []
    return [part for part in item if isinstance(part, OracleResult | WithinBounds)]


def test_a_hidden_key_moves_neither_output_nor_bound() -> None:
    plain = small_problem(is_causal=True)
    value = plain.value.copy()
    value[:, :, 3] = 1e30  # seen by no query

    actual, expected = attention(replace(plain, value=value), FLOAT64), attention(plain, FLOAT64)

    assert (actual.output.value == expected.output.value).all()
    assert (actual.output.bound <= expected.output.bound * 1.001).all()


# Loose bounds


def test_huge_logits_in_half_precision_are_bounded_by_the_range_of_the_values() -> None:
    loose = {problem for problem, (_, loose) in seen().items() if loose}

    for name in ("huge_logits", "huge_equal_logits", "scores_beyond_float16", "allowed_below_fill"):
        assert {(f"numerics/{name}", "float16"), (f"numerics/{name}", "bfloat16")} <= loose
    assert {dtype for _, dtype in loose} == {"float16", "bfloat16"}
    families = ("combined", "numerics", "gradient_numerics", "scale", "metamorphic", "window")
    single = {name for name, _ in loose if name.split("/")[0] not in families}
    assert single == {"softcap/huge_logits", "lse/huge_logits", "lse/negative_scale"}, "no ordinary case is loose"
    assert len(loose) < 80


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_loose_bound_reaches_every_value_of_its_row(dtype: str) -> None:
    case = AttentionCase("loose/any", "", draw="huge_logits", width=16)
    call = case.call(dtype)
    result = oracle_result(call, {})
    value = compare.numbers(call.tensors["value"])

    assert result.loose
    assert not case.counts([expected_result(call, {})])
    rows = result.output.bound / abs(value[:, :, None] - result.output.value[:, :, :, None]).max(-2)
    assert (rows.max(-1) >= 1).all()


def test_a_score_that_cannot_matter_loosens_nothing() -> None:
    call = AttentionCase("loose/never", "", keys=4).call("bfloat16")
    problem = as_problem(call, {})
    far = problem.key.copy()
    far[:, :, 1:] = problem.query.mean(-2, keepdims=True) * -200  # negligible weights, wherever rounding puts them
    near = replace(problem, query=np.broadcast_to(problem.query.mean(-2, keepdims=True), problem.query.shape), key=far)

    assert not attention(near, PRECISIONS["bfloat16"]).loose
