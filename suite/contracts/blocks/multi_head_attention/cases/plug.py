"""An attention that is plugged in, of which the answers are zeros."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from suite.asking import Call, Conventions
from suite.asking.question import Question
from suite.contracts.blocks.multi_head_attention.cases.decisions import of
from suite.contracts.blocks.multi_head_attention.cases.draws import drawn
from suite.contracts.blocks.multi_head_attention.contract import BIASES, POSITIONAL
from suite.contracts.blocks.multi_head_attention.oracle import multi_head_attention
from suite.judging.precision import Bounded


@dataclass(frozen=True)
class Plugged(Question):
    """The truth is what comes out where all values are mapped to zeros."""

    def calls(self, dtype: str) -> tuple[Call, ...]:
        return tuple(replace(call, probed=True) for call in super().calls(dtype))

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Bounded:
        (call,) = calls
        zeros = {name: 0 * call.tensors[name] for name in ("w_value", "b_value") if name in call.tensors}
        return super().truth((replace(call, tensors={**call.tensors, **zeros}),), conventions)


def plug() -> Iterator[Plugged]:
    """The attention that is given computes all heads."""
    yield _question("plug/called", "it computes the heads, and is given the query's dtype")
    yield _question("plug/masked", "with a mask, biases and an output map", mask=of(2, 2, 5, 7), out_width=5, biases=BIASES)  # fmt: skip


def _question(name: str, why: str, **unusual: Any) -> Plugged:
    return Plugged(name, why, multi_head_attention, partial(drawn, **unusual), POSITIONAL, {"num_heads": 2})
