"""Additive attention as batched operations in PyTorch."""

import torch
from torch import Tensor

from attnsuite import implementation


@implementation
def additive_attention(
    query: Tensor,  # b l q
    key: Tensor,  # b s k
    value: Tensor,  # b s v
    w_query: Tensor,  # q e
    w_key: Tensor,  # k e
    w_score: Tensor,  # e
    *,
    attn_mask: Tensor | None = None,  # broadcastable to b l s, True = may attend
) -> Tensor:
    """Return softmax(tanh(query w_query + key w_key) · w_score) value, of shape b l v and the query's dtype.

    Raises ValueError, before any work, for inputs that the formula does not define.
    """
    _check(query, key, value, w_query, w_key, w_score, attn_mask)
    dtype = query.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    query, key, value, w_query, w_key, w_score = (t.to(wide) for t in (query, key, value, w_query, w_key, w_score))
    features = ((query @ w_query).unsqueeze(2) + (key @ w_key).unsqueeze(1)).tanh()  # b l s e
    scores = features @ w_score  # b l s
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
        empty = ~attn_mask.expand_as(scores).any(-1, keepdim=True)  # b l 1
        return (scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0) @ value).to(dtype)
    return (scores.softmax(-1) @ value).to(dtype)


def _check(
    query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_score: Tensor, mask: Tensor | None
) -> None:
    def demand(holds: bool, what: str, expected: object, actual: object) -> None:
        if not holds:
            raise ValueError(f"{what} should be {expected}, not {actual}")

    for name, tensor, rank in (("query", query, 3), ("key", key, 3), ("value", value, 3), ("w_query", w_query, 2),
                               ("w_key", w_key, 2), ("w_score", w_score, 1)):  # fmt: skip
        demand(tensor.dim() == rank, f"the rank of {name}", rank, tensor.dim())
        demand(tensor.dtype == query.dtype, f"the dtype of {name}", f"the query's, {query.dtype}", tensor.dtype)
    demand(len(key) == len(query), "the batch of key", f"the query's, {len(query)}", len(key))
    demand(value.shape[:2] == key.shape[:2], "batch and length of value",
           f"the key's, {tuple(key.shape[:2])}", tuple(value.shape[:2]))  # fmt: skip
    demand(
        query.shape[2] == w_query.shape[0], "the width of query", f"that of w_query, {w_query.shape[0]}", query.shape[2]
    )
    demand(key.shape[2] == w_key.shape[0], "the width of key", f"that of w_key, {w_key.shape[0]}", key.shape[2])
    demand(
        w_key.shape[1] == w_query.shape[1],
        "the features of w_key",
        f"those of w_query, {w_query.shape[1]}",
        w_key.shape[1],
    )
    demand(
        len(w_score) == w_query.shape[1],
        "the features of w_score",
        f"those of w_query, {w_query.shape[1]}",
        len(w_score),
    )
    if mask is not None:
        expected = (*query.shape[:2], key.shape[1])
        demand(mask.dtype == torch.bool, "the dtype of attn_mask", torch.bool, mask.dtype)
        fits = all(size in (1, wanted) for size, wanted in zip(reversed(mask.shape), reversed(expected), strict=False))
        demand(fits and mask.dim() <= 3, "attn_mask", f"broadcastable to {expected}", tuple(mask.shape))
