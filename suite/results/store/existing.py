"""Which questions there still are, as runs note it: older answers to others are dropped when runs are merged."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from attnsuite.model import EVERY_CASE, SHAPE, Measurement, Outcome
from attnsuite.results.store.contents import Contents
from attnsuite.results.store.recorded import ages


@dataclass(frozen=True)
class Existing:
    """What the newest runs know of the questions that there are: how new each is, in `ages` as well."""

    ages: Mapping[str, int]
    asked: Mapping[tuple[str, str], int]
    """The run in which an implementation was asked every case on a device."""
    workloads: Mapping[str, tuple[int, Collection[str]]]
    """The run that noted all workloads of a contract, and their names."""

    @classmethod
    def of(cls, there: Contents, new: Collection[str]) -> Existing:
        """What these new runs know."""
        age = ages(there.runs)
        complete = [run for run in map(there.runs.__getitem__, new) if len(run.shards) == run.divided]
        wholly = {(run.id, name) for run in complete for name in run.facts.whole}
        asked = {
            (of.implementation, of.device): age[identity]
            for identity, of in there.outcomes
            if (identity, of.implementation) in wholly
        }
        noted = {
            contract: (age[run.id], names.keys())
            for run in sorted(map(there.runs.__getitem__, new), key=lambda run: age[run.id])
            for contract, names in run.facts.workloads.items()
        }
        return cls(age, asked, noted)

    def has_case(self, identity: str, outcome: Outcome) -> bool:
        """Whether a case may exist: older rows of who was asked all of them are of cases that are no more."""
        return self.ages[identity] >= self.asked.get((outcome.implementation, outcome.device), -1)

    def has_workload(self, identity: str, of: Measurement) -> bool:
        """Whether a workload may exist."""
        age, names = self.workloads.get(of.contract, (-1, ()))
        return self.ages[identity] >= age or of.workload.startswith(SHAPE) or of.workload in (EVERY_CASE, *names)
