"""Soft caps, sinks and log-sum-exps: the oracle against the definition in fifty digits, and mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mpmath
import numpy as np
import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.contracts import contract
from attnsuite.contracts.attention.cases.case import AttentionCase, LogSumExp, expected_result
from attnsuite.contracts.attention.masks import Mask
from attnsuite.contracts.attention.oracle import Problem, attention
from attnsuite.judging.precision import PRECISIONS
from attnsuite.worker import run_calls

Array = np.ndarray[Any, Any]
fifty = mpmath.MPContext()
fifty.dps = 50
STEP = fifty.mpf(10) ** -15


def problem(**options: Any) -> Problem:
    random = np.random.default_rng(5)
    query, key, value = (random.normal(size=(2, 2, length, 3)) for length in (3, 4, 4))
    upstream, of_lse = random.normal(size=(2, 2, 3, 3)), random.normal(size=(2, 2, 3, 1))
    chosen = {"scale": 0.9, **options}
    inputs = ("query", "key", "value", *(["sinks"] if "sinks" in chosen else []))
    return Problem(query, key, value, chosen, output_gradient=upstream, lse_gradient=of_lse, gradient_of=inputs)


def by_definition(made: Problem) -> tuple[Array, Array]:
    """o = Σ exp(S) v / (exp(a) + Σ exp(S)) and the logarithm of that sum, S = cap · tanh(scale · q·k / cap) + bias."""
    cap, sinks, mask = (made.options.get(name) for name in ("softcap", "sinks", "attn_mask"))
    output, lse = np.zeros(made.query.shape, dtype=object), np.zeros(made.query.shape[:-1], dtype=object)
    for place in np.ndindex(made.query.shape[:-1]):
        total = fifty.mpf(0) if sinks is None else fifty.exp(sinks[place[1]])
        for j, (key, value) in enumerate(zip(made.key[place[:2]], made.value[place[:2]], strict=True)):
            score = fifty.mpf(made.options["scale"]) * fifty.fdot(zip(made.query[place], key, strict=True))
            score = score if cap is None else cap * fifty.tanh(score / cap)
            if mask is None or mask[place[2], j] != -np.inf:
                power = fifty.exp(score + (0 if mask is None else mask[place[2], j]))
                output[place] += power * value
                total += power
        output[place] = output[place] / total if total else output[place] * 0
        lse[place] = fifty.log(total) if total else -np.inf
    return output, lse


def slopes(made: Problem, name: str) -> Array:
    """Central differences of Σ o · do + Σ lse · dlse."""
    array = np.vectorize(fifty.mpf, otypes=[object])(made.options[name] if name == "sinks" else getattr(made, name))
    found = np.zeros(array.shape)
    for place in np.ndindex(array.shape):
        ends = []
        for step in (STEP, -STEP):
            moved = array.copy()
            moved[place] += step
            options = {**made.options, "sinks": moved}
            output, lse = by_definition(replace(made, **({"options": options} if name == "sinks" else {name: moved})))
            of_lse = (np.where(lse == -np.inf, 0, lse) * made.lse_gradient[..., 0]).sum()  # type: ignore[index]
            ends.append((output * made.output_gradient).sum() + (of_lse if made.options.get("return_lse") else 0))
        found[place] = float((ends[0] - ends[1]) / (2 * STEP))
    return found


BIAS = np.array([[0.5, -np.inf, 1.0, -1.0], [-np.inf] * 4, [0.0, 2.0, -0.5, -np.inf]])
PROBLEMS: dict[str, dict[str, Any]] = {
    "cap": {"softcap": 0.8},
    "cap_and_bias": {"softcap": 0.8, "attn_mask": BIAS},
    "sinks": {"sinks": np.array([0.7, -1.2])},
    "lse": {"return_lse": True, "attn_mask": BIAS},
    "all": {"softcap": 0.6, "sinks": np.array([1.5, -0.3]), "return_lse": True, "attn_mask": BIAS},
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_outputs_and_gradients_are_those_of_the_definition(name: str) -> None:
    made = problem(**PROBLEMS[name])
    output, lse = by_definition(made)

    result = attention(made, PRECISIONS["float64"])

    np.testing.assert_allclose(result.output.value.astype(float), output.astype(float), rtol=0, atol=1e-13)
    if made.options.get("return_lse"):
        assert result.lse is not None
        np.testing.assert_allclose(result.lse.value.astype(float), lse.astype(float), rtol=0, atol=1e-13)
    for tensor in made.gradient_of:
        gradient = result.gradients[tensor].value.astype(float)
        np.testing.assert_allclose(gradient, slopes(made, tensor), rtol=0, atol=1e-11, err_msg=tensor)


@pytest.mark.parametrize("arithmetic", [np.float64, np.longdouble, np.object_])
def test_each_arithmetic_of_the_oracle_knows_them(arithmetic: type) -> None:
    made = problem(**PROBLEMS["all"])

    usual, other = (attention(made, PRECISIONS["float64"], each) for each in (np.float64, arithmetic))

    assert usual.lse is not None
    assert other.lse is not None
    np.testing.assert_allclose(other.lse.value.astype(float), usual.lse.value.astype(float), atol=1e-13)
    np.testing.assert_allclose(other.output.value.astype(float), usual.output.value.astype(float), atol=1e-13)


def lse_of(dtype: str, **conventions: str) -> LogSumExp:
    call = AttentionCase("lse/any", "", mask=Mask(pattern="empty_rows"), return_lse=True).call(dtype)
    second = expected_result(call, conventions).attentions
    assert second is not None
    made = second["lse"]
    assert isinstance(made, LogSumExp)
    return made


def status(expected: LogSumExp, actual: torch.Tensor) -> str:
    return str(expected.verdict("lse", Reply(attention_weights={"lse": actual})).status)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_log_sum_exp_of_half_types_is_float32_or_its_own_dtype(dtype: str) -> None:
    expected = lse_of(dtype)
    exact = torch.from_numpy(expected.expected.output.value.astype(np.float64))  # type: ignore[union-attr]
    other = {"float16": torch.bfloat16, "bfloat16": torch.float16}[dtype]

    assert [status(expected, exact.to(each)) for each in (torch.float32, getattr(torch, dtype))] == ["passed"] * 2
    assert status(expected, exact.to(other)) == "failed"


@pytest.mark.parametrize(
    ("convention", "number"), [("minus_inf", -np.inf), ("plus_inf", np.inf), ("zero", 0.0), ("any", 7.0)]
)
def test_the_log_sum_exp_of_an_empty_row_is_as_declared(convention: str, number: float) -> None:
    expected, usual = lse_of("float32", lse_empty_row=convention), lse_of("float32")
    exact = torch.from_numpy(usual.expected.output.value.astype(np.float32))  # type: ignore[union-attr]
    declared = exact.masked_fill(exact == -torch.inf, number)

    assert torch.isinf(exact).any()
    assert status(expected, declared) == "passed"
    assert status(usual, declared) == ("passed" if convention == "minus_inf" else "failed")


@pytest.mark.parametrize(
    ("mistake", "name"),
    [
        ("multiplies_scores_by_tanh", "softcap/near"),
        ("caps_hidden_scores", "softcap/bool_mask"),
        ("scales_sinks", "sinks/scale"),
        ("takes_sinks_per_key_head", "sinks/grouped"),
        ("lse_in_base_2", "lse/plain"),
        ("sends_no_gradient_through_lse", "lse/gradient"),
    ],
)
def test_a_mistake_fails_its_case(mistake: str, name: str) -> None:
    known = contract("attention")
    mutant = next(each for each in known.mutants() if each.name == mistake)
    case = next(each for each in known.cases() if each.name == name)
    calls = case.calls("float32")

    verdict = case.verdict(calls, run_calls(mutant.function, calls), case.expected(calls, {}))

    assert verdict.status == "failed"
