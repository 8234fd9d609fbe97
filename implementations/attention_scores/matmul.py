"""Attention scores as matrix products in PyTorch."""

import math

import torch
from torch import Tensor

from attnsuite import implementation

WEIGHTS = {"dot": (), "scaled_dot": (), "bilinear": ("w",), "additive": ("w_query", "w_key", "w_score"), "distance": ()}


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

    Raises ValueError, before any work, for inputs that the function does not define.
    """
    weights = {"w": w, "w_query": w_query, "w_key": w_key, "w_score": w_score}
    present = {name: tensor for name, tensor in weights.items() if tensor is not None}
    _check(query, key, score, present)
    if attn_mask is not None:
        _check_mask(attn_mask, (*query.shape[:-1], key.shape[-2]))
    scores = _scores(query, key, score, present)
    return scores if attn_mask is None else scores.masked_fill(~attn_mask, -torch.inf)


def _scores(query: Tensor, key: Tensor, score: str, present: dict[str, Tensor]) -> Tensor:
    dtype = query.dtype
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    query, key = query.to(wide), key.to(wide)
    present = {name: tensor.to(wide) for name, tensor in present.items()}
    if score == "bilinear":
        query = query @ present["w"]
    elif score == "scaled_dot":
        query = query / math.sqrt(query.shape[-1])
    elif score == "additive":
        features = (query @ present["w_query"]).unsqueeze(-2) + (key @ present["w_key"]).unsqueeze(-3)  # ... l s f
        return (features.tanh() @ present["w_score"]).to(dtype)
    elif score == "distance":
        differences = query.unsqueeze(-2) - key.unsqueeze(-3)  # ... l s e
        return differences.square().sum(-1).mul(-0.5).to(dtype)
    return (query @ key.mT).to(dtype)


def _check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    if mask.dtype != torch.bool:
        raise ValueError(f"attn_mask should be torch.bool, not {mask.dtype}")
    fits = all(size in (1, expected) for size, expected in zip(reversed(mask.shape), reversed(shape), strict=False))
    if mask.dim() > len(shape) or not fits:
        raise ValueError(f"attn_mask {tuple(mask.shape)} cannot broadcast to the scores {shape}")


def _check(query: Tensor, key: Tensor, score: str, weights: dict[str, Tensor]) -> None:
    if score not in WEIGHTS:
        raise ValueError(f"score should be one of {', '.join(WEIGHTS)}, not {score!r} ({len(WEIGHTS)} exist)")
    expected = WEIGHTS[score]
    if set(weights) != set(expected):
        actual = ", ".join(weights) or "none"
        raise ValueError(
            f"{score} takes {len(expected)} weights, {', '.join(expected) or 'none'}; {len(weights)} given: {actual}"
        )
    if query.shape[:-2] != key.shape[:-2] or query.dim() != key.dim():
        raise ValueError(f"the leading axes of key should be the query's, {tuple(query.shape)}, not {tuple(key.shape)}")
    width, key_width = query.shape[-1], key.shape[-1]
    if score == "bilinear":
        shapes = {"w": (width, key_width)}
    elif score == "additive":
        features = len(weights["w_score"])
        shapes = {"w_query": (width, features), "w_key": (key_width, features)}
    elif width != key_width:
        raise ValueError(f"the width of key should be the query's, {width}, not {key_width}")
    else:
        shapes = {}
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(f"{name} should have shape {shape}, not {tuple(weights[name].shape)}")
