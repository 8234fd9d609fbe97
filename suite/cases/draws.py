"""The dropout masks that replies reveal, replayed in mutants: then all their numbers can be compared, gradients too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_REPLAYED: dict[bytes, Tensor] = {}
"""Masks by the state of the random source at which their draw begins."""


@contextmanager
def replayed_draws(masks: Mapping[int, Tensor]) -> Iterator[None]:
    """In the block, `replayed` at the beginning of one of these seeds returns its mask."""
    import torch

    _REPLAYED.update({_key(torch.Generator().manual_seed(seed).get_state()): mask for seed, mask in masks.items()})
    try:
        yield
    finally:
        _REPLAYED.clear()


def replayed(drawn: Tensor) -> Tensor | None:
    """The mask to use in place of a draw of the shape of `drawn`, if there is one.

    Only the first draw of a seed is replayed: a second one, as in a backward pass, is random.
    """
    import torch  # features are read without it

    mask = _REPLAYED.get(_key(torch.get_rng_state())) if _REPLAYED else None
    return mask if mask is not None and mask.shape == drawn.shape else None


def _key(state: Tensor) -> bytes:
    return state.numpy().tobytes()
