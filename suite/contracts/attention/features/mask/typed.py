"""Masks as a user types them in a shape: `bool`, `float.padding`, `bool.causal.11ls`."""

from __future__ import annotations

import re

from attnsuite.contracts.attention.features.mask.patterns import Mask

TYPED = ("random", "padding", "causal", "window", "everything")
"""The patterns that a user may name: those that leave every query some key, in the order of their use."""


def read(text: str) -> Mask:
    """The mask that a text names: its kind, then, where they are given, its pattern and its axes. ValueError for none."""
    kind, pattern, axes = (*text.split("."), "", "")[:3] if text.count(".") < 3 else ("", "", "")
    found = Mask(kind, pattern or Mask.pattern, axes or Mask.axes)
    rows = found.axes[-2:]
    if kind not in ("bool", "float") or found.pattern not in TYPED or not re.fullmatch("[b1][h1][l1][s1]", found.axes):
        raise ValueError(text)
    if found.pattern in ("causal", "window") and rows != "ls":
        raise ValueError(text)
    return found


def written(mask: Mask) -> str:
    """The text of a mask, without what is usual."""
    pattern, axes = mask.pattern != Mask.pattern, mask.axes != Mask.axes
    return ".".join([mask.kind, *([mask.pattern] if pattern or axes else []), *([mask.axes] if axes else [])])
