"""Log-sum-exps as replies have them: their dtypes, and those of empty rows under each convention."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attnsuite.cases import Reply
from attnsuite.contracts.attention.cases.case import AttentionCase, LogSumExp, expected_result
from attnsuite.contracts.attention.features.mask import Mask


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
