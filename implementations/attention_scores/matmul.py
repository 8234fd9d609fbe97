"""Attention scores as matrix products in PyTorch."""

import math

import torch
from torch import Tensor

from attnsuite import implementation
from attnsuite.implementations._checks import check_axes, check_choice, check_mask

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
    check_choice("score", score, tuple(WEIGHTS))
    if set(present) != set(WEIGHTS[score]):
        raise ValueError(f"{score} has weights {[*present]}, expected the {len(WEIGHTS[score])}: {[*WEIGHTS[score]]}")
    axes = {"w": "q k", "w_query": "q f", "w_key": "k f", "w_score": "f"}
    width = "k" if WEIGHTS[score] else "q"
    maps = {name: (tensor, axes[name]) for name, tensor in present.items()}
    check_axes(query=(query, "... l q"), key=(key, f"... s {width}"), **maps)
    check_mask(attn_mask, (*query.shape[:-1], key.shape[-2]))
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
