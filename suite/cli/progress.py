"""How far a command is: a bar of rich on a terminal, else a line now and then; and a line for each result."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, TextIO

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from attnsuite.model import Explanation, Measurement, Outcome, Reason, escaped
from attnsuite.report import benchmark_lines, summary_lines

if TYPE_CHECKING:
    from attnsuite.benchmark import Table
    from attnsuite.documents.learning.engine import Watch

FIRST = (10.0, 30.0, 60.0)
"""Seconds after the start at which a line is printed where there is no bar."""
LATER = 60.0
"""Seconds between the lines after those: CI services end a job that prints nothing for some minutes."""
LONGEST_CASE = 80
"""Characters of the name of a case that are shown."""
COMPILER_LOOK = 3.0
"""Seconds between two looks at whether a compiler runs."""
COMPILERS = {
    **dict.fromkeys(("cc1", "cc1plus", "g++", "gcc", "c++", "clang", "clang++"), "a C++ compiler"),
    **dict.fromkeys(("nvcc", "cicc", "ptxas"), "a compiler for CUDA"),
}
"""What a program compiles with, by the name of its process."""


def compiler_at_work() -> str:
    """The compiler that a descendant of this process runs right now; empty without any."""
    with suppress(psutil.Error, OSError):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if known := COMPILERS.get(child.name()):
                    return known
    return ""


class _Activity(TextColumn):
    """What is tested or timed now, and the compiler that is at work."""

    def __init__(self) -> None:
        super().__init__("{task.description}")
        self._compiler, self._looked = "", -COMPILER_LOOK

    def render(self, task: Task) -> Text:
        now = task.get_time()
        if now >= self._looked + COMPILER_LOOK:
            self._compiler, self._looked = compiler_at_work(), now
        shown = super().render(task)
        return shown.append(f" (compiling with {self._compiler})") if self._compiler else shown


class Heartbeat:
    """Counts tests or tables, and prints on standard error how many of `total` are done, from `start` to `stop`.

    Lines come from a thread of their own, so that one test that takes minutes is no silence.
    """

    def __init__(self, total: int, what: str = "tests") -> None:
        self.total, self.what, self.name = total, what, ""
        self.done, self.given_up, self.seconds = 0, 0, 0.0
        self.slowest: Outcome | None = None
        self._over, self._started = Event(), time.monotonic()
        self._thread = Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def count(self, outcome: Outcome) -> None:
        """Count an outcome; a test that was skipped after timeouts is counted apart."""
        if outcome.reason == Reason.NOT_ASKED:
            self.given_up += 1
            return
        self.done += 1
        self.seconds += outcome.seconds or 0.0
        if (outcome.seconds or 0.0) > (self.slowest.seconds or 0.0 if self.slowest else 0.0):
            self.slowest = outcome

    def line(self, after: float, compiler: str = "") -> str:
        """How far it is: `12 of 3,367 tests done after 10 s, now attention/mine; …`. `compiler` is one that runs."""
        done = f"{min(self.done, self.total):,} of {self.total:,} {self.what} done after {after:.0f} s"
        if self.what == "tests" and self.done + self.given_up >= self.total:
            given_up = f", {self.given_up:,} given up" if self.given_up else ""
            return f"{done}{given_up}; failures are analysed"
        done += f", now {self.name}" if self.name else ""
        done += f", compiling with {compiler}" if compiler else ""
        if self.slowest is None:
            return done
        case = self.slowest.case if len(self.slowest.case) <= LONGEST_CASE else f"{self.slowest.case[:LONGEST_CASE]}…"
        slowest = f"{in_seconds(self.slowest.seconds or 0.0)} ({case} in {self.slowest.dtype})"
        return f"{done}; calls took {in_seconds(self.seconds)}, the slowest {slowest}"

    def _beat(self) -> None:
        for after in _times():
            if self._over.wait(max(0.0, self._started + after - time.monotonic())):
                return
            print(escaped(self.line(after, compiler_at_work())), file=sys.stderr, flush=True)


def in_seconds(seconds: float) -> str:
    """Seconds in two digits, or in whole seconds from 10 on."""
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.2g} s"


def _times() -> Iterator[float]:
    yield from FIRST
    after = FIRST[-1]
    while True:
        after += LATER
        yield after


def _ignore(_: Any) -> None:
    """Without --json."""


class Shown:
    """Shows a check or a benchmark of `total` steps: a bar or a heartbeat on standard error, results on `lines`.

    `outcome` and `measurement` get each row at once. `again` has the words of a command line that name an
    implementation; `reasons` adds lines that say why cases were declined, `verbose` one for each bad input that was
    accepted; `sampled` has the number of all tests of implementations that are tested on a sample. A `quiet` one has no
    bar, and lines of failures only; without `lines` there are none.
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
        what: str = "tests",
        outcome: Callable[[Outcome], None] = _ignore,
        measurement: Callable[[Measurement], None] = _ignore,
    ) -> None:
        self._lines, self._again, self._reasons = lines, again or {}, reasons and not quiet
        self._quiet, self._verbose, self._sampled = quiet, verbose, sampled or {}
        self._introduction: list[str] = []
        self._outcome, self._measurement = outcome, measurement
        self._bar: Progress | None = None
        self._heartbeat: Heartbeat | None = None
        if lines is None or quiet:
            return
        if not sys.stderr.isatty():
            self._heartbeat = Heartbeat(total, what)
            return
        columns = (_Activity(), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._start_or_stop("start")
        return self

    def __exit__(self, *_: object) -> None:
        self._start_or_stop("stop")

    def _start_or_stop(self, what: str) -> None:
        for each in (self._bar, self._heartbeat):
            if each:
                getattr(each, what)()

    def begins(self, what: str) -> None:
        """An implementation or a table is next."""
        if self._bar:
            self._bar.update(self._task, description=what)
        if self._heartbeat:
            self._heartbeat.name = what

    def introduced(self, line: str) -> None:
        """Print what an implementation was taken for; a quiet check prints it with its failures."""
        if self._quiet:
            self._introduction = [line]
        else:
            self._print([line])

    def introduced_by(self, outcomes: Iterator[Outcome], signed: Mapping[str, str], name: str) -> Iterator[Outcome]:
        """The outcomes; before the first of them the signature is printed that its import has shown."""
        first = next(outcomes, None)
        if line := signed.get(name):
            self.introduced(line)
        yield from () if first is None else (first,)
        yield from outcomes

    def asked(self, outcome: Outcome) -> None:
        """Count an outcome, of now or of the run that is resumed."""
        if self._heartbeat:
            self._heartbeat.count(outcome)
        if self._bar:
            self._bar.advance(self._task)

    def checked(self, outcomes: Sequence[Outcome]) -> None:
        """Print the summary of an implementation, and write a row for each outcome, which is final now."""
        for outcome in outcomes:
            self._outcome(outcome)
        introduction, self._introduction = self._introduction, []
        if not self._quiet or any(outcome.fails for outcome in outcomes):
            summary = summary_lines(outcomes, self._again, self._reasons, self._verbose, self._sampled)
            self._print([*introduction, *summary])

    def again(self, outcomes: Iterable[Outcome]) -> None:
        """Show stored outcomes as if their tests ran now."""
        for _, members in groupby(outcomes, key=lambda outcome: outcome.implementation):
            own = list(members)
            for outcome in own:
                self.asked(outcome)
            self.checked(own)

    def explained(self, explanation: Explanation) -> None:
        self._print(explanation.lines)

    def timed(self, measurements: Sequence[Measurement], table: Table | None, baseline: str) -> None:
        """Print a table. Without a table, the rows say why implementations cannot be timed at all."""
        self.resumed(measurements)
        self._print(benchmark_lines(measurements, "" if table is None else table.workload.shape, baseline))
        if table is not None and self._bar:
            self._bar.advance(self._task)
        if table is not None and self._heartbeat:
            self._heartbeat.done += 1

    def resumed(self, measurements: Iterable[Measurement]) -> None:
        """Pass on the rows, also those of the run that is resumed."""
        for measurement in measurements:
            self._measurement(measurement)

    def _print(self, lines: Sequence[str]) -> None:
        if self._bar:
            self._bar.stop()
        for line in lines if self._lines is not None else ():
            print(escaped(line), file=self._lines, flush=True)
        if self._bar:
            self._bar.start()


class Epochs:
    """A bar of epochs on standard error for each training that runs; lines go to standard output.

    Bars are drawn as epochs end: a thread that drew them now and then would hold locks while a training is forked from
    this process, and standard output that went through them would do so in the fork, too.
    """

    def __init__(self) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        settings: dict[str, Any] = {"auto_refresh": False, "redirect_stdout": False, "redirect_stderr": False}
        self._is_bar = sys.stderr.isatty()
        self._bars = Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not self._is_bar, **settings
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def begins(self, training: str) -> Watch:
        """What watches a training that begins. A training that resumes from a checkpoint is a line."""
        self._tasks[training] = self._bars.add_task(training, total=None)
        begun = False

        def watch(epoch: int, epochs: int) -> None:
            nonlocal begun
            if epoch and not begun:
                left = f"resumes after epoch {epoch} of {epochs}" if epoch < epochs else "was trained before"
                self.say(f"{training}: {left}, from its checkpoint", error=True)
            begun = True
            self._bars.update(self._tasks[training], completed=epoch, total=epochs, refresh=True)

        return watch

    def ended(self, training: str, line: str) -> None:
        """Print the result of a training."""
        if training in self._tasks:
            self._bars.remove_task(self._tasks.pop(training))
        self.say(line)

    def say(self, line: str, error: bool = False) -> None:
        """Print a line: above the bars where it goes to the same terminal."""
        if self._is_bar and (error or sys.stdout.isatty()):
            self._bars.console.print(Text(line), soft_wrap=True)
        else:
            print(line, file=sys.stderr if error else sys.stdout, flush=True)
