"""Errors of XLA in JAX's attention, in a separate process: one that has imported JAX must not fork."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed"),
]
PROGRAM = """
import sys
from attnsuite.implementations.attention import jax_nn

try:
    with jax_nn._unsupported():
        raise RuntimeError(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("The precision 'F16_F16_F32' is not supported by dot_general on CPU", "NotImplementedError"),
        # XLA for GPUs, of one query or one key in float16
        ("INVALID_ARGUMENT: Unsupported dot precision algorithm: 4", "NotImplementedError"),
        ("RESOURCE_EXHAUSTED: out of memory", "RuntimeError"),
    ],
)
def test_only_xla_s_errors_of_missing_support_become_not_implemented_error(message: str, error: str) -> None:
    process = subprocess.run([sys.executable, "-c", PROGRAM, message], capture_output=True, text=True, check=True)

    assert process.stdout.startswith(f"{error} ")
    assert message in process.stdout
