"""How many bounds from the truth an attention may be."""

from __future__ import annotations

ACCEPT_OUTPUT = 2.0
"""Outputs are accepted up to this many bounds: honest kernels stay under 1, one was measured at 1.4."""
ACCEPT_GRADIENT = 1.0
"""Honest backward passes stay under 0.31."""
