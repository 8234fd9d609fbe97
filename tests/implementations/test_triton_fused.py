"""The fused Triton kernels, run by Triton's interpreter on a CPU: the same source that is compiled for a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attnsuite

PROGRAMS = Path(__file__).parent.parent / "programs"
PROGRAM = PROGRAMS / "interpreted_triton.py"
SHARED_MEMORY = 227 * 1024
"""Bytes that a block of a GPU of compute capability 9.0 can have."""
SAMPLE = (
    "plain/small", "causal/square_33", "causal/more_keys", "window/both", "window/gradient", "window/empty_rows",
    "bool_mask/grouped", "float_mask/per_head", "empty_row/per_row_float", "empty_row/gradient",
    "no_keys/gradient", "gradients/grouped_causal", "gradients/value_width", "layout/all_expanded_rows", "ranks/two",
    "scale/negative", "numerics/products_overflow",
)  # fmt: skip
"""Cases that reach each branch of the kernels: bands, masks, grouped heads, rows without keys, both gradients."""
FAMILIES = (
    "plain", "bool_mask", "float_mask", "heads", "scale", "causal", "window", "empty_row",
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "width", "mask"),
    [
        ("bfloat16", "128", "causal"),
        ("float16", "64", "none"),
        ("float32", "256", "bool"),
        ("bfloat16", "256", "bfloat16"),
    ],
)
def test_kernels_compile_for_a_gpu_that_is_not_here(dtype: str, width: str, mask: str, tmp_path: Path) -> None:
    command = [sys.executable, PROGRAMS / "compiled_triton.py", dtype, width, mask]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    lines = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.splitlines()

    assert [line.split()[0] for line in lines] == ["_forward_kernel", "_query_gradient_kernel", "_key_gradient_kernel"]
    assert all(0 < int(line.split()[-1]) <= SHARED_MEMORY for line in lines)


def test_a_cpu_is_unsupported_without_the_interpreter() -> None:
    found = attnsuite.check("attention/triton_fused", cases="plain/small")

    assert {outcome.status for outcome in found} == {"unsupported"}
    assert all("TRITON_INTERPRET=1" in outcome.detail for outcome in found if outcome.dtype != "float64")
