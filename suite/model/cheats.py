"""What became of submissions that try to fool the suite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cheat:
    """A submission of its own file, and what must become of it. `check` and `bench` are words of `MUST`."""

    name: str
    kind: str
    """Its class: the clock, caches, …; `control` for submissions that are honest, or plainly wrong."""
    says: str
    """What it does, in words."""
    check: str
    bench: str


MUST = {
    "passes": "every answer passes",
    "caught": "it is refused or fails, or the row says that its time is not bounded",
    "either": "its answers pass or fail: where it is caught is the other command's",
    "measured": "it is timed",
    "harmless": "it is timed and its time is true: the suite's own clock bounds it, or the row says that it could not",
    "no gain": "it is refused, or timed and harmless",
    "shown": "it is timed, and the row names the operator that ran",
    "walled": "it writes nothing where a wall keeps files; where none does, what it did is said",
}
"""What a verdict that must be given means, in words."""


@dataclass(frozen=True)
class Trial:
    """What became of one of them under one command."""

    cheat: Cheat
    command: str
    """`check` or `bench`."""
    happened: str
    """In words, with the suite's own complaint."""
    held: bool
    """Whether what happened is what must."""

    @property
    def must(self) -> str:
        """The word for what must happen."""
        return self.cheat.check if self.command == "check" else self.cheat.bench


@dataclass(frozen=True)
class CheatsAudit:
    """All trials of an audit."""

    trials: Sequence[Trial]
    seconds: float = 0.0

    @property
    def through(self) -> list[Trial]:
        """Those that got another verdict than they must."""
        return [trial for trial in self.trials if not trial.held]

    @property
    def passed(self) -> bool:
        return bool(self.trials) and not self.through
