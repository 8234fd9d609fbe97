"""What a campaign does, shown on a terminal as it goes: a bar, and lines that stay."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from suite.commands.progress import Steps
from suite.records import Measurement, Outcome
from suite.report import benchmark_lines, summary_lines
from suite.store import RunWriter

if TYPE_CHECKING:
    from suite.benchmark import Table


def _nothing(_: Any) -> None:
    """No file of rows was asked for."""


class Shown(Steps):
    """The `campaign.Watcher` of the command line. `outcome` and `measurement` also get each row as it comes.

    `again` has the words that ask an implementation again; `reasons` says why it declines.
    """

    def __init__(
        self,
        total: int,
        lines: TextIO,
        *,
        again: Mapping[str, Sequence[str]] | None = None,
        reasons: bool = False,
        outcome: Callable[[Outcome], None] = _nothing,
        measurement: Callable[[Measurement], None] = _nothing,
    ) -> None:
        super().__init__(total, lines)
        self._again, self._reasons = again or {}, reasons
        self._outcome, self._measurement = outcome, measurement

    def begins(self, what: str) -> None:
        self.heading(what)

    def asked(self, outcome: Outcome) -> None:
        self._outcome(outcome)
        self.step()

    def checked(self, outcomes: Sequence[Outcome]) -> None:
        for line in summary_lines(outcomes, self._again, reasons=self._reasons):
            self.line(line)

    def timed(self, measurements: Sequence[Measurement], table: Table | None, baseline: str) -> None:
        self.resumed(measurements)
        for line in benchmark_lines(measurements, "" if table is None else table.workload.shape, baseline):
            self.line(line)
        if table is not None:
            self.step()

    def resumed(self, measurements: Sequence[Measurement]) -> None:
        for measurement in measurements:
            self._measurement(measurement)


def say_how_it_starts(writer: RunWriter) -> None:
    """What was mended in results/, and whether an interrupted run goes on."""
    for note in writer.notes:
        print(note, file=sys.stderr)
    if writer.resumed:
        there = f"{len(writer.recorded)} outcomes and {len(writer.recorded_measurements)} measurements"
        print(f"resuming the run of {writer.run.started}: {there} are there already", file=sys.stderr)
