"""The words that a request and a row are made of: dtypes, directions, caches, profiles."""

from __future__ import annotations

DTYPES = ("float64", "float32", "float16", "bfloat16")
DIRECTIONS = ("forward", "backward", "forward_backward")
CACHES = ("hot", "cold")
PROFILES = ("quick", "standard", "full")

EVERY_CASE = "*"
"""The case of a row that speaks of all cases at once: a missing library, an import that raised."""


class UsageError(Exception):
    """A request that cannot be carried out: one line that says what came and what exists. Exit status 2."""


TOO_SLOW = "too slow"
"""How the detail begins where an implementation is declined because a call takes too long."""
BASELINE, MODEL_BASELINE = "matmul", "eager"
MODELS = ("transformer", "vision_transformer", "seq2seq_attention")


def baseline(contract: str) -> str:
    """The implementation of a contract that others are compared with."""
    return MODEL_BASELINE if contract in MODELS else BASELINE
