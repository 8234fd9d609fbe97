"""Mistakes with an attention that is plugged in."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead


@instead_of(MultiHead.plug, "an attention that is plugged in is not called")
def ignores_the_plug(attention: Callable[..., Tensor] | None) -> None:
    return None


@instead_of(MultiHead.to_plug, "an attention that is plugged in is given float32 for half types", dtypes=("float16",))
def widens_for_the_plug(heads: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    return heads
