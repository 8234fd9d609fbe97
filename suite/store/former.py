"""What rows of former versions say in words alone, read into the fields that it has today."""

from __future__ import annotations

import re
from dataclasses import replace

from suite.records import Measurement, Outcome, Reason, Status

TOO_SLOW = "too slow"
"""How a detail began where an implementation was declined because a call takes too long."""
MODELS = ("transformer", "vision_transformer", "seq2seq_attention")
"""The contracts of models, whose baseline was `eager` when runs did not say so; that of the others was `matmul`."""
_DEVIATION = re.compile(r'\bequals "([^"]+)"')


def outcome(of: Outcome) -> Outcome:
    """With the deviations that its detail names."""
    if of.status != Status.WRONG or of.diagnosis:
        return of
    named = tuple(_DEVIATION.findall(of.detail))
    return replace(of, diagnosis=named) if named else of


def measurement(of: Measurement) -> Measurement:
    """With its reason, where it was declined because a call takes too long."""
    is_slow = of.status == Status.DECLINED and of.detail.startswith(TOO_SLOW)
    return replace(of, reason=Reason.TOO_SLOW) if is_slow and not of.reason else of
