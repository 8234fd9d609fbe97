"""One implementation that takes part in a benchmark: its processes, one or more for time and one for memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from msgspec.structs import asdict

from attnsuite import registry
from attnsuite.benchmark.connection import Elsewhere, Here, lost
from attnsuite.benchmark.entry import ProofTimes, Sample
from attnsuite.benchmark.measure import messages
from attnsuite.benchmark.measure.handed import layout_of, tensors_in
from attnsuite.benchmark.measure.messages import AnyAnswer, Job, NoResult, Rows, garbage
from attnsuite.benchmark.processes import MEASURED, cores_of, service, timed_as, with_threads
from attnsuite.benchmark.request import Implementation, declaration_of, function_here, memory_limit
from attnsuite.benchmark.secret_inputs import Secrets, secrets_of
from attnsuite.cases import Contract
from attnsuite.contracts import contract as contract_named
from attnsuite.model.limits import IMPORTS_AT_ONCE_LIMIT, TIME_LIMIT
from attnsuite.registry import Declaration, Loaded
from attnsuite.worker import Ready, Worker, await_servers
from attnsuite.worker.messages import buffer
from attnsuite.worker.turns import CALL, IDLE


@dataclass
class Participant:
    """An implementation and the connections to its benches. Every verb may be answered by `NoResult`.

    Its processes for time are suspended while others are timed; one of them has its turn, and answers. Memory is
    measured in another process, for a process that has made a call hides what another takes; not so on a GPU, where
    each process would take memory for itself.
    """

    declaration: Declaration
    device: str = "cpu"
    threads: int = 1
    memory_limit: int = field(default_factory=memory_limit)
    time_limit: float = TIME_LIMIT
    function: Callable[..., Any] | None = None
    """The function that is timed in this process, because no other can import it."""
    place: int = 0
    """Its place among the participants, which decides the cores that its processes import on."""
    gradients: bool = False
    """Whether not only forward calls will be timed, so that what gradients need is imported before."""
    trusted: bool = False
    """Whether it needs no sandbox, because the caller gave a function at hand."""
    in_processes: int = 1
    """How many processes are timed in turns, where it has processes of its own."""
    _timing: list[Here | Elsewhere] = field(default_factory=list, repr=False)
    _turn: int = 0
    _secrets: Secrets | None = field(default=None, repr=False)
    """Inputs that its processes do not know; None before anything is prepared."""
    _weighing: Elsewhere | None = field(default=None, repr=False)
    _rehearses: bool = True
    """Whether a small call is made first where memory is measured: not where that has started threads before."""

    @property
    def name(self) -> str:
        return self.declaration.full_name

    @property
    def shipped(self) -> bool:
        """Whether its code is the suite's own; a submitted file may have any name."""
        return self.declaration.shipped

    @property
    def processes(self) -> int:
        """How many processes take samples in turns."""
        return 1 if self.function is not None else self.in_processes

    def start(self) -> None:
        for each in self._apart:
            each.worker.start()

    def ready(self) -> NoResult | None:
        """Wait until the implementation is imported, or say why it cannot be."""
        for each in self._apart:
            state = each.worker.ready()
            if not isinstance(state, Ready):
                return lost(state)
            self.declaration = state.declaration
            each.worker.suspend()
        return None

    def take_turn(self, process: int) -> None:
        """Let this one of its timed processes, counted from 0, answer from now on."""
        self._turn = process

    def prepare(self, job: Job) -> messages.PreparedTask | NoResult:
        """Prepare a task in the first process, whose turn it is then."""
        self.take_turn(0)
        self._secrets = secrets_of(job)
        return self._ask(messages.PreparedTask, "prepare", job=asdict(job))

    def prepare_others(self, job: Job) -> NoResult | None:
        """Prepare the same task in the other processes; why one of them cannot."""
        for each in self._timed[1:]:
            answer = each.ask(messages.PreparedTask, "prepare", job=asdict(job))
            if isinstance(answer, NoResult):
                return replace(answer, detail=f"in another process of its own: {answer.detail}")
        return None

    def sample(self, number: int, calls: int) -> Sample | NoResult:
        """One sample on the inputs of a round, and its time by this process's clock, which the other cannot reach."""
        entered = self._ask(messages.Entered, "enter", stay=True, number=number)
        if isinstance(entered, NoResult):
            return entered
        began = perf_counter()
        sampled = self._ask(messages.Sampled, "sample", stay=True, calls=calls)
        ended = perf_counter()
        idled = self._ask(messages.Done, "idle")
        if isinstance(sampled, NoResult) or isinstance(idled, NoResult):
            return sampled if isinstance(sampled, NoResult) else idled  # type: ignore[return-value]
        return Sample(sampled.seconds, entered.warmed, sampled.made, ended - began, perf_counter() - ended)

    def found(self, rows: Rows) -> messages.OutputRows | NoResult:
        return self._ask(messages.OutputRows, "found", rows={name: list(places) for name, places in rows.items()})

    @property
    def room(self) -> int:
        """How many secret inputs it can be given at once."""
        return self._inputs.room

    def answers(self, numbers: Sequence[int], kept: int, warm: int) -> ProofTimes | NoResult:
        """The times of answers to inputs of these secret numbers, one by one, each after `warm` calls on others.

        What the call on the number `kept` returned comes with them.
        """
        tensors = [self._inputs.of(number) for number in numbers]
        parts = [[buffer(tensor.flatten()) for tensor in each.values()] for each in tensors]
        turns = [(kind, each) for each in parts for kind in (CALL, IDLE)]
        place = 2 * numbers.index(kept)
        exchanged = self._timed[self._turn].exchange(layout_of(tensors[0]), warm, turns, place)
        if isinstance(exchanged, NoResult):
            return exchanged
        taken, answer = exchanged
        if (rows := tensors_in(taken[place][1], answer.layout)) is None:
            return garbage("fewer or more bytes than its tensors have")
        seconds = [each for each, _ in taken]
        return ProofTimes(seconds[::2], seconds[1::2], rows)

    def release(self) -> messages.Done | NoResult:
        """Let go of the task in all timed processes."""
        *_, last = [each.ask(messages.Done, "release") for each in self._timed]
        return last

    def energy(self, calls: int, seconds: float) -> messages.Energy | NoResult:
        """The telemetry of calls in a row, each of which takes so many seconds."""
        return self._ask(messages.Energy, "energy", calls=calls, seconds=seconds)

    def ceilings(self, dtype: str) -> messages.Ceilings | NoResult:
        """What the machine reaches in its process."""
        return self._ask(messages.Ceilings, "ceilings", dtype=dtype)

    def weigh(self, job: Job) -> messages.Weighed | NoResult | None:
        """The memory of one call; None where it has no process of its own.

        A process that made the call itself is of no more use. Its successor makes no small call before: that has
        started threads, so that it cannot be copied.
        """
        if self.function is not None:
            return None
        if self.device != "cpu":  # an allocator's peak hides nothing
            return self._ask(messages.Weighed, "weigh", job=asdict(job), rehearse=False)
        self._weighing = self._weighing or self._elsewhere(MEASURED, weighs=True)
        answer = self._weighing.ask(messages.Weighed, "weigh", job=asdict(job), rehearse=self._rehearses)
        if isinstance(answer, messages.Weighed) and answer.spent:
            self._rehearses = False
        if isinstance(answer, NoResult) or answer.spent:
            self._close_weighing()
        return answer

    def restart(self) -> None:
        """End the processes that are timed, and all that they have started. The next verb starts others."""
        for each in self._timing:
            if isinstance(each, Elsewhere):
                each.worker.close()

    def used(self) -> float:
        """Seconds of CPU time that the processes that are timed have used; 0 where it has none of its own."""
        return sum(each.used() for each in self._apart)

    def close(self) -> None:
        self.restart()
        self._timing = []
        self._close_weighing()

    @property
    def _inputs(self) -> Secrets:
        if self._secrets is None:
            raise RuntimeError("no task is prepared")
        return self._secrets

    @property
    def _timed(self) -> list[Here | Elsewhere]:
        if not self._timing and self.function is not None:
            self._timing = [Here(self.function, self.device, self.threads)]
        elif not self._timing:
            together = cores_of(self.threads, 0)
            self._timing = [self._elsewhere(timed_as(number), together) for number in range(self.in_processes)]
        return self._timing

    @property
    def _apart(self) -> list[Elsewhere]:
        return [each for each in self._timed if isinstance(each, Elsewhere)]

    def _ask(self, kind: type[AnyAnswer], verb: str, stay: bool = False, **arguments: Any) -> AnyAnswer | NoResult:
        return self._timed[self._turn].ask(kind, verb, stay, **arguments)

    def _close_weighing(self) -> None:
        if self._weighing is not None:
            self._weighing.worker.close()
        self._weighing = None

    def _elsewhere(
        self, environment: Mapping[str, str], together: Collection[int] = (), weighs: bool = False
    ) -> Elsewhere:
        """A process with this environment, which moves to the cores `together` once it has imported."""
        sandboxed = not self.trusted and not self.shipped
        worker = Worker(
            self.declaration,
            self.device,
            self.time_limit,
            max(IMPORTS_AT_ONCE_LIMIT, self.time_limit),
            environment={**environment, **with_threads(self.threads)},
            cores=cores_of(self.threads, self.place),
            service=service(self.gradients, weighs),
            sandboxed=sandboxed,
            memory_limit=self.memory_limit if sandboxed else 0,  # the system's limit: a process can take back its own
            memory_watched=False,
        )
        return Elsewhere(worker, self.threads, self.memory_limit, together)


