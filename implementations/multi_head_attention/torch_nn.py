"""`torch.nn.functional.multi_head_attention_forward`, which is what torch.nn.MultiheadAttention computes.

Its weights are (out, in), its batch is the second axis, its mask is True for hidden keys and has items and heads as
one axis, and it always has an output map: the identity if none is given.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import multi_head_attention_forward

from attnsuite import implementation


@implementation(
    lacks={
        "query_width": "its queries are as wide as all heads together",
        "value_width": "its heads have one width for queries, keys and values",
    }
)
def multi_head_attention(
    query: Tensor,  # b l d
    key: Tensor,  # b s k
    value: Tensor,  # b s v
    w_query: Tensor,  # d d
    w_key: Tensor,  # k d
    w_value: Tensor,  # v d
    *,
    w_output: Tensor | None = None,  # d o
    b_query: Tensor | None = None,  # d
    b_key: Tensor | None = None,  # d
    b_value: Tensor | None = None,  # d
    b_output: Tensor | None = None,  # o
    num_heads: int,
    attn_mask: Tensor | None = None,  # broadcastable to l s or to b h l s, True = may attend
    is_causal: bool = False,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the heads side by side, b l d, or mapped by w_output, b l o, in the query's dtype.

    With `need_weights` a pair: that, and the weights of all heads before dropout, b h l s. PyTorch returns
    those after it, so a second call without dropout computes them.
    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    _check_inputs(query, key, value, w_query, w_key, w_value, num_heads)
    width = w_query.shape[1]
    if w_output is None and b_output is not None:
        raise ValueError(f"b_output of width {len(b_output)} needs w_output, which was not given")
    out_width = width if w_output is None else w_output.shape[1]
    for name, tensor, expected in (
        ("b_query", b_query, (width,)),
        ("b_key", b_key, (width,)),
        ("b_value", b_value, (width,)),
        ("w_output", w_output, (width, out_width)),
        ("b_output", b_output, (out_width,)),
    ):
        if tensor is not None and tuple(tensor.shape) != expected:
            raise ValueError(f"{name} should have shape {expected}, not {tuple(tensor.shape)}")
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p should lie in [0, 1], not be {dropout_p}")
    blocked = _blocked(attn_mask, is_causal, (len(query), num_heads, query.shape[1], key.shape[1]), query.device)

    biases = (b_query, b_key, b_value)
    forward = partial(
        multi_head_attention_forward,
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), width, num_heads,
        in_proj_weight=None,
        in_proj_bias=torch.cat([query.new_zeros(width) if bias is None else bias for bias in biases]),
        bias_k=None, bias_v=None, add_zero_attn=False,
        out_proj_weight=torch.eye(width, dtype=query.dtype, device=query.device) if w_output is None else w_output.T,
        out_proj_bias=b_output, attn_mask=blocked,
        use_separate_proj_weight=True, q_proj_weight=w_query.T, k_proj_weight=w_key.T, v_proj_weight=w_value.T,
    )  # fmt: skip
    # with weights, a query that may attend to nothing gets NaN
    output, _ = forward(dropout_p=dropout_p, need_weights=False, is_causal=is_causal)
    if not need_weights:
        return output.transpose(0, 1)  # b l o
    _, weights = forward(dropout_p=0.0, need_weights=True, average_attn_weights=False)
    return output.transpose(0, 1), weights.nan_to_num(0.0)


def _blocked(
    mask: Tensor | None, is_causal: bool, scores_shape: tuple[int, int, int, int], device: torch.device
) -> Tensor | None:
    """True where a query may not attend to a key, l s or (b h) l s."""
    if mask is None:
        future = torch.ones(scores_shape[2:], dtype=torch.bool, device=device).triu(1)
        return future if is_causal else None
    if is_causal:
        raise ValueError("attn_mask and is_causal were given, but only 1 of these 2 masks can be")
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {mask.dtype}")
    if mask.dim() not in (2, 4):
        raise ValueError(f"attn_mask should have 2 or 4 axes, not {mask.dim()}")
    if any(
        size not in (1, expected) for size, expected in zip(reversed(mask.shape), reversed(scores_shape), strict=False)
    ):
        raise ValueError(f"attn_mask should broadcast to {scores_shape}, not have shape {tuple(mask.shape)}")
    return ~mask.expand(scores_shape).flatten(0, 1)


def _check_inputs(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, num_heads: int
) -> None:
    for name, tensor, rank in (("query", query, 3), ("key", key, 3), ("value", value, 3),
                               ("w_query", w_query, 2), ("w_key", w_key, 2), ("w_value", w_value, 2)):  # fmt: skip
        if tensor.dim() != rank:
            raise ValueError(f"{name} should have {rank} axes, not {tensor.dim()}")
        if tensor.dtype != query.dtype:
            raise ValueError(f"{name} should be {query.dtype}, not {tensor.dtype}")
    batch, columns = len(query), w_query.shape[1]
    for name, tensor, expected in (
        ("query", query, (batch, query.shape[1], w_query.shape[0])),
        ("key", key, (batch, key.shape[1], w_key.shape[0])),
        ("value", value, (batch, key.shape[1], w_value.shape[0])),
        ("w_key", w_key, (w_key.shape[0], columns)),
    ):
        if tuple(tensor.shape) != expected:
            raise ValueError(f"{name} should have shape {expected}, not {tuple(tensor.shape)}")
    if num_heads < 1 or columns % num_heads:
        raise ValueError(f"num_heads should divide the {columns} columns of w_query, not be {num_heads}")
    if query.shape[2] != columns or w_value.shape[1] != columns:
        widths = f"query {query.shape[2]}, w_query {columns} and w_value {w_value.shape[1]}"
        raise NotImplementedError(f"PyTorch takes one width of {widths} columns only")
