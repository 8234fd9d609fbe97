"""Implementations of multi-head attention with exactly one named mistake each."""

from __future__ import annotations

from attnsuite.cases.computations import usual_mutants
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead

CONTROLS = {"correct": MultiHead()}
GENERAL_MUTANTS = usual_mutants(MultiHead)
