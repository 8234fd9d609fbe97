"""The oracle's bounds against honest and mistaken computations, and on sampled rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attnsuite.cases import Call
from attnsuite.cases.expected import WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.contracts.attention import variants as styles
from attnsuite.contracts.attention.cases import case as cases
from attnsuite.contracts.attention.cases.case import AttentionCase, expected_result, single
from attnsuite.contracts.attention.features.mask import Mask
from attnsuite.contracts.attention.oracle import attention
from attnsuite.contracts.attention.tolerance import over, runs
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS
from attnsuite.model import DTYPES

Array = np.ndarray[Any, Any]


# Honest computations


def dense(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
    """Everything in the dtype itself."""
    groups = query.shape[-3] // key.shape[-3]
    key, value = (tensor.repeat_interleave(groups, -3) for tensor in (key, value))
    scores = query @ key.mT * options.get("scale", query.shape[-1] ** -0.5)
    if options.get("is_causal"):
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None:
        scores = scores.where(attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return scores.softmax(-1) @ value


def wider(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
    """Everything in float32 at least, rounded once at the end."""
    wide = torch.promote_types(query.dtype, torch.float32)
    mask = attn_mask.to(wide) if attn_mask is not None and attn_mask.is_floating_point() else attn_mask
    return dense(query.to(wide), key.to(wide), value.to(wide), mask, **options).to(query.dtype)


def torch_backend(*backends: SDPBackend) -> Callable[..., Tensor]:
    def computed(*inputs: Tensor, **options: Any) -> Tensor:
        with sdpa_kernel([*backends]):
            return scaled_dot_product_attention(*inputs, **options)

    return computed


HONEST = [
    dense,
    wider,
    torch_backend(SDPBackend.MATH),
    torch_backend(SDPBackend.FLASH_ATTENTION, SDPBackend.MATH),
]


def some_case(seed: int, dtype: str, **changes: Any) -> AttentionCase:
    """A case of random sizes and options, small enough for extended precision."""
    random = np.random.default_rng(seed)
    key_heads = int(random.choice([1, 2]))
    options: dict[str, Any] = {
        "heads": key_heads * int(random.choice([1, 1, 3])),
        "key_heads": key_heads,
        "queries": int(random.integers(1, 40)),
        "keys": int(np.exp(random.uniform(0, np.log(150 if dtype == "float64" else 700)))),
        "width": int(random.choice([1, 5, 8, 16, 64, 128])),
        "value_width": int(random.choice([1, 4, 16, 64])),
        "scale": random.choice([None, None, 0.3, -0.7]),
        "draw": str(random.choice(["peaked", "peaked", "equal_logits", "equal_constant", "offset_values"])),
    }
    hidden: list[dict[str, Any]] = [{"causal": True}, {"mask": Mask()}, {"mask": Mask("float")}, {}]
    options |= hidden[random.integers(4)]
    if options.get("mask") == Mask("float") and random.random() < 0.5:
        options["mask"] = Mask("float", "everything")
    return single(f"honest/{seed}", "", **(options | changes))


def results(function: Callable[..., Tensor], call: Call) -> dict[str, Array]:
    """The output and the gradients, by PyTorch's own differentiation."""
    tensors = {name: tensor.clone().requires_grad_(name in call.gradient_of) for name, tensor in call.tensors.items()}
    inputs, mask = [tensors[name] for name in INPUTS], tensors.get("attn_mask")
    output = function(*inputs, **call.options, **({} if mask is None else {"attn_mask": mask}))
    if call.output_gradient is not None:
        output.backward(call.output_gradient)
    gradients = {name: compare.numbers(tensors[name].grad) for name in call.gradient_of}  # type: ignore[arg-type]
    return {"output": compare.numbers(output), **gradients}


def ratios(actual: dict[str, Array], expected: WithinBounds) -> tuple[float, float]:
    """The largest errors of the output and of the gradients, in bounds."""
    output = actual["output"] if expected.rows is None else actual["output"][..., expected.rows, :]
    forward = compare.error_ratio(output, expected.output.value, expected.output.bound)
    gradients = expected.gradients.items()
    return forward, max((compare.error_ratio(actual[name], g.value, g.bound) for name, g in gradients), default=0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("seeds", "gradient_of"), [(range(40), ()), (range(100, 120), INPUTS)])
def test_honest_outputs_stay_within_one_bound_and_gradients_within_half(
    dtype: str, seeds: range, gradient_of: tuple[str, ...]
) -> None:
    for seed in seeds:
        case = some_case(seed, dtype, gradient_of=gradient_of)
        if gradient_of and "mask" in case.values and case.values["mask"].kind == "float":
            case = case.but(gradient_of=(*INPUTS, "attn_mask"))
        call = case.call(dtype)
        expected = expected_result(call, {})
        for function in HONEST:
            forward, backward = ratios(results(function, call), expected)
            assert forward < 1, (case, function)
            assert backward < 0.5, (case, function)


# Sampled rows


