"""Progress and results on the terminal: a progress bar, or lines at intervals; and lines for each result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count, groupby
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from attnsuite.model import Explanation, Measurement, Outcome, escaped
from attnsuite.report import benchmark_lines, summary_lines

if TYPE_CHECKING:
    from attnsuite.benchmark.request import Table

FIRST = (10.0, 30.0, 60.0)
"""Seconds after the start at which lines are printed where there is no bar."""
LATER = 60.0
"""Seconds between later lines. CI services end a job that prints nothing for some minutes."""


class Bar:
    """A progress bar of `total` steps on a terminal; it disappears at the end."""

    def __init__(self, total: int) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total)
        self.start, self.stop = self._bar.start, self._bar.stop

    def begin(self, name: str) -> None:
        """Show the implementation whose tests begin."""
        self._bar.update(self._task, description=name)

    def count(self, outcome: Outcome | None = None) -> None:
        """Advance by one test."""
        self._bar.advance(self._task)


@dataclass
class Heartbeat:
    """Prints on standard error how many of `total` tests or tables are done, from `start` to `stop`.

    A thread prints the lines, so that they appear during a test that takes minutes.
    """

    total: int
    what: str = "tests"
    name: str = ""
    done: int = 0
    _over: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Start the thread that prints a line from time to time."""
        self._thread = Thread(target=self._beat, args=(time.monotonic(),), name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        if self._thread:
            self._thread.join()

    def begin(self, name: str) -> None:
        """Name the implementation whose tests begin."""
        self.name = name

    def count(self, outcome: Outcome | None = None) -> None:
        """Count an outcome, or a table."""
        self.done += 1

    def line(self, after: float) -> str:
        """The line, as `12 of 3,367 tests done after 10 s, now attention/mine`."""
        done = f"{min(self.done, self.total):,} of {self.total:,} {self.what} done after {after:.0f} s"
        return f"{done}, now {self.name}" if self.name and self.done < self.total else done

    def _beat(self, started: float) -> None:
        for after in chain(FIRST, count(FIRST[-1] + LATER, LATER)):
            if self._over.wait(max(0.0, started + after - time.monotonic())):
                return
            print(escaped(self.line(after)), file=sys.stderr, flush=True)


def _ignore(_: Any) -> None:
    """Without --json."""


@dataclass
class Display:
    """Displays a check or a benchmark of `total` steps: progress on standard error, results on `lines`."""

    total: int
    lines: TextIO | None
    """Where results are printed; None prints nothing."""
    again: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The words of a command line that name an implementation."""
    reasons: bool = False
    """Whether lines give the reasons of unsupported cases."""
    sampled: Mapping[str, int] = field(default_factory=dict)
    """The number of all tests of each implementation that is tested on a sample."""
    quiet: bool = False
    """Whether only failures are printed, without progress."""
    verbose: bool = False
    """Whether accepted bad input is listed."""
    what: str = "tests"
    row: Callable[[Any], None] = _ignore
    """Receives each final outcome and each measurement."""

    def __post_init__(self) -> None:
        shows = self.lines is not None and not self.quiet
        steps: Bar | Heartbeat = Bar(self.total) if sys.stderr.isatty() else Heartbeat(self.total, self.what)
        self._steps = steps if shows else None
        self._introduction: list[str] = []

    def __enter__(self) -> Self:
        if self._steps:
            self._steps.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._steps:
            self._steps.stop()

    def begin(self, what: str) -> None:
        """An implementation or a table is next."""
        if self._steps:
            self._steps.begin(what)

    def introduce(self, line: str) -> None:
        """Print how an implementation was recognised; a quiet check prints it with the failures."""
        if self.quiet:
            self._introduction = [line]
        else:
            self._print([line])

    def introduced(self, outcomes: Iterator[Outcome], signatures: Mapping[str, str], name: str) -> Iterator[Outcome]:
        """The outcomes. Before the first one, the signature that its import has determined is printed."""
        first = next(outcomes, None)
        if line := signatures.get(name):
            self.introduce(line)
        yield from () if first is None else (first,)
        yield from outcomes

    def count(self, outcome: Outcome | None = None) -> None:
        """Count a table, or an outcome of this run or of the resumed one."""
        if self._steps:
            self._steps.count(outcome)

    def show_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Print the summary of an implementation, and write a row for each outcome; they are final now."""
        for outcome in outcomes:
            self.row(outcome)
        introduction, self._introduction = self._introduction, []
        if not self.quiet or any(outcome.fails for outcome in outcomes):
            reasons = self.reasons and not self.quiet
            self._print([*introduction, *summary_lines(outcomes, self.again, reasons, self.verbose, self.sampled)])

    def show_stored(self, outcomes: Iterable[Outcome]) -> None:
        """Show stored outcomes as if their tests ran now."""
        for _, members in groupby(outcomes, key=lambda outcome: outcome.implementation):
            self.show_outcomes(list(members))

    def explain(self, explanation: Explanation) -> None:
        """Print an explanation."""
        self._print(explanation.lines)

    def show_table(self, measurements: Sequence[Measurement], table: Table | None, baseline: str) -> None:
        """Print a table. Rows without a table give the reasons why implementations cannot be timed at all."""
        for measurement in measurements:
            self.row(measurement)
        self._print(benchmark_lines(measurements, "" if table is None else table.workload.shape, baseline))
        if table is not None:
            self.count()

    def _print(self, lines: Sequence[str]) -> None:
        if isinstance(self._steps, Bar):
            self._steps.stop()
        for line in lines if self.lines is not None else ():
            print(escaped(line), file=self.lines, flush=True)
        if isinstance(self._steps, Bar):
            self._steps.start()
