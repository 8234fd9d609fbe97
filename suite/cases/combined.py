"""What a contract combines: the array of its levels, the case of each row, and mistakes made only where levels meet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnsuite.cases.case import Case
from attnsuite.cases.contract import Deviation
from attnsuite.cases.covering import Meeting, Row, Space
from attnsuite.model.options import COMBINED

QUICK, FULL = PROFILES = COMBINED
"""`quick`: every pair of levels meets. `full`: so does every triple of the factors that kernels fuse."""


@dataclass(frozen=True)
class Local:
    """A mistake that an implementation may make only where some levels meet."""

    deviation: Deviation
    """The mistake, made everywhere."""
    where: frozenset[str] = frozenset()
    """It can be made only in rows that have one of these levels; none: in all rows."""

    def made_in(self, levels: Iterable[str]) -> bool:
        return not self.where or not self.where.isdisjoint(levels)


@dataclass(frozen=True)
class Array:
    """The rows that a contract asks, and what is needed to judge how much they catch."""

    space: Space
    rows: Callable[[str, int], Sequence[Row]]
    """`rows(profile, seed)`; seed 0 is the array that is kept."""
    case: Callable[[Row], Case]
    mistakes: Callable[[], Sequence[Local]]
    files: tuple[Path, Path]
    """Where the kept array lies, a row in each line: that of the profile `quick`, and what `full` has beyond it."""

    def cases(self, profile: str, seed: int) -> list[Case]:
        """The cases of a profile, in the order of the rows."""
        return [self.case(row) for row in self.rows(profile, seed)]

    def named(self, names: Sequence[str]) -> list[Case] | None:
        """The cases that have exactly these names, whatever array they are in; None where one is no name of a row."""
        try:
            cases = [self.case(self.space.read(name.partition("/")[2])) for name in names]
        except ValueError:
            return None
        return cases if [case.name for case in cases] == list(names) else None

    def wrong_only_where(self, fused: bool) -> dict[str, list[Meeting]]:
        """By mistake, the pairs of levels, or the fused triples, where alone it could be made."""
        possible = sorted(filter(self.space.possible, self.space.meetings(fused)))
        return {
            each.deviation.name: [met for met in possible if each.made_in(level for _, level in met)]
            for each in self.mistakes()
        }
