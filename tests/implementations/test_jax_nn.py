"""What JAX's attention does with XLA's words, in a process of its own: one that has imported JAX may not fork."""

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
    with jax_nn._declining():
        raise RuntimeError(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("says", "becomes"),
    [
        ("The precision 'F16_F16_F32' is not supported by dot_general on CPU", "NotImplementedError"),
        # XLA for GPUs, of one query or one key in float16
        ("INVALID_ARGUMENT: Unsupported dot precision algorithm: 4", "NotImplementedError"),
        ("RESOURCE_EXHAUSTED: out of memory", "RuntimeError"),
    ],
)
def test_only_what_xla_does_not_support_is_declined_in_its_words(says: str, becomes: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, says], capture_output=True, text=True, check=True)

    assert done.stdout.startswith(f"{becomes} ")
    assert says in done.stdout
