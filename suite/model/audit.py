"""Results of the audit of a contract: which mutants the suite kills, and which correct implementations it accuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnsuite.model.rows import Outcome

COMBINED = "combined"
"""The family of cases that combine features."""
EXEMPT = frozenset({"documents", COMBINED})
"""Families that need not kill a mutant alone, and do not count when another family has to. The documents' examples are
tested for their own sake; cases that combine features have mutants of their own."""

TRIPLES_KILLED = 0.95
"""The smallest share of mutants of fused triples that must be killed; of mutants of pairs all must be."""


@dataclass(frozen=True)
class LevelCoverage:
    """The pairs of levels, or the triples of fused levels, in the rows of a covering array."""

    possible: int
    met: int
    """Those that are in a row."""
    mutants: int
    """The mutants: each has a small mistake where one of these pairs or triples meets, and nowhere else."""
    survived: tuple[str, ...] = ()
    """The mutants that no row kills, in words."""

    @property
    def killed(self) -> int:
        """The number of killed mutants."""
        return self.mutants - len(self.survived)

    def complete(self, share: float) -> bool:
        """Whether all of them meet, and at least this share of the mutants is killed."""
        return self.met == self.possible and self.killed >= share * self.mutants


@dataclass(frozen=True)
class Combinations:
    """What the covering array of a contract covers and kills."""

    quick: int
    """Rows of the profile `quick`."""
    full: int
    """Rows of the profile `full`."""
    pairs: LevelCoverage
    triples: LevelCoverage

    @property
    def survived(self) -> list[str]:
        """The surviving mutants of pairs, and those of triples where too many survive."""
        pairs, triples = self.pairs.complete(1.0), self.triples.complete(TRIPLES_KILLED)
        return [*(() if pairs else self.pairs.survived), *(() if triples else self.triples.survived)]


@dataclass(frozen=True)
class SeedAudit:
    """Correct implementations with the numbers, or the covering arrays, of further seeds."""

    seeds: int
    """The number of seeds."""
    results: int
    """The number of judged results, of all implementations and seeds."""
    largest: float
    """The largest error of a passed test, divided by its tolerance."""
    accusations: Sequence[tuple[int, Outcome]] = ()
    """The seed of each failed test, and its outcome; there must be none."""


@dataclass(frozen=True)
class Audit:
    """The results of an audit. `kills` maps each mutant to the cases that kill it, by family."""

    kills: Mapping[str, Mapping[str, frozenset[str]]]
    mistakes: Mapping[str, str]
    """The mistake of each mutant, in words."""
    sources: Mapping[str, str]
    """The source of each mistake, or empty."""
    families: Mapping[str, int]
    """The number of cases in each family."""
    variants: Mapping[str, str]
    """The style of each correct variant that was tested; `absent` says why the others were not."""
    accusations: Sequence[Outcome]
    controls: Sequence[str]
    """Complaints about the correct computations that mutants change; there must be none."""
    absent: Mapping[str, str] = field(default_factory=dict)
    contract: str = "attention"
    exempt: frozenset[str] = EXEMPT
    """Families that need not kill a mutant alone: EXEMPT, and the core of most contracts."""
    combinations: Combinations | None = None
    """None where the contract has no cases that combine features."""
    redrawn: SeedAudit | None = None
    """The correct implementations with numbers of other seeds."""
    rearranged: SeedAudit | None = None
    """The correct implementations on other covering arrays."""

    @property
    def survived(self) -> list[str]:
        """Mutants that no case kills."""
        return [name for name, families in self.kills.items() if not families]

    @property
    def unnecessary(self) -> list[str]:
        """Families without a mutant that only they kill."""
        return [family for family in self.families if family not in self.exempt and not self.killed_only_by(family)]

    def killed_only_by(self, family: str) -> list[str]:
        """Mutants that no other family kills, if EXEMPT families are not counted."""
        return [name for name, families in self.kills.items() if set(families) - EXEMPT == {family}]

    @property
    def distinct(self) -> int:
        """The number of different sets of failing cases."""
        return len({frozenset().union(*families.values()) for families in self.kills.values() if families})

    @property
    def passed(self) -> bool:
        """Whether every mutant is killed, every family is needed, and no correct implementation is accused."""
        combined = self.combinations.survived if self.combinations else ()
        by_chance = [each for drawn in (self.redrawn, self.rearranged) if drawn for each in drawn.accusations]
        return not (self.survived or self.unnecessary or self.accusations or self.controls or combined or by_chance)
