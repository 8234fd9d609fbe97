"""No time without conformance: what an implementation failed of what a workload uses, so that it is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property

from suite.benchmark.request import cores
from suite.checking import Request, Session, alone
from suite.contracts.base import Case, Contract
from suite.records import EVERY_CASE, FAILURES, Outcome
from suite.registry import Declaration, Loaded

WITHOUT_CASES = frozenset({"large"})
"""Features that are about size alone: cases are small, and what needs just this is asked of few."""

Key = tuple[str, str]
"""A case and a dtype."""


@dataclass
class Gate:
    """Asks the cases that need nothing but what the workloads use, once each; cases of bad input are not among them.

    `earlier` are outcomes that hold for these very sources and versions, and need not be asked again.
    """

    contract: Contract
    device: str
    time_limit: float
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    _known: dict[str, dict[Key, Outcome]] = field(default_factory=dict)

    def ask(
        self, implementations: Sequence[Declaration | Loaded], uses: Collection[tuple[str, frozenset[str]]]
    ) -> None:
        """Ask all implementations about all that is used, several at a time: (dtype, features) pairs."""
        session = Session(Request(device=self.device, isolate=True, time_limit=self.time_limit))
        wanted = [key for key in self._cases if any(self._is_used(key, *use) for use in uses)]
        with alone(self.device), ThreadPoolExecutor(len(cores())) as pool:
            list(pool.map(lambda implementation: self._ask(session, implementation, wanted), implementations))

    def refusal(self, name: str, dtype: str, features: frozenset[str]) -> tuple[str, str]:
        """Why an implementation may not be timed, and the finding that knows it; both empty where it may."""
        outcomes = self._known.get(name, {})
        failed = [
            outcome
            for key, outcome in outcomes.items()
            if outcome.status in FAILURES and (key[0] == EVERY_CASE or self._is_used(key, dtype, features))
        ]
        if not failed:
            return "", ""
        worst = next((outcome for outcome in failed if outcome.fails), failed[0])
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"it fails {worst.case} ({worst.dtype}){others}: {worst.status}: {worst.detail}", worst.known

    @cached_property
    def _cases(self) -> dict[Key, tuple[Case, frozenset[str]]]:
        """Every question of the contract with what it needs."""
        return {
            (case.name, dtype): (case, self.contract.needs(case.calls(dtype)))
            for case in self.contract.cases()
            for dtype in case.dtypes
            if not case.in_worker
        }

    def _is_used(self, key: Key, dtype: str, features: frozenset[str]) -> bool:
        return key in self._cases and key[1] == dtype and self._cases[key][1] - WITHOUT_CASES <= features | {dtype}

    def _ask(self, session: Session, implementation: Declaration | Loaded, wanted: Sequence[Key]) -> None:
        declaration = implementation.declaration if isinstance(implementation, Loaded) else implementation
        earlier = {(o.case, o.dtype): o for o in self.earlier.get(declaration.full_name, ())}
        known = self._known[declaration.full_name] = {key: earlier[key] for key in wanted if key in earlier}
        missing = [key for key in wanted if key not in earlier]
        if not missing:
            return
        with ExitStack() as stack:
            check = session.check(implementation, stack)
            if isinstance(check, Outcome):
                known[check.case, check.dtype] = check
                return
            for key in missing:
                known[key] = check.outcome(self._cases[key][0], key[1])
