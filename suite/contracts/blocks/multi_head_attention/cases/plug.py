"""An attention is plugged in that answers zeros."""

from __future__ import annotations

from collections.abc import Iterator

from suite.asking.plugged import Plugged
from suite.contracts.blocks.multi_head_attention.cases.decisions import of
from suite.contracts.blocks.multi_head_attention.cases.draws import asked
from suite.contracts.blocks.multi_head_attention.contract import BIASES


def plug() -> Iterator[Plugged]:
    """The attention that is given computes all heads."""
    yield Plugged(asked("plug/called", "it computes the heads, and is given the query's dtype"))
    why = "with a mask, biases and an output map"
    yield Plugged(asked("plug/masked", why, mask=of(2, 2, 5, 7), out_width=5, biases=BIASES))
