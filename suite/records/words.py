"""The words that requests and rows use: dtypes, directions, caches, profiles."""

from __future__ import annotations

DTYPES = ("float64", "float32", "float16", "bfloat16")
DIRECTIONS = ("forward", "backward", "forward_backward")
CACHES = ("hot", "cold")
PROFILES = ("quick", "standard", "full")

EVERY_CASE = "*"
"""The case, dtype or workload of a row that is about all of them: a missing library, an import that raised."""


class UsageError(Exception):
    """A request that cannot be carried out. Its message is one line: what came, and what exists. Exit status 2."""
