"""Attention scores one pair of a query and a key at a time, in Python's own arithmetic."""

import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_mask

Row = list[float]


@implementation
def attention_scores(
    query: Tensor,  # ... l q
    key: Tensor,  # ... s k
    *,
    score: str = "scaled_dot",
    w: Tensor | None = None,  # q k
    w_query: Tensor | None = None,  # q f
    w_key: Tensor | None = None,  # k f
    w_score: Tensor | None = None,  # f
    attn_mask: Tensor | None = None,  # broadcastable to ... l s, True = may attend
) -> Tensor:
    """Return the scores of each query and key, of shape ... l s and the query's dtype, by one of five functions.

    A score that `attn_mask` hides is −∞.

    Raises ValueError for inputs that the function does not define.
    """
    maps = {"w": (w, "q k"), "w_query": (w_query, "q f"), "w_key": (w_key, "k f"), "w_score": (w_score, "f")}
    sizes = check_axes(query=(query, "... l q"), key=(key, "... s k"), **maps)
    lead, queries, keys = (sizes[axis] for axis in ("...", "l", "s"))
    pair = _function(score, sizes["q"], sizes["k"], {name: tensor for name, (tensor, _) in maps.items()})
    shape = (*lead, queries, keys)
    check_mask(attn_mask, shape)
    scores = torch.empty(shape, dtype=torch.float64)
    for place in product(*map(range, lead)):
        rows, columns = query[place].tolist(), key[place].tolist()
        for i, j in product(range(queries), range(keys)):
            scores[(*place, i, j)] = pair(rows[i], columns[j])
    scores = scores.to(query.device, query.dtype)
    return scores if attn_mask is None else torch.where(attn_mask, scores, -math.inf)


def _function(score: str, width: int, key_width: int, weights: dict[str, Tensor | None]) -> Callable[[Row, Row], float]:
    """The function of one query and one key."""
    expected = {"bilinear": {"w"}, "additive": {"w_query", "w_key", "w_score"}}.get(score, set())
    present = {name: tensor for name, tensor in weights.items() if tensor is not None}
    if set(present) != expected:
        raise ValueError(f"{score} takes {sorted(expected)}, {len(expected)} weights, not {sorted(present)}")
    numbers = {name: tensor.tolist() for name, tensor in present.items()}
    if score == "bilinear":
        return lambda q, k: math.fsum(x * _dot(row, k) for x, row in zip(q, numbers["w"], strict=True))
    if score == "additive":
        by_query, by_key = (list(zip(*numbers[name], strict=True)) for name in ("w_query", "w_key"))
        return lambda q, k: math.fsum(
            s * math.tanh(_dot(q, query_column) + _dot(k, key_column))
            for s, query_column, key_column in zip(numbers["w_score"], by_query, by_key, strict=True)
        )
    if width != key_width:
        raise ValueError(f"query and key should be equally wide, not {width} and {key_width}")
    simple: dict[str, Callable[[Row, Row], float]] = {
        "dot": _dot,
        "scaled_dot": lambda q, k: _dot(q, k) / math.sqrt(width),
        "distance": lambda q, k: -math.fsum((x - y) ** 2 for x, y in zip(q, k, strict=True)) / 2,
    }
    if score not in simple:
        raise ValueError(f"there are {len(simple) + 2} functions: {', '.join(simple)}, bilinear, additive; not {score}")
    return simple[score]


def _dot(left: Row, right: Row) -> float:
    return math.fsum(x * y for x, y in zip(left, right, strict=True))
