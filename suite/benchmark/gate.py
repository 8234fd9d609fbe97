"""No time without conformance: what an implementation failed of what a workload uses, so that it is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import Event, Lock

from msgspec import structs

from attnsuite.benchmark.implementation import Implementation, declaration_of, function_here
from attnsuite.benchmark.kept import Keeping, Kept, needs_of
from attnsuite.benchmark.measure.protocol import Failed
from attnsuite.benchmark.processes import MEASURED, cores, cores_of, with_threads
from attnsuite.cases import Case, Contract, list_tests
from attnsuite.conformance.check import Timeouts
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session, alone
from attnsuite.model import EVERY_CASE, FAILURES, SILENT, Outcome, Status
from attnsuite.registry import Declaration

WITHOUT_CASES = frozenset({"large"})
"""Features that are about size alone. Cases are small, so a case that needs one of these is used by small workloads
too."""

Key = tuple[str, str]
"""A case and a dtype."""


@dataclass
class Gate:
    """Asks the cases that need nothing but what the workloads use, once each; cases of bad input are not among them,
    nor is what a finding says of inputs that no workload has.

    `earlier` are outcomes that hold for these very sources and versions, and need not be asked again.
    """

    contract: Contract
    device: str
    time_limit: float
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    kept: Kept | None = None
    """What was found in earlier runs, where that is believed; what is found now is kept there."""
    threads: int = 0
    """They are asked in processes that begin as those that are timed on so many threads do, so that PyTorch is imported
    once for both. With 0 they begin as this process did."""
    sampled: Collection[str] = ()
    """The implementations that were tested on a sample: they are tested on nothing but their `earlier` outcomes."""
    signed: dict[str, str] = field(default_factory=dict)
    """Which signature each was taken to have, and why, in a line; empty for the contract's own."""
    wanted: int = 0
    """How many questions are due, of all implementations together."""
    before: dict[str, int] = field(default_factory=dict)
    """How many of them each answered in earlier runs, which is believed."""
    _known: dict[str, dict[Key, Outcome]] = field(default_factory=dict)
    _believed: dict[str, Sequence[Key]] = field(default_factory=dict)
    """The implementations of whom something is believed that was kept, with all that is wanted of each."""
    _over: Event = field(default_factory=Event, repr=False)
    """Set where nobody needs the answers any more."""
    _cases: dict[str, dict[Key, Case]] = field(default_factory=dict, repr=False)
    _needs: dict[str, dict[Key, frozenset[str]]] = field(default_factory=dict, repr=False)
    _drawing: Lock = field(default_factory=Lock, repr=False)

    def ask(self, implementations: Sequence[Implementation], uses: Collection[tuple[str, frozenset[str]]]) -> None:
        """Ask all implementations about all that is used, several at a time: (dtype, features) pairs."""
        self._over.clear()  # an earlier call may have raised
        session = self._session()
        dtypes = sorted({dtype for dtype, _ in uses})
        known = [key for dtype in dtypes for key in self._needed(dtype)]
        wanted = [key for key in known if any(self._is_used(key, *use) for use in uses)]
        due = {id(each): self._concerning(session, declaration_of(each), wanted) for each in implementations}
        self.wanted += sum(map(len, due.values()))
        here = [each for each in implementations if function_here(each) is not None]
        elsewhere = [each for each in implementations if function_here(each) is None]
        with alone(self.device), ThreadPoolExecutor(len(cores())) as pool:
            for each in here:  # they share this process, so one after the other
                self._ask(session, each, due[id(each)])
            try:
                sessions = [self._at(place, session) for place, _ in enumerate(elsewhere)]
                list(pool.map(lambda each, there: self._ask(there, each, due[id(each)]), elsewhere, sessions))
            except BaseException:  # Ctrl-C waits for nobody who hangs
                self._over.set()
                raise

    def confirm(self, implementation: Implementation, files: Callable[[], Sequence[str] | None]) -> None:
        """Ask an implementation after all where the process that is timed has loaded other `files` than was asked.

        Without effect where nothing is believed of it that was kept.
        """
        declaration = declaration_of(implementation)
        wanted = self._believed.pop(declaration.full_name, None)
        if wanted is None or self.kept is None or self.kept.holds_for(declaration, files()):
            return
        self._known.pop(declaration.full_name)
        with alone(self.device):
            self._ask(self._at(0, self._session()), implementation, wanted, believes=False)

    @property
    def said(self) -> str:
        """What was asked, in a line; empty where nothing was due."""
        before, of = sum(self.before.values()), f"{self.wanted} questions that need no more than these workloads use"
        return f"conformance: {of}: {self.wanted - before} now, {before} answered before" if self.wanted else ""

    def refusal(self, name: str, dtype: str, features: frozenset[str]) -> Failed | None:
        """Why an implementation may not be timed in a dtype with these features, and the finding that knows it."""
        outcomes = self._known.get(name, {})
        failed = [
            outcome
            for key, outcome in outcomes.items()
            if outcome.status in FAILURES and (key[0] == EVERY_CASE or self._is_used(key, dtype, features))
        ]
        if not failed:
            return None
        worst = next((outcome for outcome in failed if outcome.fails), failed[0])
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        why = f"{worst.status}: {worst.detail.removeprefix(f'{worst.status}: ')}"  # what hangs or dies says so itself
        detail = f"it fails {worst.case} ({worst.dtype}){others}: {why}"
        return Failed(Status.REFUSED, detail, known=worst.known)

    def outcomes(self, name: str) -> list[Outcome]:
        """What became of all that an implementation was asked."""
        return list(self._known.get(name, {}).values())

    def _asked(self, dtype: str) -> dict[Key, Case]:
        """Every question of the contract in a dtype, drawn once and only where one is to be asked."""
        with self._drawing:
            if dtype not in self._cases:
                asked = list_tests(self.contract.cases(), self.device.split(":")[0], (dtype,))
                self._cases[dtype] = {(case.name, dtype): case for case, _ in asked if not case.in_worker}
            return self._cases[dtype]

    def _needed(self, dtype: str) -> dict[Key, frozenset[str]]:
        """What every question of the contract in a dtype needs."""

        def found() -> dict[str, frozenset[str]]:
            return {name: self.contract.needs(case.calls(dtype)) for (name, _), case in self._asked(dtype).items()}

        if dtype not in self._needs:
            needs = needs_of(self.contract.name, dtype, self.device, found)
            self._needs[dtype] = {(name, dtype): frozenset(words) for name, words in needs.items()}
        return self._needs[dtype]

    def _concerning(self, session: Session, declaration: Declaration, wanted: Sequence[Key]) -> list[Key]:
        """What is wanted of an implementation, without what it is known to fail where no workload is concerned."""
        found = session.known_bugs(self.contract) if declaration.shipped else []
        known = [each for each in found if not each.concerns_workloads]
        name, contract = declaration.full_name, self.contract.name
        failed = [Outcome(name, contract, *key, self.device, Status.WRONG) for key in wanted] if known else []
        spared = {(each.case, each.dtype) for each in failed if any(finding.covers(each) for finding in known)}
        earlier = {(of.case, of.dtype) for of in self.earlier.get(name, ())}
        return [key for key in wanted if key not in spared and (name not in self.sampled or key in earlier)]

    def _session(self) -> Session:
        request = CheckRequest(device=self.device, isolate=True, time_limit=self.time_limit)
        environment = {**MEASURED, **with_threads(self.threads)} if self.threads else {}
        return Session(request, environment=environment, over=self._over)

    def _at(self, place: int, session: Session) -> Session:
        """The session for one of those that are asked at once, each on its own cores; questions are those of all."""
        return replace(session, cores=cores_of(self.threads, place))

    def _is_used(self, key: Key, dtype: str, features: frozenset[str]) -> bool:
        needed = self._needed(dtype)
        return key in needed and needed[key] - WITHOUT_CASES <= features | {dtype}

    def _ask(
        self, session: Session, implementation: Implementation, wanted: Sequence[Key], believes: bool = True
    ) -> None:
        """Ask what is wanted and not known, and keep what was found; with `believes` what was kept is known."""
        declaration = declaration_of(implementation)
        earlier = {(o.case, o.dtype): o for o in self.earlier.get(declaration.full_name, ())}
        known = self._known.setdefault(declaration.full_name, {})
        known |= {key: earlier[key] for key in wanted if key in earlier}
        keeps = self.kept if function_here(implementation) is None else None
        before = keeps.outcomes(declaration) if keeps and believes else {}
        if held := {key: before[key] for key in wanted if key in before and key not in known}:
            known |= held
            self._believed[declaration.full_name] = wanted
        missing = [key for key in wanted if key not in known]
        self.before[declaration.full_name] = len(wanted) - len(missing)
        if not missing or (EVERY_CASE, EVERY_CASE) in known:
            return
        with ExitStack() as stack:
            check = session.check(implementation, stack)
            self.signed |= session.signed
            if isinstance(check, Outcome):
                known[check.case, check.dtype] = check
                return
            keeping = Keeping(keeps, declaration, before, check.implementation.files) if keeps else None
            timeouts = Timeouts(self.time_limit, counted=SILENT)
            lost: Outcome | None = None  # the last answer that did not come
            named: list[frozenset[str]] = []  # what failures need whose mistakes have names
            asked = ((self._asked(dtype)[case, dtype], dtype) for case, dtype in missing)
            found = check.outcomes(asked)
            for case, dtype in missing:
                if self._over.is_set():
                    return
                if lost and timeouts.reason:  # each answer would take the time limit, or a process of its own
                    known[case, dtype] = structs.replace(lost, case=case, dtype=dtype)
                    continue
                outcome, needed = next(found), self._needed(dtype)[case, dtype]
                if not any(other <= needed for other in named):  # else a refusal shows the failure that has a name
                    outcome = check.diagnosed_alone(outcome)
                known[case, dtype] = outcome
                named += [needed] if outcome.fails else []
                timeouts.add(outcome)
                lost = outcome if outcome.status in SILENT else lost
                if keeping and lost is None:
                    keeping.add(outcome)
            if keeping and lost is None:
                keeping.write()
