"""Bahdanau encoder–decoders with exactly one named mistake each."""

from __future__ import annotations

from suite.asking.staged import imprecise
from suite.contracts.models.seq2seq_attention.deviations.staged import Recurrent

CONTROLS = {"correct": Recurrent()}
OTHERS = imprecise(Recurrent)
