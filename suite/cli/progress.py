"""How far a check or a benchmark is: a bar on a terminal, and a line for each result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from attnsuite.cli.heartbeat import Heartbeat, compiler_at_work
from attnsuite.model import Explanation, Measurement, Outcome, escaped
from attnsuite.report import benchmark_lines, summary_lines
from attnsuite.results.store import RunWriter

if TYPE_CHECKING:
    from attnsuite.benchmark import Table


def _ignore(_: Any) -> None:
    """Used if no file of JSON rows was asked for."""


class Doing(TextColumn):
    """What is tested or timed now, and the compiler that is at work, which is looked up every `EVERY` seconds."""

    EVERY = 3.0

    def __init__(self) -> None:
        super().__init__("{task.description}")
        self._compiler, self._looked = "", -self.EVERY

    def render(self, task: Task) -> Text:
        now = task.get_time()
        if now >= self._looked + self.EVERY:
            self._compiler, self._looked = compiler_at_work(), now
        shown = super().render(task)
        return shown.append(f" (compiling with {self._compiler})") if self._compiler else shown


class Shown:
    """The `campaign.Watcher` of the command line: a bar of `total` steps, and lines for people.

    The bar is on standard error if that is a terminal, and disappears at the end; else tests, or tables where these are
    no `questions`, are counted there in a line at least every minute. Lines go to standard output, unless
    JSON rows go there. `outcome` and `measurement` get each row as it comes. `again` has the words of a command
    line that name an implementation; `reasons` adds lines that say why cases were declined, `verbose` one for each bad
    input that was accepted; `sampled` has the implementations that are tested on a sample, with the number of their
    tests in all. A `quiet` one has no bar, and lines of what fails alone; without `lines` there are none.
    """

    def __init__(
        self,
        total: int,
        lines: TextIO | None,
        *,
        again: Mapping[str, Sequence[str]] | None = None,
        reasons: bool = False,
        sampled: Mapping[str, int] | None = None,
        quiet: bool = False,
        verbose: bool = False,
        questions: bool = True,
        outcome: Callable[[Outcome], None] = _ignore,
        measurement: Callable[[Measurement], None] = _ignore,
    ) -> None:
        self._lines, self._again, self._reasons = lines, again or {}, reasons and not quiet
        self._quiet, self._verbose, self._sampled = quiet, verbose, sampled or {}
        self._held: list[str] = []
        self._outcome, self._measurement = outcome, measurement
        self._bar: Progress | None = None
        self._heartbeat: Heartbeat | None = None
        if lines is not None and not quiet and not sys.stderr.isatty():
            self._heartbeat = Heartbeat(total, what="tests" if questions else "tables")
        if lines is not None and not quiet and sys.stderr.isatty():
            columns = (Doing(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        if self._heartbeat:
            self._heartbeat.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._heartbeat:
            self._heartbeat.stop()
        if self._bar:
            self._bar.stop()

    def begins(self, what: str) -> None:
        if self._bar:
            self._bar.update(self._task, description=what)
        if self._heartbeat:
            self._heartbeat.who = what

    def asked(self, outcome: Outcome) -> None:
        self._outcome(outcome)
        if self._heartbeat:
            self._heartbeat.saw(outcome)
        self._step()

    def introduced(self, line: str) -> None:
        if self._quiet:
            self._held = [line]  # until something fails
        else:
            self._print([line])

    def checked(self, outcomes: Sequence[Outcome]) -> None:
        held, self._held = self._held, []
        if not self._quiet or any(outcome.fails for outcome in outcomes):
            self._print([*held, *summary_lines(outcomes, self._again, self._reasons, self._verbose, self._sampled)])

    def explained(self, explanation: Explanation) -> None:
        self._print(explanation.lines)

    def timed(self, measurements: Sequence[Measurement], table: Table | None, baseline: str) -> None:
        self.resumed(measurements)
        self._print(benchmark_lines(measurements, "" if table is None else table.workload.shape, baseline))
        if table is not None:
            self._step()
            if self._heartbeat:
                self._heartbeat.answered += 1

    def resumed(self, measurements: Sequence[Measurement]) -> None:
        for measurement in measurements:
            self._measurement(measurement)

    def _step(self) -> None:
        if self._bar:
            self._bar.advance(self._task)

    def _print(self, lines: Sequence[str]) -> None:
        if self._bar:
            self._bar.stop()
        for line in lines if self._lines is not None else ():
            print(escaped(line), file=self._lines, flush=True)
        if self._bar:
            self._bar.start()


def say_how_it_starts(writer: RunWriter) -> None:
    """Print what was repaired in results/, and whether an interrupted run is resumed."""
    for line in how_it_starts(writer):
        print(line, file=sys.stderr)


def how_it_starts(writer: RunWriter) -> Iterator[str]:
    """What was repaired in results/, and whether an interrupted run is resumed."""
    yield from writer.notes
    if writer.resumed:
        there = f"{len(writer.recorded)} outcomes and {len(writer.recorded_measurements)} measurements"
        yield f"resuming the run of {writer.run.started}: {there} are there already"
