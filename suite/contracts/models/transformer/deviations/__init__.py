"""Transformers with exactly one named mistake each."""

from __future__ import annotations

from suite.asking.staged import imprecise
from suite.contracts.models import eager
from suite.contracts.models.transformer.deviations.staged import Transformer

CONTROLS = {"correct": Transformer()}
OTHERS = [*eager.deviations(Transformer), *imprecise(Transformer)]
