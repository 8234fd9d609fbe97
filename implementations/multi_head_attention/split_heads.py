"""Multi-head attention with one matrix per role, whose columns are split into heads that are computed at once.

Any implementation of the contract `attention` can be the backend of the heads. It gets views in the query's dtype, and
only the arguments that a call needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._attention_weights import attention_weights


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
    attention: Callable[..., Tensor] | None = None,
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the heads side by side, b l c, or mapped by w_output, b l o, in the query's dtype.

    With `need_weights` a pair: that, and the weights of all heads before dropout, b h l s.
    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    biases = {"b_query": b_query, "b_key": b_key, "b_value": b_value, "b_output": b_output}
    _check(query, key, value, {"w_query": w_query, "w_key": w_key, "w_value": w_value}, w_output, biases, num_heads)
    _check_options(attn_mask, is_causal, dropout_p, (len(query), num_heads, query.shape[1], key.shape[1]))
    dtype = query.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype

    def mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
        return x.to(wide) @ weights.to(wide) + (0.0 if bias is None else bias.to(wide))

    def split(x: Tensor) -> Tensor:
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # b h n p

    roles = ((query, w_query, b_query), (key, w_key, b_key), (value, w_value, b_value))
    heads = [split(mapped(*role)) for role in roles]
    options: dict[str, Any] = {"attn_mask": attn_mask} if attn_mask is not None else {}
    options |= {"is_causal": True} if is_causal else {}
    options |= {"dropout_p": dropout_p} if dropout_p else {}
    if attention is not None:
        heads = [head.to(dtype) for head in heads]
    attend = attention or _attention
    mixed = attend(*heads, **options)  # b h l v
    merged = mixed.transpose(1, 2).flatten(2)  # b l c
    output = (merged if w_output is None else mapped(merged, w_output, b_output)).to(dtype)
    if not need_weights:
        return output
    options.pop("dropout_p", None)
    return output, attention_weights(attend, *heads, **options).to(dtype)


def _attention(
    query: Tensor,  # b h l p
    key: Tensor,  # b h s p
    value: Tensor,  # b h s v
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])  # b h l s
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is None:
        weights = scores.softmax(dim=-1)
    else:
        # A softmax over nothing is NaN: keep it out before and after.
        empty_row = ~attn_mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~attn_mask, -math.inf).masked_fill(empty_row, 0.0)
        weights = scores.softmax(dim=-1).masked_fill(empty_row, 0.0)
    return torch.nn.functional.dropout(weights, dropout_p) @ value


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    weights: dict[str, Tensor],
    w_output: Tensor | None,
    biases: dict[str, Tensor | None],
    num_heads: int,
) -> None:
    inputs = {"query": query, "key": key, "value": value}
    maps = weights | ({} if w_output is None else {"w_output": w_output})
    added = {name: bias for name, bias in biases.items() if bias is not None}
    for rank, tensors in ((3, inputs), (2, maps), (1, added)):
        for name, tensor in tensors.items():
            if tensor.dim() != rank:
                raise ValueError(f"{name} should have {rank} axes, not {tensor.dim()}")
            if tensor.dtype != query.dtype:
                raise ValueError(f"{name} should be {query.dtype} as query is, not {tensor.dtype}")
    if w_output is None and "b_output" in added:
        raise ValueError(f"b_output, {tuple(added['b_output'].shape)}, needs w_output, which was not given")
    columns, value_columns = weights["w_query"].shape[1], weights["w_value"].shape[1]
    expected = {
        "key": (len(query), *key.shape[1:]),
        "value": (len(query), key.shape[1], value.shape[2]),
        "w_query": (query.shape[2], columns),
        "w_key": (key.shape[2], columns),
        "w_value": (value.shape[2], value_columns),
        "b_query": (columns,),
        "b_key": (columns,),
        "b_value": (value_columns,),
    }
    if w_output is not None:
        expected |= {"w_output": (value_columns, w_output.shape[1]), "b_output": (w_output.shape[1],)}
    for name, tensor in (inputs | maps | added).items():
        if tuple(tensor.shape) != expected.get(name, tuple(tensor.shape)):
            raise ValueError(f"{name} should have shape {expected[name]}, not {tuple(tensor.shape)}")
    for name, width in (("w_query", columns), ("w_value", value_columns)):
        if num_heads < 1 or width % num_heads:
            raise ValueError(f"{name} has {width} columns, which {num_heads} heads cannot share")


def _check_options(mask: Tensor | None, is_causal: bool, dropout_p: float, expected: tuple[int, ...]) -> None:
    if not 0.0 <= dropout_p <= 1.0:
        raise ValueError(f"dropout_p should lie in [0, 1], not be {dropout_p}")
    if mask is None:
        return
    if is_causal:
        raise ValueError("attn_mask and is_causal are undefined together: give 1 of the 2")
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {mask.dtype}")
    fits = all(size in (1, wanted) for size, wanted in zip(reversed(mask.shape), reversed(expected), strict=False))
    if mask.dim() not in (2, 4) or not fits:
        raise ValueError(
            f"attn_mask should broadcast to {expected[2:]} or {expected}, not have shape {tuple(mask.shape)}"
        )
