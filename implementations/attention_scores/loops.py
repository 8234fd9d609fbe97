"""Attention scores one pair of a query and a key at a time, in Python's own arithmetic."""

import math
from collections.abc import Callable
from itertools import product

import torch
from torch import Tensor

from attnsuite import implementation

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
    *lead, queries, width = query.shape
    *key_lead, keys, key_width = key.shape
    if lead != key_lead:
        raise ValueError(f"query {tuple(query.shape)} and key {tuple(key.shape)} have other leading axes")
    pair = _function(score, width, key_width, {"w": w, "w_query": w_query, "w_key": w_key, "w_score": w_score})
    shape = (*lead, queries, keys)
    if attn_mask is not None:
        _check_mask(attn_mask, shape)
    scores = torch.empty(shape, dtype=torch.float64)
    for place in product(*map(range, lead)):
        rows, columns = query[place].tolist(), key[place].tolist()
        for i, j in product(range(queries), range(keys)):
            scores[(*place, i, j)] = pair(rows[i], columns[j])
    scores = scores.to(query.device, query.dtype)
    return scores if attn_mask is None else torch.where(attn_mask, scores, -math.inf)


def _check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {mask.dtype}")
    pairs = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(size not in (1, full) for size, full in pairs):
        raise ValueError(f"attn_mask {tuple(mask.shape)} does not broadcast to the scores {shape}")


def _function(score: str, width: int, key_width: int, weights: dict[str, Tensor | None]) -> Callable[[Row, Row], float]:
    """The function of one query and one key."""
    expected = {"bilinear": {"w"}, "additive": {"w_query", "w_key", "w_score"}}.get(score, set())
    present = {name: tensor for name, tensor in weights.items() if tensor is not None}
    if set(present) != expected:
        raise ValueError(f"{score} takes {sorted(expected)}, {len(expected)} weights, not {sorted(present)}")
    shapes = {name: tuple(tensor.shape) for name, tensor in present.items()}
    numbers = {name: tensor.tolist() for name, tensor in present.items()}
    if score == "bilinear":
        if shapes["w"] != (width, key_width):
            raise ValueError(f"w should be {width} by {key_width}, not {shapes['w']}")
        return lambda q, k: math.fsum(x * _dot(row, k) for x, row in zip(q, numbers["w"], strict=True))
    if score == "additive":
        features = shapes["w_score"][0]
        for name, wide in (("w_query", width), ("w_key", key_width)):
            if shapes[name] != (wide, features):
                raise ValueError(f"{name} should be {wide} by {features}, not {shapes[name]}")
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
