"""Multi-head attention as independent single heads, computed one after the other and put side by side."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnsuite import implementation


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
    for name, (x, weights, bias) in maps.items():
        _check_map(name, x, weights, bias, query)
    if key.shape[1] != value.shape[1]:
        raise ValueError(f"value should be as long as key, {key.shape[1]}, not {value.shape[1]}")
    if w_key.shape[1] != w_query.shape[1]:
        raise ValueError(f"w_key should have as many columns as w_query, {w_query.shape[1]}, not {w_key.shape[1]}")
    for name, weights in (("w_query", w_query), ("w_value", w_value)):
        if num_heads < 1 or weights.shape[1] % num_heads:
            raise ValueError(f"num_heads should divide the {weights.shape[1]} columns of {name}, not be {num_heads}")
    _check_output(w_value.shape[1], w_output, b_output, query)
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p should lie in [0, 1], not be {dropout_p}")
    scores_shape = (len(query), num_heads, query.shape[1], key.shape[1])
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
    if mask is None:
        past = torch.ones(scores_shape[2:], dtype=torch.bool, device=device).tril()
        return past.expand(scores_shape) if is_causal else None
    if is_causal:
        raise ValueError("attn_mask and is_causal, 2 masks together, are undefined: put the causal rule into the mask")
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {mask.dtype}")
    if mask.dim() not in (2, 4):
        raise ValueError(f"attn_mask should have 2 axes, l s, or 4, b h l s, not {mask.dim()}")
    try:
        return mask.expand(scores_shape)
    except RuntimeError:
        raise ValueError(f"attn_mask should broadcast to {scores_shape}, not be {tuple(mask.shape)}") from None


def _check_map(name: str, x: Tensor, weights: Tensor, bias: Tensor | None, query: Tensor) -> None:
    if x.dim() != 3 or weights.dim() != 2:
        raise ValueError(f"{name} and w_{name} should have 3 and 2 axes, not {x.dim()} and {weights.dim()}")
    if len(x) != len(query):
        raise ValueError(f"{name} should have as many items as query, {len(query)}, not {len(x)}")
    if x.shape[2] != weights.shape[0]:
        raise ValueError(f"{name} should be as wide as w_{name} is high, {weights.shape[0]}, not {x.shape[2]}")
    if bias is not None and bias.shape != weights.shape[1:]:
        raise ValueError(f"b_{name} should have shape {tuple(weights.shape[1:])}, not {tuple(bias.shape)}")
    for tensor in (x, weights, bias):
        if tensor is not None and tensor.dtype != query.dtype:
            raise ValueError(f"{name}, w_{name} and b_{name} should be {query.dtype} as query is, not {tensor.dtype}")


def _check_output(columns: int, w_output: Tensor | None, b_output: Tensor | None, query: Tensor) -> None:
    for name, tensor in (("w_output", w_output), ("b_output", b_output)):
        if tensor is not None and tensor.dtype != query.dtype:
            raise ValueError(f"{name} should be {query.dtype} as query is, not {tensor.dtype}")
    if w_output is None:
        if b_output is not None:
            raise ValueError(f"b_output of shape {tuple(b_output.shape)} needs w_output, which was not given")
        return
    if w_output.dim() != 2 or w_output.shape[0] != columns:
        raise ValueError(f"w_output should have {columns} rows, not shape {tuple(w_output.shape)}")
    if b_output is not None and b_output.shape != w_output.shape[1:]:
        raise ValueError(f"b_output should have shape {tuple(w_output.shape[1:])}, not {tuple(b_output.shape)}")
