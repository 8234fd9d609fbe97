"""The fused Triton kernels, run by Triton's interpreter on a CPU: the same source that is compiled for a GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import attnsuite

PROGRAM = Path(__file__).parent.parent / "programs" / "interpreted_triton.py"
SAMPLE = (
    "plain/small", "causal/square_33", "causal/more_keys", "window/both", "window/gradient", "window/empty_rows",
    "bool_mask/grouped", "float_mask/per_head", "empty_row/per_row_float", "empty_row_gradients/bool",
    "no_keys/gradient", "gradients/grouped_causal", "gradients/value_width", "layout/all_expanded_rows", "ranks/two",
    "scale/negative", "numerics/products_overflow",
)  # fmt: skip
"""Cases that reach each branch of the kernels: bands, masks, grouped heads, rows without keys, both gradients."""
FAMILIES = (
    "plain", "bool_mask", "float_mask", "heads", "scale", "causal", "window", "empty_row", "empty_row_gradients",
    "no_keys", "ranks", "numerics", "layout", "gradients",
)  # fmt: skip
"""Families of short sequences: the interpreter takes minutes for a long one."""


def outcomes(dtype: str, *patterns: str) -> list[str]:
    """A line for each test of the interpreted kernels: status, case and detail."""
    command = [sys.executable, PROGRAM, dtype, *patterns]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_interpreted_kernels_keep_a_sample_of_the_contract(dtype: str) -> None:
    lines = outcomes(dtype, *SAMPLE)

    assert len(lines) >= len(SAMPLE) - 1  # bfloat16 lacks one
    assert [line for line in lines if not line.startswith("passed ")] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_interpreted_kernels_keep_the_contract(dtype: str) -> None:
    lines = outcomes(dtype, *FAMILIES)

    assert [line for line in lines if not line.startswith(("passed ", "unsupported "))] == []
    assert sum(line.startswith("passed ") for line in lines) > 200


def test_a_cpu_is_unsupported_without_the_interpreter() -> None:
    found = attnsuite.check("attention/triton_fused", cases="plain/small")

    assert {outcome.status for outcome in found} == {"unsupported"}
    assert all("TRITON_INTERPRET=1" in outcome.detail for outcome in found if outcome.dtype != "float64")
