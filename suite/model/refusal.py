"""Why a file of results is not to be believed, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is amiss in a file of results."""

    path: str
    where: str
    """`line 3`, or `row 2, column median`; empty where it is the whole file."""
    why: str

    def __str__(self) -> str:
        return f"{', '.join(filter(None, (self.path, self.where)))}: {self.why}"
