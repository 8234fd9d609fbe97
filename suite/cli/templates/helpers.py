"""What stands above the function in a file that computes attention: imports and helpers, for each type of arrays."""

from __future__ import annotations

from typing import NamedTuple

SUITE = "from attnsuite import implementation\n"
"""Among the imports of libraries, for that is what attnsuite is where the file is."""

REFUSE = '''\
def refuse(wrong: bool, why: str) -> None:
    """Raise ValueError where something is wrong with what was given."""
    if wrong:
        raise ValueError(why)
'''

TORCH_SOFTMAX = '''\
def softmax(scores: Tensor, hidden: Tensor) -> Tensor:
    """Weights: zeros where a key is hidden, and a row of zeros where all keys are."""
    empty = hidden.expand(scores.shape).all(-1, keepdim=True)
    weights = scores.masked_fill(hidden, -torch.inf).masked_fill(empty, 0.0).softmax(-1)
    return weights.masked_fill(empty, 0.0)
'''

NUMPY_SOFTMAX = '''\
def softmax(scores: Array, seen: Array) -> Array:
    """Weights: zeros where a key is hidden, and a row of zeros where all keys are."""
    scores = numpy.where(seen, scores, -numpy.inf)
    largest = scores.max(axis=-1, keepdims=True, initial=-numpy.inf)
    powers = numpy.exp(scores - numpy.where(largest == -numpy.inf, 0, largest))
    total = powers.sum(axis=-1, keepdims=True)
    return powers / numpy.where(total == 0, 1, total)
'''

JAX_FITS = '''\
def fits(mask: Array, scores: Array) -> bool:
    """Whether a mask or a bias broadcasts to the scores, without making them larger."""
    return all(size in (1, due) for size, due in zip(reversed(mask.shape), reversed(scores.shape), strict=False))
'''


class Head(NamedTuple):
    """What a file begins with."""

    requires: tuple[str, ...]
    """The libraries without which it is missing."""
    imports: str
    helpers: tuple[str, ...]


HEADS = {
    "torch": Head((), f"import torch\n{SUITE}from torch import Tensor\n", (REFUSE, TORCH_SOFTMAX)),
    "numpy": Head(
        (),
        f"from typing import Any\n\nimport numpy\n{SUITE}from numpy.typing import NDArray\n",
        ("Array = NDArray[Any]\n", REFUSE, NUMPY_SOFTMAX),
    ),
    "jax": Head(("jax",), f"import jax\nimport jax.numpy as jnp\n{SUITE}from jax import Array\n", (REFUSE, JAX_FITS)),
    "mlx": Head(("mlx",), f"import mlx.core as mx\n{SUITE}", (REFUSE,)),
}
"""By the name of the arrays."""
