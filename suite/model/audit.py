"""What the audit of the suite against itself found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnsuite.model.rows import Outcome

COMBINED = "combined"
"""The family of cases that combine features."""
EXEMPT = frozenset({"documents", COMBINED})
"""Families that need not kill a mutant alone, nor count against others: the documents' examples are tested for their
own sake, and cases that combine features are judged by mutants that are wrong only where levels meet."""


TRIPLES_KILLED = 0.95
"""The least share to be killed of mutants that are wrong only where a fused triple meets; of pairs all have to be."""


@dataclass(frozen=True)
class LevelCoverage:
    """Pairs of levels, or triples of those that kernels fuse, in the rows of an array."""

    possible: int
    met: int
    """How many of these are in some row."""
    mutants: int
    """Implementations that are wrong where one of these meets and nowhere else, a small mistake and a meeting each."""
    survived: tuple[str, ...] = ()
    """Those of them that no row kills, in words."""

    @property
    def killed(self) -> int:
        return self.mutants - len(self.survived)

    def complete(self, share: float) -> bool:
        """Whether all of them meet, and at least this share of the mutants is killed."""
        return self.met == self.possible and self.killed >= share * self.mutants


@dataclass(frozen=True)
class Combinations:
    """What the array of a contract covers and kills."""

    quick: int
    """The rows of the profile `quick`."""
    full: int
    pairs: LevelCoverage
    triples: LevelCoverage

    @property
    def survived(self) -> list[str]:
        """The mutants of pairs that survive, and those of triples where more survive than may."""
        pairs, triples = self.pairs.complete(1.0), self.triples.complete(TRIPLES_KILLED)
        return [*(() if pairs else self.pairs.survived), *(() if triples else self.triples.survived)]


@dataclass(frozen=True)
class SeedAudit:
    """Correct implementations on what is drawn from the seeds 1, 2 and so on: numbers, or arrays of levels."""

    seeds: int
    """How many seeds there were."""
    results: int
    """How many results were judged, all implementations and seeds together."""
    largest: float
    """The largest error of those that passed, in bounds."""
    accusations: Sequence[tuple[int, Outcome]] = ()
    """The seed of each failed test, and its outcome; there must be none."""


@dataclass(frozen=True)
class Audit:
    """What the audit found. `kills` maps each mutant to the cases that kill it, by family."""

    kills: Mapping[str, Mapping[str, frozenset[str]]]
    mistakes: Mapping[str, str]
    """The mistake of each mutant, in words."""
    sources: Mapping[str, str]
    """Where the mistake was seen, or empty."""
    families: Mapping[str, int]
    """The number of cases in each family."""
    variants: Mapping[str, str]
    """The style of each correct variant that was tested; `absent` says why the others were not."""
    accusations: Sequence[Outcome]
    controls: Sequence[str]
    """Complaints about the computations that mutants are made from, before a mistake is put in; there must be none."""
    absent: Mapping[str, str] = field(default_factory=dict)
    contract: str = "attention"
    exempt: frozenset[str] = EXEMPT
    """Families of this contract that need not kill a mutant alone: EXEMPT, and its core where that is exempt."""
    combinations: Combinations | None = None
    """Where the contract has cases that combine features."""
    redrawn: SeedAudit | None = None
    """With numbers of other seeds."""
    rearranged: SeedAudit | None = None
    """With other combinations of features."""

    @property
    def survived(self) -> list[str]:
        """Mutants that no case kills."""
        return [name for name, families in self.kills.items() if not families]

    @property
    def unnecessary(self) -> list[str]:
        """Families that kill no mutant that no other family kills."""
        return [family for family in self.families if family not in self.exempt and not self.killed_only_by(family)]

    def killed_only_by(self, family: str) -> list[str]:
        """Mutants that no other family kills, if EXEMPT families are not counted."""
        return [name for name, families in self.kills.items() if set(families) - EXEMPT == {family}]

    @property
    def distinct(self) -> int:
        """How many different sets of failing cases the mutants have."""
        return len({frozenset().union(*families.values()) for families in self.kills.values() if families})

    @property
    def passed(self) -> bool:
        combined = self.combinations.survived if self.combinations else ()
        by_luck = [each for drawn in (self.redrawn, self.rearranged) if drawn for each in drawn.accusations]
        return not (self.survived or self.unnecessary or self.accusations or self.controls or combined or by_luck)
