"""Mistakes that only a signature of the field invites: its axes or its alignment are read as another's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from suite.asking import Deviation
from suite.signatures.signature import Signature


def deviations(of: Signature) -> Sequence[Deviation]:
    """Mistakes in reading this signature, beside those that every attention can make."""
    axes = f"({', '.join(of.axes.split())})"
    if not of.heads_inside:
        return ()
    return [
        Deviation(
            "reads_positions_as_heads",
            f"the axes {axes} are read with heads before positions: a position attends to the heads beside it",
            _over_heads,
        )
    ]


def _over_heads(query: Any, key: Any, value: Any, **options: Any) -> Any:
    """Attention between the heads of each position."""
    from suite.contracts.attention.computation.asked import as_attention
    from suite.contracts.attention.computation.dense import correct

    if query.dim() < 3:
        raise ValueError("there are no heads")
    turned = [each.transpose(-2, -3) for each in (query, key, value)]
    return as_attention(correct)(*turned, **options).transpose(-2, -3)
