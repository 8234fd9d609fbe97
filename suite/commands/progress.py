"""How far a long command is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Steps:
    """Counts steps under a heading. On a terminal the bar stands on standard error and goes when it is done.

    Lines that stay go to `lines`: standard output, unless something for programs goes there.
    """

    def __init__(self, total: int, lines: TextIO) -> None:
        self.total, self.lines = total, lines
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def heading(self, text: str) -> None:
        """What is being done now. Nothing is printed without a terminal: results follow as plain lines."""
        if self._bar:
            self._bar.update(self._task, description=text)

    def step(self, count: int = 1) -> None:
        if self._bar:
            self._bar.advance(self._task, count)

    def line(self, text: str) -> None:
        """A line that stays."""
        if self._bar:
            self._bar.stop()
        print(text, file=self.lines, flush=True)
        if self._bar:
            self._bar.start()
