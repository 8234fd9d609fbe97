"""Ratios to another implementation than a contract's own baseline, of what history keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from attnsuite.model import Snapshot, Timed

Table = tuple[str, ...]


def beside(of: Snapshot, baseline: str) -> Snapshot:
    """The run with ratios to this implementation, where it was timed in the same table.

    Both ratios to the contract's baseline are divided, so the interval holds with at least twice the doubt of one.
    """
    pinned = {each.table: each for each in of.timed if each.implementation == baseline and each.ratio}
    return replace(of, timed=tuple(_beside(each, pinned) for each in of.timed))


def _beside(of: Timed, pinned: Mapping[Table, Timed]) -> Timed:
    to = pinned.get(of.table)
    if to is None or of.ratio is None or not to.ratio:
        return replace(of, baseline="", ratio=None, ratio_low=None, ratio_high=None)
    low = of.ratio_low / to.ratio_high if of.ratio_low and to.ratio_high else None
    high = of.ratio_high / to.ratio_low if of.ratio_high and to.ratio_low else None
    return replace(of, baseline=to.implementation, ratio=of.ratio / to.ratio, ratio_low=low, ratio_high=high)
