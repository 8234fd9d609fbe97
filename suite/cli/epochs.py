"""How far trainings are: a bar of epochs for each that runs, and a line for each that has ended."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

if TYPE_CHECKING:
    from attnsuite.documents.learning.engine import Watch

COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


class Epochs:
    """Bars on standard error if that is a terminal; they disappear at the end. Lines go to standard output.

    Bars are drawn as epochs end: a thread that drew them now and then would hold locks while a training is copied from
    this process, and standard output that went through them would do so in the copy, too.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        settings: dict[str, Any] = {"auto_refresh": False, "redirect_stdout": False, "redirect_stderr": False}
        self._bars = Progress(*COLUMNS, console=console, transient=True, **settings) if sys.stderr.isatty() else None
        self._shown: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bars:
            self._bars.stop()

    def begins(self, training: str) -> Watch:
        """What watches a training that begins. That it goes on behind a checkpoint is said in a line."""
        if self._bars:
            self._shown[training] = self._bars.add_task(training, total=None)
        begun = False

        def watch(epoch: int, epochs: int) -> None:
            nonlocal begun
            if epoch and not begun:
                left = f"goes on after epoch {epoch} of {epochs}" if epoch < epochs else "was trained before"
                self.say(f"{training}: {left}, from its checkpoint", error=True)
            begun = True
            if self._bars:
                self._bars.update(self._shown[training], completed=epoch, total=epochs, refresh=True)

        return watch

    def ended(self, training: str, line: str) -> None:
        """Say what came of a training."""
        if self._bars and training in self._shown:
            self._bars.remove_task(self._shown.pop(training))
        self.say(line)

    def say(self, line: str, error: bool = False) -> None:
        """Print a line: above the bars where it goes to a terminal as they do."""
        if self._bars and (error or sys.stdout.isatty()):
            self._bars.console.print(Text(line), soft_wrap=True)
        else:
            print(line, file=sys.stderr if error else sys.stdout, flush=True)
