"""`torch.nn.functional.multi_head_attention_forward`, which is what torch.nn.MultiheadAttention computes.

Its weights are (out, in), its batch is the second axis, its mask is True for hidden keys and has items and heads as
one axis, and it always has an output map: the identity if none is given.
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import multi_head_attention_forward

from attnsuite import implementation
from attnsuite.implementations.multi_head_attention._checks import check


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
    inputs = {"query": query, "key": key, "value": value}
    weights = {"w_query": w_query, "w_key": w_key, "w_value": w_value, "w_output": w_output}
    biases = {"b_query": b_query, "b_key": b_key, "b_value": b_value, "b_output": b_output}
    scores_shape = check(inputs, weights, biases, num_heads, attn_mask, is_causal, dropout_p)
    width = w_query.shape[1]
    if query.shape[2] != width or w_value.shape[1] != width:
        widths = f"query {query.shape[2]}, w_query {width} and w_value {w_value.shape[1]}"
        raise NotImplementedError(f"PyTorch takes one width of {widths} columns only")
    blocked = _blocked(attn_mask, is_causal, scores_shape, query.device)

    forward = partial(
        multi_head_attention_forward,
        query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), width, num_heads,
        in_proj_weight=None,
        in_proj_bias=torch.cat([query.new_zeros(width) if b is None else b for b in (b_query, b_key, b_value)]),
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
    if mask is not None:
        return ~mask.expand(scores_shape).flatten(0, 1)
    future = torch.ones(scores_shape[2:], dtype=torch.bool, device=device).triu(1)
    return future if is_causal else None
