"""Additive attention one number at a time, in Python's own arithmetic."""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_mask

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
    maps = {"w_query": (w_query, "q e"), "w_key": (w_key, "k e"), "w_score": (w_score, "e")}
    sizes = check_axes(query=(query, "b l q"), key=(key, "b s k"), value=(value, "b s v"), **maps)
    batch, length, keys, width = (sizes[axis] for axis in ("b", "l", "s", "v"))
    check_mask(attn_mask, (batch, length, keys))
    may_attend = (torch.ones((), dtype=torch.bool) if attn_mask is None else attn_mask).expand(batch, length, keys)
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
