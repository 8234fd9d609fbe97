"""`jax.nn.dot_product_attention` of items padded to the longest, with their lengths; compiled by XLA."""

import math
from typing import Any

import jax
import torch
from jax import Array
from jax.nn import dot_product_attention
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnsuite import implementation
from attnsuite.implementations.attention.jax_nn import _pull, _run, _to_jax, _to_torch
from attnsuite.implementations.varlen_attention._items import Window, check_inputs


@implementation(
    requires=["jax"],
    compiles="a program for each shape, with XLA",
    lacks={
        "value_width": "jax.nn.dot_product_attention: value should have the same shape as key",
        "float64": "jax.nn.dot_product_attention always carries out the softmax in float32",
        "float16": "XLA has no compiled float16 product on a CPU",
        "cuda": "tensors cross on the CPU",
    },
    conventions={"causal": "upper_left"},
)
def varlen_attention(
    query: Tensor,  # q h e
    key: Tensor,  # k g e
    value: Tensor,  # k g e
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    window: Window | None = None,
) -> Tensor:  # q h e
    """Return the attention of each item within itself; aligned at the upper left.

    Raises ValueError, before any work, for inputs that the contract does not define.
    """
    check_inputs(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, window)
    rows, keys = _places(cu_seqlens_q), _places(cu_seqlens_k)
    lengths = cu_seqlens_q.diff(), cu_seqlens_k.diff()
    batches = [_padded(x, len(lengths[0]), *place) for x, place in ((query, rows), (key, keys), (value, keys))]
    most = sum(batch.shape[1] for batch in batches)  # JAX has no word for an unbounded side
    sides = None if window is None else tuple(most if side is None else side for side in window)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    output: Tensor = _Attention.apply(*batches, lengths, factor, is_causal, sides)  # type: ignore[no-untyped-call]
    item, position, _ = rows
    packed = output[item, position]
    if sides is not None:  # where the window lies behind the last key, JAX gives the mean of the padding
        packed = packed.masked_fill((position - sides[0] >= lengths[1][item])[:, None, None], 0.0)
    return torch.cat([packed, query.new_zeros(len(query) - len(item), *query.shape[1:])])


def _places(ends: Tensor) -> tuple[Tensor, Tensor, int]:
    """The item of each row, its position there, and the length of the longest, at least 1."""
    lengths = ends.diff().long()
    item = torch.arange(len(lengths)).repeat_interleave(lengths)
    return item, torch.arange(len(item)) - ends.long()[item], max(int(lengths.max()), 1)


def _padded(x: Tensor, items: int, item: Tensor, position: Tensor, longest: int) -> Tensor:
    """Packed rows as a batch of items: b l h e."""
    return x.new_zeros(items, longest, *x.shape[1:]).index_put((item, position), x[: len(item)])


class _Attention(torch.autograd.Function):
    """Torch's autograd around JAX's: the forward pass keeps what `jax.vjp` returns, the backward pass calls it."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        query, key, value, lengths, scale, is_causal, window = inputs
        arrays = [*map(_to_jax, (query, key, value, *lengths)), scale]
        if not any(ctx.needs_input_grad):
            return _to_torch(_run(_attend, "cpu", *arrays, is_causal=is_causal, window=window))
        output, ctx.pull_back = _run(_attend_for_gradient, "cpu", *arrays, is_causal=is_causal, window=window)
        return _to_torch(output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, output_gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradients = _run(_pull, "cpu", ctx.pull_back, _to_jax(output_gradient))
        return (*map(_to_torch, gradients), None, None, None, None)


def _attend(
    query: Array,  # b l h e
    key: Array,  # b s g e
    value: Array,  # b s g e
    lengths: Array,
    key_lengths: Array,
    scale: Array,
    is_causal: bool,
    window: tuple[int, int] | None,
) -> Array:  # b l h e
    options = {"scale": scale, "is_causal": is_causal, "local_window_size": window}
    lengths_by_name = {"query_seq_lengths": lengths, "key_value_seq_lengths": key_lengths}
    return dot_product_attention(query, key, value, **options, **lengths_by_name)


def _attend_for_gradient(
    query: Array, key: Array, value: Array, *others: Any, is_causal: bool, window: tuple[int, int] | None
) -> tuple[Array, Any]:
    return jax.vjp(lambda *inputs: _attend(*inputs, *others, is_causal, window), query, key, value)
