"""Additive attention one number at a time, in Python's own arithmetic."""

import math

import torch
from torch import Tensor

from attnsuite import implementation

Row = list[float]


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

    Raises ValueError for inputs that the formula does not define.
    """
    (batch, length, _), (keys, width) = query.shape, value.shape[1:]
    if not batch == len(key) == len(value) or key.shape[1] != keys:
        raise ValueError(f"key {tuple(key.shape)} and value {tuple(value.shape)} do not go with {batch} items of query")
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {attn_mask.dtype}")
    for name, tensor, weights in (("query", query, w_query), ("key", key, w_key)):
        if tensor.shape[2] != weights.shape[0] or weights.shape[1] != len(w_score):
            raise ValueError(
                f"w_{name} should be {tensor.shape[2]} wide and high as w_score, {len(w_score)}, "
                f"not {tuple(weights.shape)}"
            )
    try:
        may_attend = (torch.ones((), dtype=torch.bool) if attn_mask is None else attn_mask).expand(batch, length, keys)
    except RuntimeError:
        raise ValueError(f"attn_mask {tuple(attn_mask.shape)} is not for scores {(batch, length, keys)}") from None

    output = query.new_zeros((batch, length, width))
    for item in range(batch):
        queries, hidden = _projected(query[item], w_query), _projected(key[item], w_key)
        values, allowed = value[item].tolist(), may_attend[item].tolist()
        for row in range(length):
            scores = {
                column: _score(queries[row], hidden[column], w_score.tolist())
                for column in range(keys)
                if allowed[row][column]
            }
            if scores:
                output[item, row] = torch.tensor(_mixed(scores, values), dtype=torch.float64).to(query.dtype)
    return output


def _projected(rows: Tensor, weights: Tensor) -> list[Row]:
    columns = weights.T.tolist()
    return [[math.fsum(x * w for x, w in zip(row, column, strict=True)) for column in columns] for row in rows.tolist()]


def _score(query: Row, key: Row, w_score: Row) -> float:
    return math.fsum(w * math.tanh(q + k) for q, k, w in zip(query, key, w_score, strict=True))


def _mixed(scores: dict[int, float], values: list[Row]) -> Row:
    largest = max(scores.values())
    powers = {column: math.exp(score - largest) for column, score in scores.items()}
    total = math.fsum(powers.values())
    width = range(len(values[0]))
    return [math.fsum(power * values[column][v] for column, power in powers.items()) / total for v in width]
