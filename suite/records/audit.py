"""What the audit of the suite against itself found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from suite.records.outcome import Outcome

EXEMPT = frozenset({"documents"})
"""Families that need not be necessary, nor make others so: the documents' examples are there for themselves."""


@dataclass(frozen=True)
class Audit:
    """What the audit found. `catches` maps each deviation to the cases that caught it, by family."""

    catches: Mapping[str, Mapping[str, frozenset[str]]]
    says: Mapping[str, str]
    """Each deviation's mistake in words."""
    sources: Mapping[str, str]
    """Where it happened, or empty."""
    families: Mapping[str, int]
    """Each family and how many cases it has."""
    strangers: Mapping[str, str]
    """Each correct stranger and what it is; those whose libraries are missing are left out and in `absent`."""
    accusations: Sequence[Outcome]
    controls: Sequence[str]
    """Complaints about the deviations' own computations without any mistake: there must be none."""
    absent: Mapping[str, str] = field(default_factory=dict)
    contract: str = "attention"
    exempt: frozenset[str] = EXEMPT
    """Families that need not be necessary; those of EXEMPT make no other unnecessary either."""

    @property
    def missed(self) -> list[str]:
        """Deviations that no case catches."""
        return [name for name, families in self.catches.items() if not families]

    @property
    def unnecessary(self) -> list[str]:
        """Families that catch nothing that no other family catches."""
        return [family for family in self.families if family not in self.exempt and not self.caught_only_by(family)]

    def caught_only_by(self, family: str) -> list[str]:
        """Deviations that no other family catches, exempt ones aside."""
        return [name for name, families in self.catches.items() if set(families) - EXEMPT == {family}]

    @property
    def distinct(self) -> int:
        """How many different sets of failing cases the deviations have."""
        return len({frozenset().union(*families.values()) for families in self.catches.values() if families})

    @property
    def passed(self) -> bool:
        return not (self.missed or self.unnecessary or self.accusations or self.controls)
