"""What the audit of the suite against itself found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnsuite.model.rows import Outcome

COMBINED = "combined"
"""The family of cases that combine features."""
EXEMPT = frozenset({"documents", COMBINED})
"""Families that need not catch a deviation alone, nor count against others: the documents' examples are asked for their
own sake, and cases that combine features are judged by mistakes that are made only where levels meet."""


TRIPLES_CAUGHT = 0.95
"""The least share to be caught of mistakes that are made only where a fused triple meets; of pairs all have to be."""


@dataclass(frozen=True)
class Meetings:
    """Pairs of levels, or triples of those that kernels fuse, in the rows of an array."""

    possible: int
    met: int
    """How many of these are in some row."""
    mistakes: int
    """Implementations that are wrong where one of these meets and nowhere else, a small mistake and a meeting each."""
    missed: tuple[str, ...] = ()
    """Those of them that no row catches, in words."""

    @property
    def caught(self) -> int:
        return self.mistakes - len(self.missed)

    def complete(self, share: float) -> bool:
        """Whether all of them meet, and at least this share of the mistakes is caught."""
        return self.met == self.possible and self.caught >= share * self.mistakes


@dataclass(frozen=True)
class Combinations:
    """What the array of a contract covers and catches."""

    quick: int
    """The rows of the profile `quick`."""
    full: int
    pairs: Meetings
    triples: Meetings

    @property
    def amiss(self) -> list[str]:
        """What of pairs, and of more triples than may be missed, no row catches."""
        pairs, triples = self.pairs.complete(1.0), self.triples.complete(TRIPLES_CAUGHT)
        return [*(() if pairs else self.pairs.missed), *(() if triples else self.triples.missed)]


@dataclass(frozen=True)
class Redrawn:
    """Correct implementations, asked with what is drawn from the seeds 1, 2 and so on: numbers, or arrays of levels."""

    seeds: int
    """How many seeds there were."""
    answers: int
    """How many answers were judged, all implementations and seeds together."""
    largest: float
    """The largest error of those that passed, in bounds."""
    accusations: Sequence[tuple[int, Outcome]] = ()
    """The seed of each accusation, and what was said: there must be none."""


@dataclass(frozen=True)
class Audit:
    """What the audit found. `catches` maps each deviation to the cases that caught it, by family."""

    catches: Mapping[str, Mapping[str, frozenset[str]]]
    says: Mapping[str, str]
    """The mistake of each deviation, in words."""
    sources: Mapping[str, str]
    """Where the mistake was seen, or empty."""
    families: Mapping[str, int]
    """The number of cases in each family."""
    strangers: Mapping[str, str]
    """The style of each correct stranger that was asked; `absent` says why the others were not."""
    accusations: Sequence[Outcome]
    controls: Sequence[str]
    """Complaints about the computations that deviations are made from, before a mistake is put in: there must be
    none."""
    absent: Mapping[str, str] = field(default_factory=dict)
    contract: str = "attention"
    exempt: frozenset[str] = EXEMPT
    """Families of this contract that need not catch a deviation alone: EXEMPT, and its core where that is exempt."""
    combinations: Combinations | None = None
    """Where the contract has cases that combine features."""
    redrawn: Redrawn | None = None
    """Where other numbers were asked for."""
    rearranged: Redrawn | None = None
    """Where other combinations of features were."""

    @property
    def missed(self) -> list[str]:
        """Deviations that no case catches."""
        return [name for name, families in self.catches.items() if not families]

    @property
    def unnecessary(self) -> list[str]:
        """Families that catch nothing that no other family catches."""
        return [family for family in self.families if family not in self.exempt and not self.caught_only_by(family)]

    def caught_only_by(self, family: str) -> list[str]:
        """Deviations that no other family catches, if EXEMPT families are not counted."""
        return [name for name, families in self.catches.items() if set(families) - EXEMPT == {family}]

    @property
    def distinct(self) -> int:
        """How many different sets of failing cases the deviations have."""
        return len({frozenset().union(*families.values()) for families in self.catches.values() if families})

    @property
    def passed(self) -> bool:
        amiss = self.combinations.amiss if self.combinations else ()
        by_luck = [each for drawn in (self.redrawn, self.rearranged) if drawn for each in drawn.accusations]
        return not (self.missed or self.unnecessary or self.accusations or self.controls or amiss or by_luck)
