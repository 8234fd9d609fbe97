"""A session of checks, shared by `check`, the tests before `bench`, `attnsuite.check` and the pytest plugin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event
from typing import Any, Self

import torch
from threadpoolctl import threadpool_limits

from attnsuite import machine, registry
from attnsuite.cases import Call, Contract, NoReply
from attnsuite.conformance.case_tests import CaseTests, Implementation, Result, Run
from attnsuite.conformance.check import Check, OutcomesAt
from attnsuite.conformance.explanation import Explainer
from attnsuite.conformance.hints import call_hint, lacks_hint, operator_hint, operators_used
from attnsuite.conformance.known import Known, KnownBug, known_bugs, refuse_unmatched, xfails_of
from attnsuite.conformance.request import CaseDtype, CheckRequest
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.judging import float32
from attnsuite.model import EVERY_CASE, Explanation, Outcome, UsageError
from attnsuite.model.limits import IMPORT_LIMIT
from attnsuite.registry import Broken, Declaration, Loaded
from attnsuite.registry.signatures import in_signature, with_layout
from attnsuite.registry.signatures import signature as signature_named
from attnsuite.worker.calling import run_calls
from attnsuite.worker.sandbox.limits import memory_limit
from attnsuite.worker.worker import Ready, Worker

Target = Declaration | Loaded
"""An implementation, or one that is loaded in this process."""


@dataclass
class Session:
    """The check of several implementations, which share inputs and expected values."""

    request: CheckRequest
    keep_inputs: bool = True
    """Whether to store inputs and expected values, because more than one implementation is tested."""
    explains: bool = False
    """Whether failures are explained, which takes seconds."""
    fail_fast: bool = False
    """Whether no more tests run after the first failure."""
    jobs: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for the processes of implementations, added to those of this process."""
    cores: Collection[int] = ()
    """The cores to which those processes are bound; empty for no limit."""
    cancelled: Event | None = None
    """Set when no result is needed any more: waiting for one then ends as if its process had died."""
    explanations: dict[str, Explanation] = field(default_factory=dict)
    """The explanations of checked implementations, by full name, as the two dictionaries that follow."""
    signatures: dict[str, str] = field(default_factory=dict)
    """The signature of each and how it was recognised, in a line; empty for the contract's own."""
    mechanisms: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """The mechanisms of the sandbox of each; None for trusted code."""
    # By contract:
    _tests: dict[str, list[CaseDtype]] = field(default_factory=dict)
    _inputs: dict[str, CaseTests] = field(default_factory=dict)
    _bugs: dict[str, list[KnownBug]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release nothing: the processes of an implementation end with its check."""

    # Run

    def run(self, target: Target, earlier: Sequence[Outcome] = ()) -> Generator[Outcome]:
        """Check one implementation: yield the outcome of each test as it comes, then again the failures with a name.

        Of two outcomes with the same key the later one counts. Tests with an outcome in `earlier` are not run again.
        """
        with ExitStack() as stack:
            check = self.check(target, stack, earlier, prestart=self.jobs == 1)
            if isinstance(check, Outcome):
                yield check
                return
            stack.enter_context(single_threaded(self.request.device))
            outcomes = {outcome.key: outcome for outcome in check.earlier}
            for outcome in () if self.is_decided(outcomes.values()) else check.run(self.outcomes_at(check, target)):
                outcomes[outcome.key] = outcome
                yield outcome
                if self.is_decided([outcome]):
                    break
            for outcome in Explainer(check).named(list(outcomes.values())):
                outcomes[outcome.key] = outcome
                yield outcome
            self._explain(check, list(outcomes.values()), target)

    def outcomes(self, target: Target, earlier: Sequence[Outcome] = ()) -> list[Outcome]:
        """The final outcomes of one implementation that are not in `earlier`."""
        return list({outcome.key: outcome for outcome in self.run(target, earlier)}.values())

    def outcomes_at(self, check: Check, target: Target) -> OutcomesAt | None:
        """Runs the tests of a check; None for this process."""
        return None

    def is_decided(self, outcomes: Iterable[Outcome]) -> bool:
        """Whether no more tests are to run after these outcomes."""
        return self.fail_fast and any(outcome.fails for outcome in outcomes)

    def _explain(self, check: Check, outcomes: Sequence[Outcome], target: Target) -> None:
        """Record the explanation."""
        if not self.explains:
            return
        implementation = check.implementation
        operators = None if implementation.declaration.shipped else operators_used(check, outcomes)
        self.explanations[implementation.name] = replace(
            Explainer(check).explanation(outcomes),
            operators=operators,
            hint=self._call_hint(check, outcomes, target)
            or operator_hint(check, outcomes, operators)
            or lacks_hint(check, outcomes),
            untested=() if implementation.declaration.shipped else implementation.declaration.untested,
        )

    def _call_hint(self, check: Check, outcomes: Sequence[Outcome], target: Target) -> str:
        """A hint for the author of a file or a module that passes no plain test."""
        if isinstance(target, Loaded) or target.shipped:
            return ""
        with ExitStack() as stack:

            def opened(name: str) -> Check | None:
                contract = check.implementation.contract
                try:
                    other = self._implementation(registry.with_signature(target, name), contract, stack, prestart=False)
                except UsageError:  # its parameters are not those of that signature
                    return None
                return Check(other, check.inputs, ()) if isinstance(other, Implementation) else None

            return call_hint(check, outcomes, opened)

    # Tests

    def count(self, declaration: Declaration) -> int:
        """How many outcomes to expect of one implementation. UsageError if the patterns select no case."""
        return len(self.tests_of(declaration, contract_named(declaration.contract))) if _has_tests(declaration) else 1

    def tests(self, contract: Contract) -> list[CaseDtype]:
        """The tests of a contract that the request selects."""
        if contract.name not in self._tests:
            self._tests[contract.name] = self.request.tests(contract)
        return self._tests[contract.name]

    def tests_of(self, declaration: Declaration, contract: Contract) -> list[CaseDtype]:
        """The tests of one implementation."""
        tests, only = self.tests(contract), self.request.only.get(declaration.full_name)
        if shard := self.request.shard:
            tests = [test for test in tests if shard.takes(declaration.full_name, test[0].family)]
        return tests if only is None else [test for test in tests if (test[0].name, test[1]) in only]

    def falls_here(self, declaration: Declaration) -> bool:
        """Whether any test of an implementation is in the shard of the request."""
        shard = self.request.shard
        if shard is None:
            return True
        if not _has_tests(declaration):  # a single row, about all cases
            return shard.takes(declaration.full_name, EVERY_CASE)
        return bool(self.tests_of(declaration, contract_named(declaration.contract)))

    def divided_into(self, declaration: Declaration) -> int:
        """How many parts of the tests of an implementation may be in different shards: families of cases."""
        if not _has_tests(declaration):
            return 1
        return len({case.family for case, _ in self.tests(contract_named(declaration.contract))})

    def inputs(self, contract: Contract) -> CaseTests:
        """The inputs and expected values of a contract."""
        return self._inputs.setdefault(contract.name, CaseTests(contract, keep=self.keep_inputs))

    # Known failures

    def known_bugs(self, contract: Contract) -> list[KnownBug]:
        """The known bugs of a contract with the installed versions."""
        if contract.name not in self._bugs:
            self._bugs[contract.name] = known_bugs(contract.known_bugs, machine.versions())
        return self._bugs[contract.name]

    def known(self, declaration: Declaration, contract: Contract) -> Sequence[Known]:
        """Known bugs of a shipped implementation; expected failures of a submission."""
        bugs = self.known_bugs(contract) if declaration.shipped or self.request.xfails else []
        return bugs if declaration.shipped else list(xfails_of(self.request.xfails, bugs))

    def refuse_unmatched_xfails(self, declarations: Iterable[Declaration]) -> None:
        """Raise UsageError for an expected failure that matches no case of these, and where all of these ship."""
        if not self.request.xfails:
            return
        own = [item for item in declarations if not item.shipped and item.contract in contract_names()]
        if not own:
            raise UsageError("--xfails is for your own implementations; those that ship have known bugs instead")
        contracts = [contract_named(name) for name in dict.fromkeys(item.contract for item in own)]
        cases = {item.name: (*item.cases(), *self.request.all_cases(item)) for item in contracts}
        names = {name: [case.name for case in of_contract] for name, of_contract in cases.items()}
        refuse_unmatched(self.request.xfails, names, [bug for item in contracts for bug in self.known_bugs(item)])

    # Implementations

    def check(
        self, target: Target, stack: ExitStack, earlier: Sequence[Outcome] = (), prestart: bool = True
    ) -> Check | Outcome:
        """The check of one implementation, ready to run, or the outcome that says why it cannot run.

        Its processes end with `stack`. With `prestart`, the process that some cases need starts at once.
        """
        declaration = target.declaration if isinstance(target, Loaded) else target
        problem = declaration.broken
        try:
            contract = contract_named(declaration.contract)
        except UsageError as error:  # an entry point or a folder may name a contract that does not exist
            problem = str(error)
        if problem:
            return cannot_run(Broken(declaration, problem), self.request.device, declaration)
        tests = self.tests_of(declaration, contract)
        prestart = prestart and any(case.in_worker for case, _ in tests)
        implementation = self._implementation(target, contract, stack, prestart)
        if isinstance(implementation, Outcome):
            return implementation
        name = implementation.name
        self.signatures[name] = registry.assumptions(implementation.declaration)
        self.mechanisms[name] = implementation.mechanisms
        known, whole = self.known(declaration, contract), self.request.shard is None
        return Check(
            implementation, self.inputs(contract), tests, known, earlier, whole, time_limit=self.request.time_limit
        )

    def _implementation(
        self, target: Target, contract: Contract, stack: ExitStack, prestart: bool
    ) -> Implementation | Outcome:
        """An implementation that is ready to run, or the outcome that says why it cannot."""
        device = self.request.device
        result = self._function(target)
        if isinstance(result, Outcome):
            return result
        declaration, function = result
        here: Run | None = None if function is None else partial(run_calls, function, device=device)
        isolated, afresh, mechanisms = here, None, None
        if declaration.module or declaration.file:
            worker = stack.enter_context(self._worker(declaration, trusted=function is not None))
            if prestart:
                worker.prestart()  # while the first tests run here
            if here is None:
                state = worker.ready()
                if not isinstance(state, Ready):
                    return cannot_run(state, device, declaration)
                declaration = state.declaration
                mechanisms = None if declaration.shipped else worker.mechanisms
                afresh = _laid_out(partial(self._in_new_process, declaration), declaration.signature)
            isolated = worker.run_calls
        assert isolated is not None, "a declaration has a function, a module or a file"
        run_here, run_isolated = (_laid_out(run, declaration.signature) for run in (here or isolated, isolated))
        return Implementation(
            declaration,
            in_signature(contract, declaration.signature),
            run=run_here,
            run_isolated=run_isolated,
            run_overlapped=run_isolated if here is None else None,
            run_afresh=afresh,
            device=device,
            mechanisms=mechanisms,
            lenient=not (declaration.shipped or self.request.strict),
        )

    def _in_new_process(self, declaration: Declaration, calls: Sequence[Call]) -> Result:
        with self._worker(declaration, trusted=False) as worker:
            return worker.run_calls(calls)

    def _function(self, target: Target) -> tuple[Declaration, Callable[..., Any] | None] | Outcome:
        """A declaration, and its function where it may run in this process; or why it cannot run."""
        if isinstance(target, Loaded):
            return target.declaration, target.function
        if not self.request.isolates_shipped and target.shipped:
            loaded = registry.load(target)
            if isinstance(loaded, Loaded):
                return loaded.declaration, loaded.function
            return cannot_run(loaded, self.request.device, target)
        missing = registry.missing_library(target)
        return cannot_run(missing, self.request.device, target) if missing else (target, None)

    def _worker(self, declaration: Declaration, trusted: bool) -> Worker:
        """A process for an implementation. Code that runs in this process as well is trusted, and needs no sandbox."""
        sandboxed = not trusted and not declaration.shipped
        return Worker(
            declaration,
            device=self.request.device,
            time_limit=self.request.time_limit,
            start_limit=max(IMPORT_LIMIT, self.request.time_limit),
            environment=self.environment,
            cores=self.cores,
            sandboxed=sandboxed,
            memory_limit=memory_limit() if sandboxed else 0,
            cancelled=self.cancelled,
        )


def _laid_out(run: Callable[..., Result], name: str) -> Callable[..., Result]:
    """Runs with inputs in the memory layout of the signature of this name."""
    if not name:
        return run
    layout = signature_named(name)
    return lambda calls, *more: run([replace(call, tensors=with_layout(call.tensors, layout)) for call in calls], *more)


@contextmanager
def single_threaded(device: str) -> Iterator[None]:
    """Run the block on one thread if it is on the CPU, with exact products of float32; restore the caller's thread
    counts, precision and random state afterwards.

    Small calls take far longer on several threads than on one, above all next to other work. Numpy's threads, which
    compute expected values, wait for each other by spinning: two processes took twice the time.
    """
    threads, random = torch.get_num_threads(), torch.get_rng_state()
    if device == "cpu":
        torch.set_num_threads(1)
    try:
        with float32.exact(), threadpool_limits(1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_rng_state(random)


def cannot_run(problem: NoReply, device: str, declaration: Declaration) -> Outcome:
    """The one outcome of an implementation that cannot run."""
    where = (declaration.full_name, declaration.contract, EVERY_CASE, EVERY_CASE, device)
    return Outcome(*where, problem.status, str(problem))


def _has_tests(declaration: Declaration) -> bool:
    return not declaration.broken and declaration.contract in contract_names()