def participant(implementation: Implementation, **settings: Any) -> Participant:
    """The implementation as a participant: in processes of its own where they can import it, else in this one."""
    at_hand, trusted = function_here(implementation), not isinstance(implementation, Declaration)
    return Participant(declaration_of(implementation), function=at_hand, trusted=trusted, **settings)


def reference(
    contract: str, baseline: str, timed: Sequence[Implementation], stack: ExitStack, **settings: Any
) -> Participant | None:
    """The contract's own baseline, which is timed with others, gets no row, and is closed with the stack.

    Proofs of times need it: it does not lie, so it tells a lie from a machine that has become busy. It is timed in this
    process where all others are, on the same cores. None where `baseline`, which the `timed` are compared with, is
    among them and the suite's own, and where the contract's own cannot be started. `settings` are a `Participant`'s.
    """
    name = f"{contract}/{baseline}"
    if any(each.full_name == name and each.shipped for each in map(declaration_of, timed)):
        return None
    own = f"{contract}/{contract_named(contract).baseline}"
    declaration = next((each for each in registry.discover() if each.full_name == own), None)
    if declaration is None or registry.missing_library(declaration) is not None:
        return None
    named = replace(declaration, name=f"{declaration.name} (not shown)")
    if all(function_here(each) is not None for each in timed):
        loaded = registry.load(declaration)
        return Participant(named, function=loaded.function, **settings) if isinstance(loaded, Loaded) else None
    started = Participant(named, **settings)
    stack.callback(started.close)
    return None if started.ready() else started


def all_ready(
    started: Sequence[Participant],
    contract: Contract,
    timed: Sequence[Implementation],
    stack: ExitStack,
    **settings: Any,
) -> tuple[list[Participant], dict[str, NoResult], Participant | None]:
    """Wait for all imports: the participants that can be timed, why others cannot, and the yardstick if needed."""
    for each in started:
        each.start()
    beside = reference(contract.name, contract.baseline, timed, stack, place=len(started), **settings)
    failed = {each.name: why for each in started if (why := each.ready())}
    await_servers()  # nothing is imported while others are timed
    return [each for each in started if each.name not in failed], failed, beside


def is_approximate(declaration: Declaration) -> bool:
    """Whether an implementation declares that its errors are measured and have no bound, where its contract has that.

    Only contracts whose rows show how far off the output is have it.
    """
    accuracy = declaration.conventions.get("accuracy")
    return accuracy == "measured" and accuracy in contract_named(declaration.contract).conventions.get("accuracy", ())
