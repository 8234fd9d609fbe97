"""Replaces the function that writes its replies, and forges what `WHAT` names."""

import sys
from dataclasses import replace
from typing import Any

import torch

from attnsuite.cases import Reply

WHAT = "nothing"


def large(*shape: int) -> torch.Tensor:
    """One number, repeated."""
    return torch.zeros(1).as_strided(shape, (0,) * len(shape))


def forged(reply: Any) -> Any:
    if not isinstance(reply, Reply):
        return reply
    changes = {
        "seconds": {"seconds": 1.7e308},
        "no gradients": {"gradients": {}},
        "huge gradients": {"gradients": {name: large(1 << 20, 1 << 20) for name in reply.gradients}},
        "other gradients": {"gradients": {name: large(3) for name in reply.gradients}},
    }
    return replace(reply, **changes.get(WHAT, {}))


def forge() -> None:
    """Find the worker's own functions in the frames that lie below, and replace the one that packs."""
    frame = sys._getframe()
    while frame and not (frame.f_code.co_name == "serve" and "pack" in frame.f_globals):
        frame = frame.f_back
    if frame is None or hasattr(frame.f_globals["pack"], "forges"):
        return
    honest = frame.f_globals["pack"]

    def pack(message):
        results = getattr(message, "result", None)
        if isinstance(results, tuple | list):
            message.result = [forged(result) for result in results]
        return honest(message)

    pack.forges = True
    frame.f_globals["pack"] = pack


def attention(query, key, value, *, is_causal=False, scale=None):
    forge()
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale)
