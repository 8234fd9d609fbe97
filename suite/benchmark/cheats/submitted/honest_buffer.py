"""Keeps a buffer from call to call, and computes every answer."""

import threading

import torch

_kept = threading.local()


def attention(query, key, value):
    if query.requires_grad or key.shape[-2] == 0 or query.dtype != torch.float32 or query.dim() != 4:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value)
    shape = (*query.shape[:-1], key.shape[-2])
    if getattr(_kept, "scores", None) is None or _kept.scores.shape != shape:
        _kept.scores = torch.empty(shape, dtype=query.dtype)
    with torch.no_grad():
        scores = torch.matmul(query, key.transpose(-1, -2), out=_kept.scores)
        return scores.mul_(query.shape[-1] ** -0.5).softmax(-1) @ value
