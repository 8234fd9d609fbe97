"""From targets to outcomes: what `attnsuite check`, `attnsuite.check` and the pytest plugin have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, Self

import torch
from msgspec import structs
from threadpoolctl import threadpool_limits

from attnsuite import machine, registry
from attnsuite.cases import Case, Contract, NoReply, list_tests
from attnsuite.cases.contract import PROFILES, QUICK
from attnsuite.conformance import findings, gaps, operators
from attnsuite.conformance.explaining import Explainer
from attnsuite.conformance.findings import Known
from attnsuite.conformance.forwarding import Forwarding
from attnsuite.conformance.hinting import Hinting
from attnsuite.conformance.questions import Answer, Ask, Questions, Subject
from attnsuite.conformance.runner import Check
from attnsuite.conformance.selection import matches, nothing_matches
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.judging import float32
from attnsuite.model import DTYPES, EVERY_CASE, Explanation, Operators, Outcome, Shard, UsageError
from attnsuite.model.limits import IMPORT_LIMIT, TIME_LIMIT
from attnsuite.model.options import check_dtypes, check_name_of_device, check_profile, check_seconds, check_seed
from attnsuite.registry import Broken, Declaration, Loaded
from attnsuite.registry.signatures import in_signature, laid
from attnsuite.registry.signatures import signature as signature_named
from attnsuite.worker import Ready, Worker, ask
from attnsuite.worker.sandbox.limits import memory_limit


@dataclass(frozen=True)
class CheckRequest:
    """What to ask, in which dtypes, on which device; with `isolate`, of every implementation in its own process."""

    cases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    device: str = "cpu"
    isolate: bool = False
    time_limit: float = TIME_LIMIT
    profile: str = QUICK
    """Which of the cases that combine features."""
    seed: int = 0
    """Of the numbers that cases are made of, and of the array of combinations; 0 is what is asked by default."""
    only: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    """The cases and dtypes that implementations are asked, by full name; who is not named is asked everything."""
    sampled: Mapping[str, int] = field(default_factory=dict)
    """The implementations that are tested on a sample, which `only` has, each with the number of its tests in all."""
    shard: Shard | None = None
    """The part that is asked, of implementations and families of cases."""
    gaps: tuple[gaps.Gap, ...] = ()
    """What implementations that do not ship are known to fail."""
    strict: bool = False
    """Whether implementations that do not ship fail for bad input that they accept; those that ship always do."""

    def __post_init__(self) -> None:
        check_dtypes(self.dtypes)
        check_device(self.device)
        check_seconds("time limit", self.time_limit)
        check_profile(self.profile, PROFILES)
        check_seed(self.seed)

    @property
    def apart(self) -> bool:
        """Whether those that ship answer in processes of their own, too.

        So they do on a GPU: a kernel that goes wrong there may cost its process all further use of the device.
        """
        return self.isolate or self.device != "cpu"

    def posed(self, contract: Contract) -> Sequence[Case]:
        """The cases of the contract; those that combine features are of this profile and seed."""
        cases = contract.cases()
        if contract.array is None or (self.profile, self.seed) == (QUICK, 0):
            return cases
        array = contract.array()
        named = array.named(self.cases) if self.cases else None  # drawing an array takes seconds
        combined = array.cases(self.profile, self.seed) if named is None else named
        families = {case.family for case in combined}
        return [*(case for case in cases if case.family not in families), *combined]

    def asked(self, contract: Contract) -> list[tuple[Case, str]]:
        """The cases and dtypes that the patterns choose, in the order of cases. UsageError if there are none."""
        cases = self.posed(contract)
        for pattern in self.cases:
            if not any(matches(case.name, pattern) for case in cases):
                families = list(dict.fromkeys(case.family for case in cases))
                names = [case.name for case in cases]
                raise UsageError(nothing_matches(pattern, names, families, contract.name, contract.also_called))
        chosen = [case for case in cases if not self.cases or any(matches(case.name, p) for p in self.cases)]
        asked = list_tests(chosen, self.device.split(":")[0], self.dtypes or DTYPES)
        if not asked:
            where = f"in {', '.join(self.dtypes or DTYPES)} on {self.device}"
            raise UsageError(f"the cases {', '.join(self.cases)} are not asked {where}")
        return asked


def check_device(device: str) -> None:
    """Raise UsageError if this machine has no such device."""
    check_name_of_device(device)
    try:
        kind, index = torch.device(device).type, torch.device(device).index or 0
    except RuntimeError:  # a number that is none to torch
        raise UsageError(f"unknown device {device!r}; there are: cpu, cuda, cuda:N") from None
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise UsageError(
                f"{device} was asked for, but torch {torch.__version__} sees no CUDA device here; cpu exists"
            )
        if index >= count:
            raise UsageError(f"{device} was asked for, but there are only {count} CUDA devices, numbered from 0")


@dataclass
class Session:
    """The check of several implementations, which share questions and truths."""

    request: CheckRequest
    several: bool = True
    """Whether questions are kept, because more than one implementation will be asked them."""
    explains: bool = False
    """Whether failures are explained beside their outcomes, which takes seconds."""
    fail_fast: bool = False
    """Whether nothing more is asked after a failure that no finding records."""
    explanations: dict[str, Explanation] = field(default_factory=dict)
    """Of the implementations that were checked, by full name."""
    signed: dict[str, str] = field(default_factory=dict)
    """Which signature each was taken to have, and why, in a line; empty for the contract's own."""
    walls: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """The names of the walls around each; None for what is trusted."""
    lacks: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """What each lacks, by feature, and why: its import may tell other gaps than its source does."""
    looks: bool = False
    """Whether it is looked at which operators those run that do not ship, also where nothing is explained."""
    ran: dict[str, Operators] = field(default_factory=dict)
    """The operators of those that were looked at, by full name."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to that of this process for those that answer in processes of their own."""
    cores: Collection[int] = ()
    """What those processes are bound to; nothing where it is empty."""
    over: Event | None = None
    """Set where nobody needs their answers any more: whoever waits for one is told that its process has died."""
    _asked: dict[str, list[tuple[Case, str]]] = field(default_factory=dict)
    _questions: dict[str, Questions] = field(default_factory=dict)
    _findings: dict[str, list[findings.Finding]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing outlives the check of an implementation."""

    def run(self, implementation: Declaration | Loaded, earlier: Sequence[Outcome] = ()) -> Generator[Outcome]:
        """Check one implementation. Questions that have an outcome in `earlier` are not asked again."""
        with ExitStack() as stack:
            check = self.check(implementation, stack, earlier)
            if isinstance(check, Outcome):
                yield check
            else:
                stack.enter_context(alone(self.request.device))
                yield from self.explained(check, check.run(), implementation)

    def explained(self, check: Check, outcomes: Iterable[Outcome], of: Declaration | Loaded) -> Iterator[Outcome]:
        """The outcomes of a check; after them its failures are explained, if that is wanted."""
        found = list(check.earlier)
        for outcome in () if self.is_decided(found) else outcomes:
            found.append(outcome)
            yield outcome
            if self.is_decided([outcome]):
                break
        if (self.explains or self.looks) and not check.subject.shipped and (ran := operators.operators(check, found)):
            self.ran[check.subject.name] = ran
        if self.explains:
            self.explanations[check.subject.name] = self._explanation(check, found, of)

    def _explanation(self, check: Check, outcomes: Sequence[Outcome], of: Declaration | Loaded) -> Explanation:
        """Of all outcomes of a check. What is a library's failure is explained by its finding."""
        with ExitStack() as stack:
            borrowed = self.forwarding(check, stack).borrowed(outcomes)
        others = [
            structs.replace(o, known=borrowed.implementation) if borrowed and borrowed.is_about(o) else o
            for o in outcomes
        ]
        ran = self.ran.get(check.subject.name)
        hint = self._hint(check, outcomes, of) or operators.hint(check, outcomes, ran)
        unasked = () if check.subject.shipped else check.subject.unasked
        explanation = Explainer(check).explanation(others)
        return replace(explanation, borrowed=borrowed, operators=ran, hint=hint, unasked=unasked)

    def _hint(self, check: Check, outcomes: Sequence[Outcome], of: Declaration | Loaded) -> str:
        """What helps the author of a file or module that answers nothing: its signature, or how it is called."""
        if isinstance(of, Loaded) or of.shipped:
            return ""
        with ExitStack() as stack:

            def opened(name: str) -> Check | None:
                try:
                    subject = self._subject(registry.asked_in(of, name), check.subject.contract, stack, apart=False)
                except UsageError:  # its parameters are not that signature's
                    return None
                return Check(subject, check.questions, ()) if isinstance(subject, Subject) else None

            return Hinting(check, opened).hint(outcomes)

    def forwarding(self, check: Check, stack: ExitStack) -> Forwarding:
        """What finds the failures of a submission that are a library's. What it asks besides ends with `stack`."""
        contract, own = check.subject.contract, check.subject.name
        shipped = [each for each in registry.discover() if each.contract == contract.name and each.shipped]
        by_name = {each.full_name: each for each in shipped if each.full_name != own}

        def opened(name: str) -> Check | None:
            found = self.check(by_name[name], stack, foresee=False)
            return found if isinstance(found, Check) else None

        return Forwarding(check, self.findings(contract), list(by_name), opened, machine.versions())

    def is_decided(self, outcomes: Iterable[Outcome]) -> bool:
        """Whether nothing more is to be asked after these outcomes."""
        return self.fail_fast and any(outcome.fails for outcome in outcomes)

    def check(
        self,
        implementation: Declaration | Loaded,
        stack: ExitStack,
        earlier: Sequence[Outcome] = (),
        foresee: bool = True,
    ) -> Check | Outcome:
        """The check of one implementation, ready to run, or the outcome that says why there is none.

        Its process ends with `stack`. With `foresee`, the process that some cases need is prepared at once.
        """
        declaration = implementation.declaration if isinstance(implementation, Loaded) else implementation
        problem = declaration.broken
        try:
            contract = contract_named(declaration.contract)
        except (
            UsageError
        ) as error:  # an entry point or a folder of implementations may name a contract that does not exist
            problem = str(error)
        if problem:
            return unaskable(Broken(declaration, problem), self.request.device, declaration)
        asked = self.asked_of(declaration, contract)
        apart = foresee and any(case.in_worker for case, _ in asked)
        subject = self._subject(implementation, contract, stack, apart)
        if isinstance(subject, Outcome):
            return subject
        known = self.known(declaration, contract)
        self.meet(subject)
        return Check(
            subject,
            self.questions(contract),
            asked,
            known,
            earlier,
            whole=self.request.shard is None,
            settles=not self.fail_fast,
            time_limit=self.request.time_limit,
        )

    def meet(self, subject: Subject) -> None:
        """Note what the import of an implementation has told of it."""
        self.signed[subject.name], self.walls[subject.name] = subject.signed, subject.walls
        self.lacks[subject.name] = subject.lacks

    def count(self, declaration: Declaration) -> int:
        """How many outcomes to expect of one implementation. UsageError if the patterns choose no case."""
        known = declaration.contract in contract_names() and not declaration.broken
        return len(self.asked_of(declaration, contract_named(declaration.contract))) if known else 1

    def asked(self, contract: Contract) -> list[tuple[Case, str]]:
        if contract.name not in self._asked:
            self._asked[contract.name] = self.request.asked(contract)
        return self._asked[contract.name]

    def asked_of(self, declaration: Declaration, contract: Contract) -> list[tuple[Case, str]]:
        """The questions for one implementation."""
        asked, only = self.asked(contract), self.request.only.get(declaration.full_name)
        if shard := self.request.shard:
            asked = [each for each in asked if shard.takes(declaration.full_name, each[0].family)]
        return asked if only is None else [each for each in asked if (each[0].name, each[1]) in only]

    def falls_here(self, declaration: Declaration) -> bool:
        """Whether anything is asked of an implementation in the shard of the request, if it has one."""
        shard = self.request.shard
        if shard is None:
            return True
        if declaration.broken or declaration.contract not in contract_names():  # a single row, about all cases
            return shard.takes(declaration.full_name, EVERY_CASE)
        return bool(self.asked_of(declaration, contract_named(declaration.contract)))

    def divided_into(self, declaration: Declaration) -> int:
        """How many parts of what an implementation is asked may fall into different shards: families of cases."""
        if declaration.broken or declaration.contract not in contract_names():
            return 1
        return len({case.family for case, _ in self.asked(contract_named(declaration.contract))})

    def questions(self, contract: Contract) -> Questions:
        return self._questions.setdefault(contract.name, Questions(contract, keep=self.several))

    def findings(self, contract: Contract) -> list[findings.Finding]:
        if contract.name not in self._findings:
            self._findings[contract.name] = findings.load(contract.findings, machine.versions())
        return self._findings[contract.name]

    def known(self, declaration: Declaration, contract: Contract) -> list[Known]:
        """What an implementation is known to fail: findings if it ships, else the gaps of the request."""
        if has_findings(declaration):
            return list(self.findings(contract))
        return list(gaps.of_contract(self.request.gaps, contract, self.findings(contract))) if self.request.gaps else []

    def refuse_idle_gaps(self, declarations: Iterable[Declaration]) -> None:
        """Raise UsageError for a gap that means no case of any of these, and for gaps of those that ship alone."""
        if not self.request.gaps:
            return
        own = [each for each in declarations if not has_findings(each) and each.contract in contract_names()]
        if not own:
            raise UsageError("known gaps are about implementations of one's own; what ships here has findings instead")
        contracts = [contract_named(name) for name in dict.fromkeys(each.contract for each in own)]
        names = {of.name: [case.name for case in (*of.cases(), *self.request.posed(of))] for of in contracts}
        gaps.refuse_unmatched(self.request.gaps, names, [each for of in contracts for each in self.findings(of)])

    def _subject(
        self, implementation: Declaration | Loaded, contract: Contract, stack: ExitStack, apart: bool
    ) -> Subject | Outcome:
        """What the runner asks, or the outcome that says why there is nothing to ask."""
        device = self.request.device
        found = self._found(implementation)
        if isinstance(found, Outcome):
            return found
        declaration, function = found
        walls: tuple[str, ...] | None = None
        here: Ask | None = None if function is None else partial(ask, function, device=device)
        elsewhere, files = here, Subject.files
        if declaration.module or declaration.file:
            worker = stack.enter_context(self._worker(declaration, trusted=function is not None))
            if apart:
                worker.foresee()  # while the first questions are answered here
            if here is None:
                state = worker.ready()
                if not isinstance(state, Ready):
                    return unaskable(state, device, declaration)
                declaration = state.declaration
                walls = None if declaration.shipped else worker.walls
            elsewhere, files = worker.ask, worker.files
        assert elsewhere is not None, "a declaration has a function, a module or a file"
        ask_here, ask_apart = (laid_out(each, declaration.signature) for each in (here or elsewhere, elsewhere))
        return Subject(
            declaration.full_name,
            in_signature(contract, declaration.signature),
            ask=ask_here,
            ask_apart=ask_apart,
            ask_meanwhile=ask_apart if here is None else None,
            parameters=None if declaration.parameters is None else frozenset(declaration.parameters),
            lacks=declaration.lacks,
            conventions=declaration.conventions,
            device=device,
            plugged=declaration.plug is not None,
            imported=() if declaration.rewritten else registry.import_lines(declaration),
            style=declaration.style,
            signature=declaration.signature,
            signed=registry.introduction(declaration),
            unasked=declaration.unasked,
            files=files,
            walls=walls,
            shipped=declaration.shipped,
            lenient=not (declaration.shipped or self.request.strict),
        )

    def _found(self, implementation: Declaration | Loaded) -> tuple[Declaration, Callable[..., Any] | None] | Outcome:
        """What is asked, and its function where it may answer in this process; or why nothing can be asked."""
        if isinstance(implementation, Loaded):
            return implementation.declaration, implementation.function
        if not self.request.apart and implementation.shipped:
            loaded = registry.load(implementation)
            if isinstance(loaded, Loaded):
                return loaded.declaration, loaded.function
            return unaskable(loaded, self.request.device, implementation)
        missing = registry.absent(implementation)
        return unaskable(missing, self.request.device, implementation) if missing else (implementation, None)

    def _worker(self, declaration: Declaration, trusted: bool) -> Worker:
        """A process of its own. What answers in this process as well is trusted, and needs no walls."""
        walled = not trusted and not declaration.shipped
        return Worker(
            declaration,
            device=self.request.device,
            time_limit=self.request.time_limit,
            start_limit=max(IMPORT_LIMIT, self.request.time_limit),
            environment=self.environment,
            cores=self.cores,
            walled=walled,
            memory_limit=memory_limit() if walled else 0,
            over=self.over,
        )


def laid_out(asked: Callable[..., Answer], name: str) -> Callable[..., Answer]:
    """Asks with inputs that lie in memory as those of the signature of this name do."""
    if not name:
        return asked
    of = signature_named(name)
    return lambda calls, *more: asked([replace(call, tensors=laid(call.tensors, of)) for call in calls], *more)


@contextmanager
def alone(device: str) -> Iterator[None]:
    """Run the block on one thread if it is on the CPU, with exact products of float32; restore the caller's thread
    counts, precision and random state afterwards.

    Small calls take far longer on several threads than on one, above all beside other work. Numpy's threads, which
    compute truths wherever the call is made, wait for each other by spinning: two processes took twice the time.
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


def has_findings(declaration: Declaration) -> bool:
    """Whether findings apply: they are about implementations that ship here, not about others of the same name."""
    return declaration.shipped


def unaskable(problem: NoReply, device: str, declaration: Declaration) -> Outcome:
    """The one outcome of an implementation that cannot be asked."""
    where = (declaration.full_name, declaration.contract, EVERY_CASE, EVERY_CASE, device)
    return Outcome(*where, problem.status, str(problem))


def requested(
    cases: str | Iterable[str],
    dtypes: str | torch.dtype | Iterable[str | torch.dtype] | None,
    device: str | torch.device,
    known_gaps: str | Path | None = None,
    strict: bool = False,
) -> CheckRequest:
    """A request from the arguments of Python functions: one name or several, "float32" or torch.float32."""
    if dtypes is None or isinstance(dtypes, str | torch.dtype):
        dtypes = () if dtypes is None else (dtypes,)
    names = tuple(str(dtype).removeprefix("torch.") for dtype in dtypes)
    chosen = (cases,) if isinstance(cases, str) else tuple(cases)
    read = gaps.read(known_gaps) if known_gaps is not None else ()
    return CheckRequest(chosen, names, str(device), gaps=read, strict=strict)
