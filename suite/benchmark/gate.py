"""No time without conformance: an implementation that fails a case with features of a workload is refused there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from threading import Event, Lock

from msgspec import structs

from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.processes import MEASURED, cores, cores_of, with_threads
from attnsuite.benchmark.request import Implementation, declaration_of
from attnsuite.benchmark.verdict_cache import VerdictCache, needs_of
from attnsuite.cases import Case, Contract, list_tests
from attnsuite.conformance.check import Check, Timeouts
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session, single_threaded
from attnsuite.model import EVERY_CASE, FAILURES, WITHOUT_RESULT, Outcome, Status
from attnsuite.registry import Declaration

ABOUT_SIZE = frozenset({"large"})
"""Features that concern size alone. Large cases gate small workloads as well: most cases are smaller still."""

Key = tuple[str, str]
"""A case and a dtype."""


@dataclass
class Gate:
    """Tests implementations, once each, on all cases that need no more features than the workloads use.

    It skips bad input and cases of known bugs that concern no workload. `earlier` are outcomes, by implementation, that
    are valid for the present sources and versions.
    """

    contract: Contract
    device: str
    time_limit: float
    earlier: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    cache: VerdictCache | None = None
    """Verdicts of earlier runs; new ones are stored there."""
    threads: int = 0
    """Threads of the timed processes, whose settings the tests' processes share, so that PyTorch is imported once
    for both; 0 for the settings of this process."""
    sampled: Collection[str] = ()
    """Implementations that were tested on a sample of cases: only their `earlier` outcomes count."""
    signatures: dict[str, str] = field(default_factory=dict)
    """The detected signature of each implementation, in a line; empty for the contract's own."""
    wanted: int = 0
    """Number of tests that all implementations need."""
    reused: dict[str, int] = field(default_factory=dict)
    """Number of these tests with an outcome of an earlier run, by implementation."""
    _known: dict[str, dict[Key, Outcome]] = field(default_factory=dict)
    _cancelled: Event = field(default_factory=Event, repr=False)
    """Set after Ctrl-C: no more outcomes are needed."""
    _needs: dict[str, dict[Key, frozenset[str]]] = field(default_factory=dict, repr=False)
    _drawing: Lock = field(default_factory=Lock, repr=False)

    def test(self, implementations: Sequence[Implementation], uses: Collection[tuple[str, frozenset[str]]]) -> None:
        """Test all implementations, several at a time, for these (dtype, features) pairs of workloads."""
        self._cancelled.clear()  # an earlier call may have raised
        session = self._session()
        keys = [key for dtype in sorted({dtype for dtype, _ in uses}) for key in self._needed(dtype)]
        used = [key for key in keys if any(self._is_used(key, *use) for use in uses)]
        wanted = [self._concerning(session, declaration_of(implementation), used) for implementation in implementations]
        self.wanted += sum(map(len, wanted))
        with single_threaded(self.device), ThreadPoolExecutor(len(cores())) as pool:
            try:
                sessions = [replace(session, cores=cores_of(self.threads, place)) for place in range(len(wanted))]
                list(pool.map(self._test, sessions, implementations, wanted))
            except BaseException:  # after Ctrl-C nothing waits for a hanging test
                self._cancelled.set()
                raise

    @property
    def summary(self) -> str:
        """The numbers of tests that ran and that were known, in a line; empty if none were needed."""
        reused = sum(self.reused.values())
        counts = f"{self.wanted - reused} run now, {reused} known from earlier runs"
        return (
            f"conformance: {self.wanted} tests of the features that these workloads use: {counts}"
            if self.wanted
            else ""
        )

    def refusal(self, name: str, dtype: str, features: frozenset[str]) -> NoResult | None:
        """Why an implementation may not be timed in a dtype with these features, or None."""
        failed = [
            outcome
            for key, outcome in self._known.get(name, {}).items()
            if outcome.status in FAILURES and (key[0] == EVERY_CASE or self._is_used(key, dtype, features))
        ]
        if not failed:
            return None
        worst = next((outcome for outcome in failed if outcome.fails), failed[0])
        others = f" and {len(failed) - 1} more" if len(failed) > 1 else ""
        detail = worst.detail.removeprefix(f"{worst.status}: ")  # timeouts and crashes start with their status
        reason = f"{worst.status}: {detail}"
        return NoResult(Status.REFUSED, f"it fails {worst.case} ({worst.dtype}){others}: {reason}", known=worst.known)

    def outcomes(self, name: str) -> list[Outcome]:
        """All outcomes of an implementation."""
        return list(self._known.get(name, {}).values())

    def _cases(self, dtype: str) -> dict[Key, Case]:
        """All cases of the contract in a dtype that need no fresh process."""
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
        """The tests of an implementation, without those of known bugs that concern no workload."""
        bugs = session.known_bugs(self.contract) if declaration.shipped else []
        bugs = [bug for bug in bugs if not bug.concerns_workloads]
        name, contract = declaration.full_name, self.contract.name
        failures = [Outcome(name, contract, *key, self.device, Status.FAILED) for key in wanted] if bugs else []
        irrelevant = {(outcome.case, outcome.dtype) for outcome in failures if any(bug.covers(outcome) for bug in bugs)}
        earlier = {(outcome.case, outcome.dtype) for outcome in self.earlier.get(name, ())}
        return [key for key in wanted if key not in irrelevant and (name not in self.sampled or key in earlier)]

    def _session(self) -> Session:
        request = CheckRequest(device=self.device, isolate=True, time_limit=self.time_limit)
        environment = {**MEASURED, **with_threads(self.threads)} if self.threads else {}
        return Session(request, environment=environment, cancelled=self._cancelled)

    def _is_used(self, key: Key, dtype: str, features: frozenset[str]) -> bool:
        needed = self._needed(dtype)
        return key in needed and needed[key] - ABOUT_SIZE <= features | {dtype}

    def _test(self, session: Session, implementation: Implementation, wanted: Sequence[Key]) -> None:
        """Run the tests whose outcomes are neither known, nor in `earlier` or the cache."""
        declaration = declaration_of(implementation)
        cache = self.cache
        stored = cache.outcomes(declaration) if cache else {}
        earlier = {(outcome.case, outcome.dtype): outcome for outcome in self.earlier.get(declaration.full_name, ())}
        known = self._known.setdefault(declaration.full_name, {})
        known |= {key: earlier[key] for key in wanted if key in earlier}
        known |= {key: stored[key] for key in wanted if key in stored and key not in known}
        missing = [key for key in wanted if key not in known]
        self.reused[declaration.full_name] = len(wanted) - len(missing)
        if not missing or (EVERY_CASE, EVERY_CASE) in known:
            return
        with ExitStack() as stack:
            if cache:
                stack.callback(lambda: cache.store(declaration, {**stored, **known}.values()))
            check = session.check(implementation, stack)
            self.signatures |= session.signatures
            if isinstance(check, Outcome):
                known[check.case, check.dtype] = check
            else:
                self._run(check, missing, known)

    def _run(self, check: Check, missing: Sequence[Key], known: dict[Key, Outcome]) -> None:
        """Run these tests in order, until too many timeouts or crashes in a row."""
        timeouts, lost = Timeouts(self.time_limit, counted=WITHOUT_RESULT), None
        diagnosed: list[frozenset[str]] = []  # features of failures with a diagnosis: a refusal shows one of these
        cases = {dtype: self._cases(dtype) for dtype in {dtype for _, dtype in missing}}
        tests = ((cases[key[1]][key], key[1]) for key in missing)
        outcomes = check.outcomes(tests)
        for case, dtype in missing:
            if self._cancelled.is_set():
                return
            if lost and timeouts.reason:  # each further test would cost a time limit or a process
                known[case, dtype] = structs.replace(lost, case=case, dtype=dtype)
                continue
            outcome, features = next(outcomes), self._needed(dtype)[case, dtype]
            if not any(other <= features for other in diagnosed):  # else a refusal shows another failure's diagnosis
                outcome = check.diagnosed_alone(outcome)
            known[case, dtype] = outcome
            diagnosed += [features] if outcome.fails else []
            timeouts.add(outcome)
            lost = outcome if outcome.status in WITHOUT_RESULT else lost
