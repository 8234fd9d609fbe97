"""Implementations of multi-head attention with exactly one named mistake each."""

from __future__ import annotations

from suite.asking.layouts import in_memory_order
from suite.asking.staged import imprecise
from suite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead

CONTROLS = {"correct": MultiHead()}
OTHERS = [in_memory_order(MultiHead()), *imprecise(MultiHead)]
