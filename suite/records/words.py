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
