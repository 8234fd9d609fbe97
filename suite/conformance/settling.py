"""Outcomes wait a little for a name that later answers settle: which of two mistakes it is, or that it is no chance."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from attnsuite.model import Outcome

WAITING = 200
"""Outcomes that wait at most: fifty cases in four dtypes, a second or two of a check. What a case of another family
shows often comes later, but whoever watches, or ends a check early, wants to see what was found."""


@dataclass
class Settling:
    """Outcomes in their order. The first of those that wait holds up the others."""

    settled: Callable[[Outcome], Outcome | None]
    """The outcome with the name that it has in the end; None as long as later ones may settle it."""
    line: deque[Outcome] = field(default_factory=deque)

    def after(self, outcome: Outcome) -> Iterator[Outcome]:
        """One more, and those that wait no longer."""
        self.line.append(outcome)
        yield from self._leaving(WAITING)

    def rest(self) -> Iterator[Outcome]:
        """All that still wait: nothing comes after them."""
        yield from self._leaving(0)

    def _leaving(self, most: int) -> Iterator[Outcome]:
        while self.line:
            found = self.settled(self.line[0])
            if found is None and len(self.line) <= most:
                return
            first = self.line.popleft()
            yield first if found is None else found
