"""The staged computations with no step replaced: correct, so the audit can check that they pass."""

from __future__ import annotations

from suite.contracts.attention.deviations.asked import as_attention
from suite.contracts.attention.deviations.backward import Backward
from suite.contracts.attention.deviations.staged import Dense, Tiled

correct_dense = as_attention(Dense())
correct_tiled = as_attention(Tiled())
correct_backward = as_attention(Backward())
