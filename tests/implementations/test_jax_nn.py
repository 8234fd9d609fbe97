"""What JAX's attention does with XLA's words."""

from __future__ import annotations

import pytest

jax_nn = pytest.importorskip("attnsuite.implementations.attention.jax_nn")


@pytest.mark.parametrize(
    "says",
    [
        "The precision 'F16_F16_F32' is not supported by dot_general on CPU",
        "INVALID_ARGUMENT: Unsupported dot precision algorithm: 4",  # XLA for GPUs, of one query or one key in float16
    ],
)
def test_what_xla_does_not_support_is_declined_in_its_words(says: str) -> None:
    with pytest.raises(NotImplementedError, match=says.partition("'")[0]), jax_nn._declining():
        raise RuntimeError(says)


def test_other_errors_are_its_answer() -> None:
    with pytest.raises(RuntimeError, match="out of memory"), jax_nn._declining():
        raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")
