"""No time without conformance: an implementation that fails a case which a workload needs is refused there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import Event, Lock

from msgspec import structs

from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.processes import MEASURED, cores, cores_of, with_threads
from attnsuite.benchmark.request import Implementation, declaration_of, function_here
from attnsuite.benchmark.verdict_cache import VerdictCache, needs_of
from attnsuite.cases import Case, Contract, list_tests
from attnsuite.conformance.check import Check, Timeouts
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session, alone
from attnsuite.model import EVERY_CASE, FAILURES, WITHOUT_RESULT, Outcome, Status
from attnsuite.registry import Declaration

ABOUT_SIZE = frozenset({"large"})
"""Features that are about size alone. Cases are small, so small workloads need cases with these, too."""

Key = tuple[str, str]
"""A case and a dtype."""


@dataclass
class Gate:
    """Tests implementations on all cases that need no more than the workloads use, once each.

    Bad input is not tested, nor cases of known bugs that concern no workload. `earlier` are outcomes, by
    implementation, that are valid for these very sources and versions.
    """

    contract: Contract
    device: str
    time_limit: float
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    cache: VerdictCache | None = None
    """Verdicts of earlier runs; new ones are stored there."""
    threads: int = 0
    """Tests run in processes that start as those that are timed on so many threads, so that PyTorch is imported once
    for both; with 0 they start as this process did."""
    sampled: Collection[str] = ()
    """Implementations that were tested on a sample of cases: nothing but their `earlier` outcomes counts."""
    signed: dict[str, str] = field(default_factory=dict)
    """The signature that each implementation was taken to have, in a line; empty for the contract's own."""
    wanted: int = 0
    """How many tests are needed, of all implementations together."""
    before: dict[str, int] = field(default_factory=dict)
    """How many of them were known from earlier runs, by implementation."""
    _known: dict[str, dict[Key, Outcome]] = field(default_factory=dict)
    _over: Event = field(default_factory=Event, repr=False)
    """Set after Ctrl-C: no more outcomes are needed."""
    _needs: dict[str, dict[Key, frozenset[str]]] = field(default_factory=dict, repr=False)
    _drawing: Lock = field(default_factory=Lock, repr=False)

    def test(self, implementations: Sequence[Implementation], uses: Collection[tuple[str, frozenset[str]]]) -> None:
        """Test all implementations, several at a time, for these (dtype, features) pairs of workloads."""
        self._over.clear()  # an earlier call may have raised
        session = self._session()
        keys = [key for dtype in sorted({dtype for dtype, _ in uses}) for key in self._needed(dtype)]
        used = [key for key in keys if any(self._is_used(key, *use) for use in uses)]
        wanted = [self._concerning(session, declaration_of(each), used) for each in implementations]
        self.wanted += sum(map(len, wanted))
        pairs = list(zip(implementations, wanted, strict=True))
        elsewhere = [pair for pair in pairs if function_here(pair[0]) is None]
        with alone(self.device), ThreadPoolExecutor(len(cores())) as pool:
            for pair in pairs:
                if function_here(pair[0]) is not None:  # these share this process, so one after the other
                    self._test(session, *pair)
            try:
                sessions = [replace(session, cores=cores_of(self.threads, place)) for place in range(len(elsewhere))]
                list(pool.map(lambda pair, there: self._test(there, *pair), elsewhere, sessions))
            except BaseException:  # after Ctrl-C nothing that hangs is waited for
                self._over.set()
                raise

    @property
    def summary(self) -> str:
        """How many tests ran, in a line; empty where none were needed."""
        before, of = sum(self.before.values()), f"{self.wanted} questions that need no more than these workloads use"
        return f"conformance: {of}: {self.wanted - before} now, {before} answered before" if self.wanted else ""

    def refusal(self, name: str, dtype: str, features: frozenset[str]) -> NoResult | None:
        """Why an implementation may not be timed in a dtype with these features; None where it may."""
        failed = [
            outcome
            for key, outcome in self._known.get(name, {}).items()
            if outcome.status in FAILURES and (key[0] == EVERY_CASE or self._is_used(key, dtype, features))
        ]
        if not failed:
            return None
        worst = next((outcome for outcome in failed if outcome.fails), failed[0])
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        why = f"{worst.status}: {worst.detail.removeprefix(f'{worst.status}: ')}"  # timeouts and crashes say so already
        return NoResult(Status.REFUSED, f"it fails {worst.case} ({worst.dtype}){others}: {why}", known=worst.known)

    def outcomes(self, name: str) -> list[Outcome]:
        """All outcomes of an implementation."""
        return list(self._known.get(name, {}).values())

    def _cases(self, dtype: str) -> dict[Key, Case]:
        """All cases of the contract in a dtype that can be tested in a process that has run others."""
        drawn = list_tests(self.contract.cases(), self.device.split(":")[0], (dtype,))
        return {(case.name, dtype): case for case, _ in drawn if not case.in_worker}

    def _needed(self, dtype: str) -> dict[Key, frozenset[str]]:
        """The features that each case of the contract needs in a dtype."""

        def drawn() -> dict[str, frozenset[str]]:
            return {name: self.contract.needs(case.calls(dtype)) for (name, _), case in self._cases(dtype).items()}

        with self._drawing:
            if dtype not in self._needs:
                needs = needs_of(self.contract.name, dtype, self.device, drawn)
                self._needs[dtype] = {(name, dtype): frozenset(words) for name, words in needs.items()}
            return self._needs[dtype]

    def _concerning(self, session: Session, declaration: Declaration, wanted: Sequence[Key]) -> list[Key]:
        """The tests of an implementation, without known bugs that concern no workload."""
        bugs = session.known_bugs(self.contract) if declaration.shipped else []
        bugs = [bug for bug in bugs if not bug.concerns_workloads]
        name, contract = declaration.full_name, self.contract.name
        failures = [Outcome(name, contract, *key, self.device, Status.FAILED) for key in wanted] if bugs else []
        spared = {(each.case, each.dtype) for each in failures if any(bug.covers(each) for bug in bugs)}
        earlier = {(each.case, each.dtype) for each in self.earlier.get(name, ())}
        return [key for key in wanted if key not in spared and (name not in self.sampled or key in earlier)]

    def _session(self) -> Session:
        request = CheckRequest(device=self.device, isolate=True, time_limit=self.time_limit)
        environment = {**MEASURED, **with_threads(self.threads)} if self.threads else {}
        return Session(request, environment=environment, over=self._over)

    def _is_used(self, key: Key, dtype: str, features: frozenset[str]) -> bool:
        needed = self._needed(dtype)
        return key in needed and needed[key] - ABOUT_SIZE <= features | {dtype}

    def _test(self, session: Session, implementation: Implementation, wanted: Sequence[Key]) -> None:
        """Run the tests whose outcomes are not known from here, from `earlier` or from the cache."""
        declaration = declaration_of(implementation)
        cache = self.cache if function_here(implementation) is None else None
        stored = cache.outcomes(declaration) if cache else {}
        earlier = {(each.case, each.dtype): each for each in self.earlier.get(declaration.full_name, ())}
        known = self._known.setdefault(declaration.full_name, {})
        known |= {key: earlier[key] for key in wanted if key in earlier}
        known |= {key: stored[key] for key in wanted if key in stored and key not in known}
        missing = [key for key in wanted if key not in known]
        self.before[declaration.full_name] = len(wanted) - len(missing)
        if not missing or (EVERY_CASE, EVERY_CASE) in known:
            return
        with ExitStack() as stack:
            if cache:
                stack.callback(lambda: cache.store(declaration, {**stored, **known}.values()))
            check = session.check(implementation, stack)
            self.signed |= session.signed
            if isinstance(check, Outcome):
                known[check.case, check.dtype] = check
            else:
                self._run(check, missing, known)

    def _run(self, check: Check, missing: Sequence[Key], known: dict[Key, Outcome]) -> None:
        """Run these tests in order, until too many in a row give no result."""
        timeouts, lost = Timeouts(self.time_limit, counted=WITHOUT_RESULT), None
        diagnosed: list[frozenset[str]] = []  # features of failures with a diagnosis: a refusal shows one of these
        cases = {dtype: self._cases(dtype) for dtype in {dtype for _, dtype in missing}}
        tests = ((cases[key[1]][key], key[1]) for key in missing)
        outcomes = check.outcomes(tests)
        for case, dtype in missing:
            if self._over.is_set():
                return
            if lost and timeouts.reason:  # each of the rest would take the time limit, or a process of its own
                known[case, dtype] = structs.replace(lost, case=case, dtype=dtype)
                continue
            outcome, features = next(outcomes), self._needed(dtype)[case, dtype]
            if not any(other <= features for other in diagnosed):  # else a refusal shows the one with a diagnosis
                outcome = check.diagnosed_alone(outcome)
            known[case, dtype] = outcome
            diagnosed += [features] if outcome.fails else []
            timeouts.add(outcome)
            lost = outcome if outcome.status in WITHOUT_RESULT else lost