@pytest.mark.parametrize(
    "case",
    [
        single("rows/plain", "", heads=2, queries=700, keys=300),
        single("rows/causal", "", queries=600, keys=500, causal=True),
        single("rows/biased", "", batch=2, queries=500, keys=300, mask=Mask("float")),
        single("rows/padded", "", batch=3, queries=300, keys=200, mask=Mask(axes="b11s", pattern="padding")),
        single("rows/per_row", "", heads=2, queries=700, keys=300, mask=Mask("float", "everything", "bhl1")),
        single("rows/per_key", "", heads=2, queries=700, keys=300, mask=Mask(axes="s")),
        single("rows/grouped", "", heads=4, key_heads=2, queries=400, keys=200, mask=Mask(axes="hls")),
    ],
    ids=lambda case: case.name,
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_sampled_rows_have_the_results_of_the_whole(case: AttentionCase, dtype: str) -> None:
    call = case.call(dtype)

    some, everything = expected_result(call, {}), cases.oracle_result(call, {})

    assert some.rows is not None
    assert {0, 1, 2, case.queries - 3, case.queries - 2, case.queries - 1} <= set(some.rows.tolist())
    np.testing.assert_allclose(some.output.value, everything.output.value[..., some.rows, :], rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(some.output.bound, everything.output.bound[..., some.rows, :], rtol=1e-5)


def test_kept_weights_are_sampled_with_their_rows_and_gradients_need_all_rows() -> None:
    case = single("rows/kept", "", queries=600, keys=300)
    kept = np.random.default_rng(3).random((1, 1, 600, 300)) < 0.5
    problem = replace(cases.as_problem(case.call("float32"), {}), keep_mask=kept, options={"dropout_p": 0.5})
    rows = cases.sampled_rows(problem, "float32")
    assert rows is not None

    some, everything = (attention(part, PRECISIONS["float32"]) for part in (cases.on_rows(problem, rows), problem))

    np.testing.assert_allclose(some.output.value, everything.output.value[..., rows, :], rtol=1e-9, atol=1e-14)
    assert expected_result(case.but(gradient_of=("value",)).call("float32"), {}).rows is None


# A weight that is 1 minus a sigmoid


def test_gradients_of_the_small_weight_of_two_keys_stay_within_one_bound() -> None:
    """The sigmoid next to 1 is off by its sum and its quotient; among many items some are off by nearly both."""
    for number in range(3):
        case = single(f"pair/{number}", "", batch=4100, heads=16, queries=1, keys=2, width=2)
        call = case.but(gradient_of=("value",)).call("float32")
        actual = results(styles.attention(styles.STYLES["pair_by_sigmoid"][1]), call)
        assert ratios(actual, expected_result(call, {}))[1] < 1, case.name


# Parts that are merged by their log-sum-exps


@pytest.mark.parametrize("style", styles.WITH_LSE)
def test_outputs_of_merged_parts_stay_within_one_bound_at_scores_of_1e9(style: str) -> None:
    """Each merge rounds the log-sum-exp at its own size, which the rows of −1e9 make large against the weights."""
    mask = Mask("float", "empty_rows", hidden=-1e9)
    for number in range(4):
        case = single(f"merged/{number}", "", queries=6, keys=2500, width=8, draw="offset_values", mask=mask)
        call = case.call("float64")
        actual = results(styles.as_attention(styles.WITH_LSE[style][1]), call)
        assert ratios(actual, expected_result(call, {}))[0] < 1, case.name


# A maximum that stays in the graph


@pytest.mark.parametrize("style", styles.MAXIMA)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_through_a_maximum_stay_within_half_a_bound(style: str, dtype: str) -> None:
    """Values near 1,000 and nearly equal weights: the residual is large against the gradient."""
    for number in (1, 7, 18, 25, 26):
        case = single(f"maximum/{number}", "", queries=1, keys=300, width=8, scale=0.002, draw="offset_values")
        call = case.but(gradient_of=("query", "key")).call(dtype)
        actual = results(styles.attention(styles.MAXIMA[style][1]), call)
        assert ratios(actual, expected_result(call, {}))[1] < 0.5, case.name


@pytest.mark.parametrize("keys", [1, 2, 3, 5, 8, 13])
def test_a_run_ends_on_either_side_at_the_first_score_that_is_certainly_larger(keys: int) -> None:
    random = np.random.default_rng(keys)
    for _ in range(10):
        scores = random.integers(0, 6, keys).astype(float)
        scores[random.random(keys) < 0.2] = -np.inf
        low, high, terms = scores - 0.3, scores + 0.3, random.random(keys)
        run = runs(low, high)
        sums = over(run, terms)
        for key in range(keys):
            behind, before = (_steps(low, high[key], key, side) for side in (1, -1))
            length = min(before + 1 + behind, keys)
            assert run.length[key] == length
            assert sums[key] == pytest.approx(sum(terms[(key - before + step) % keys] for step in range(length)))


def _steps(low: Array, most: float, key: int, side: int) -> int:
    steps = 0
    while steps < len(low) - 1 and low[(key + side * (steps + 1)) % len(low)] <= most:
        steps += 1
    return steps
