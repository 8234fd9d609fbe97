"""The same code timed in one of several runs of a machine: what tells how far its runs lie apart."""

from __future__ import annotations

from attnsuite.model.typed import Count, Name, Row, Sample


class Repeated(Row, frozen=True):
    """The baseline (`place` 0), or an implementation identical to it, timed beside it in one run."""

    run: Name
    """When the run started; it tells runs apart."""
    workload: Name
    threads: Count
    place: Count
    seconds: Sample
    """The median time of a call."""
    ratio: Sample
    """The median over rounds of its time as a multiple of the baseline's; 1 for the baseline."""

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from other rows of its kind in a run."""
        return self.run, self.workload, str(self.threads), str(self.place)
