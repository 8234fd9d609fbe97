"""The same code timed in one of several runs of a machine: what tells how far its runs lie apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Repeated:
    """The baseline (`place` 0), or an implementation identical to it, timed beside it in one run."""

    run: str
    """When the run started; it tells runs apart."""
    workload: str
    threads: int
    place: int
    seconds: float
    """The median time of a call."""
    ratio: float
    """The median over rounds of its time as a multiple of the baseline's; 1 for the baseline."""
