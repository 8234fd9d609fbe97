"""Multi-head attention as independent single heads, computed one after the other and put side by side."""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations.multi_head_attention._checks import check


@implementation
def multi_head_attention(
    query: Tensor,  # b l q
    key: Tensor,  # b s k
    value: Tensor,  # b s v
    w_query: Tensor,  # q d
    w_key: Tensor,  # k d
    w_value: Tensor,  # v c
    *,
    w_output: Tensor | None = None,  # c o
    b_query: Tensor | None = None,  # d
    b_key: Tensor | None = None,  # d
    b_value: Tensor | None = None,  # c
    b_output: Tensor | None = None,  # o
    num_heads: int,
    attn_mask: Tensor | None = None,  # broadcastable to l s or to b h l s, True = may attend
    is_causal: bool = False,
    dropout_p: float = 0.0,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the heads side by side, b l c, or mapped by w_output, b l o, in the query's dtype.

    With `need_weights` a pair: that, and the weights of all heads before dropout, b h l s.
    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    maps = {"query": (query, w_query, b_query), "key": (key, w_key, b_key), "value": (value, w_value, b_value)}
    inputs = {"query": query, "key": key, "value": value}
    weights = {"w_query": w_query, "w_key": w_key, "w_value": w_value, "w_output": w_output}
    biases = {"b_query": b_query, "b_key": b_key, "b_value": b_value, "b_output": b_output}
    scores_shape = check(inputs, weights, biases, num_heads, attn_mask, is_causal, dropout_p)
    allowed = _allowed(attn_mask, is_causal, scores_shape, query.device)

    heads, shares = [], []
    for head in range(num_heads):
        mine = (
            _mapped(x, _share(weights, head, num_heads), None if bias is None else _share(bias, head, num_heads))
            for x, weights, bias in maps.values()
        )
        may_attend = None if allowed is None else allowed[:, head]  # b l s
        mixed, weights = _head(*mine, may_attend, dropout_p)
        heads.append(mixed)
        shares.append(weights)
    merged = torch.cat(heads, dim=-1)  # b l c
    output = (merged if w_output is None else _mapped(merged, w_output, b_output)).to(query.dtype)
    return (output, torch.stack(shares, dim=1).to(query.dtype)) if need_weights else output


def _head(
    query: Tensor, key: Tensor, value: Tensor, may_attend: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """The mixed values, b l v, and the weights before dropout, b l s."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])  # b l s
    if may_attend is None:
        weights = scores.softmax(dim=-1)
    else:
        empty_row = ~may_attend.any(dim=-1, keepdim=True)  # b l 1
        scores = scores.masked_fill(~may_attend, -math.inf).masked_fill(empty_row, 0.0)
        weights = scores.softmax(dim=-1).masked_fill(empty_row, 0.0)
    dropped = torch.nn.functional.dropout(weights, dropout_p) if dropout_p > 0 else weights
    return dropped @ value, weights


def _mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    # Half types are computed in float32 up to the last rounding.
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    output = x.to(wide) @ weights.to(wide)
    return output if bias is None else output + bias.to(wide)


def _share(columns: Tensor, head: int, heads: int) -> Tensor:
    """The columns of weights, or of a bias, that belong to a head."""
    width = columns.shape[-1] // heads
    return columns[..., head * width : (head + 1) * width]


def _allowed(
    mask: Tensor | None, is_causal: bool, scores_shape: tuple[int, ...], device: torch.device
) -> Tensor | None:
    """True where a query may attend to a key, b h l s; None if all queries may attend to all keys."""
    if mask is not None:
        return mask.expand(scores_shape)
    past = torch.ones(scores_shape[2:], dtype=torch.bool, device=device).tril()
    return past.expand(scores_shape) if is_causal else None
