"""One implementation that takes part in a benchmark: its processes, one or more for time and one for memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any

from attnsuite.benchmark.connection import Elsewhere, Here, lost
from attnsuite.benchmark.entry import Answered, Witnessed
from attnsuite.benchmark.implementation import Implementation, declaration_of, function_here
from attnsuite.benchmark.measure.handed import layout_of, tensors_in
from attnsuite.benchmark.measure.protocol import (
    AnyAnswer,
    Ceilings,
    Done,
    Energy,
    Entered,
    Failed,
    Found,
    Job,
    Prepared,
    Rehearsed,
    Rows,
    Sampled,
    Weighed,
    garbage,
)
from attnsuite.benchmark.processes import MEASURED, cores_of, service, timed_as, with_threads
from attnsuite.benchmark.request import memory_limit
from attnsuite.benchmark.secret_inputs import Secrets, secrets_of
from attnsuite.contracts import contract
from attnsuite.model.limits import IMPORTS_AT_ONCE_LIMIT, TIME_LIMIT
from attnsuite.registry import Declaration
from attnsuite.worker import Ready, Worker
from attnsuite.worker.messages import buffer
from attnsuite.worker.turns import CALL, IDLE


@dataclass
class Participant:
    """An implementation and how its bench is asked. Every question may be answered by `Failed`.

    Its processes for time are suspended while others are asked; one of them has its turn, and answers. Memory is
    measured in another process, for a process that has made a call hides what another takes; not so on a GPU, where
    each process would take memory for itself.
    """

    declaration: Declaration
    device: str = "cpu"
    threads: int = 1
    memory_limit: int = field(default_factory=memory_limit)
    time_limit: float = TIME_LIMIT
    function: Callable[..., Any] | None = None
    """What is timed in this process, because no other could import it."""
    place: int = 0
    """Its place among the participants, from which follow the cores that its processes import on."""
    gradients: bool = False
    """Whether not only forward calls will be timed, so that what gradients need is imported before."""
    trusted: bool = False
    """Whether it needs no walls, because whoever benchmarks it gave a function at hand."""
    in_processes: int = 1
    """How many processes are timed in turns, where it has processes of its own."""
    _timing: list[Here | Elsewhere] = field(default_factory=list, repr=False)
    _turn: int = 0
    _secrets: Secrets | None = field(default=None, repr=False)
    """Inputs that its processes do not know; None before anything is prepared."""
    _weighing: Elsewhere | None = field(default=None, repr=False)
    _rehearsed: set[tuple[str, str]] = field(default_factory=set, repr=False)
    """The contracts and dtypes for which a small call was made in the process whose memory is measured."""

    @property
    def name(self) -> str:
        return self.declaration.full_name

    @property
    def shipped(self) -> bool:
        """Whether its code is the suite's own; a stranger's file may have any name."""
        return self.declaration.shipped

    @property
    def approximate(self) -> bool:
        """Whether it declares that no limit of its errors is promised."""
        return is_approximate(self.declaration)

    def start(self) -> None:
        """Begin to import, in the background."""
        for each in self._apart:
            each.worker.start()

    def ready(self) -> Failed | None:
        """Wait until the implementation is imported, or say why it cannot be."""
        for each in self._apart:
            state = each.worker.ready()
            if not isinstance(state, Ready):
                return lost(state)
            self.declaration = state.declaration
            each.worker.suspend()
        return None

    @property
    def processes(self) -> int:
        """How many processes take samples in turns."""
        return 1 if self.function is not None else self.in_processes

    def take_turn(self, process: int) -> None:
        """Let this one of its timed processes, counted from 0, answer from now on."""
        self._turn = process

    def prepare(self, job: Job) -> Prepared | Failed:
        """Prepare a task in the first process, whose turn it is then."""
        self.take_turn(0)
        self._secrets = secrets_of(job)
        return self._ask(Prepared, "prepare", job=asdict(job))

    def prepare_others(self, job: Job) -> Failed | None:
        """Prepare the same task in the other processes; why one of them cannot."""
        for each in self._timed[1:]:
            answer = each.ask(Prepared, "prepare", {"job": asdict(job)})
            if isinstance(answer, Failed):
                return replace(answer, detail=f"in another process of its own: {answer.detail}")
        return None

    def sample(self, number: int, calls: int) -> Witnessed | Failed:
        """One sample on the inputs of a round, and what it took by the clock of this process, which the other cannot
        reach.
        """
        entered = self._ask(Entered, "enter", stay=True, number=number)
        if isinstance(entered, Failed):
            return entered
        began = perf_counter()
        sampled = self._ask(Sampled, "sample", stay=True, calls=calls)
        ended = perf_counter()
        idled = self._ask(Done, "idle")
        if isinstance(sampled, Failed) or isinstance(idled, Failed):
            return sampled if isinstance(sampled, Failed) else idled  # type: ignore[return-value]
        return Witnessed(sampled.seconds, entered.warmed, sampled.made, ended - began, perf_counter() - ended)

    def found(self, rows: Rows) -> Found | Failed:
        return self._ask(Found, "found", rows=_as_lists(rows))

    @property
    def room(self) -> int:
        """How many inputs it can be asked for at once."""
        return self._inputs.room

    def answers(self, numbers: Sequence[int], kept: int, warm: int) -> Answered | Failed:
        """What it takes to answer inputs of these secret numbers, one by one, each after `warm` calls on others.

        What the call on the number `kept` returned comes along.
        """
        tensors = [self._inputs.of(number) for number in numbers]
        parts = [[buffer(tensor.flatten()) for tensor in each.values()] for each in tensors]
        turns = [(kind, each) for each in parts for kind in (CALL, IDLE)]
        told = 2 * numbers.index(kept)
        found = self._timed[self._turn].exchange(layout_of(tensors[0]), warm, turns, told)
        if isinstance(found, Failed):
            return found
        taken, answer = found
        if (rows := tensors_in(taken[told][1], answer.layout)) is None:
            return garbage("fewer or more bytes than its tensors have")
        seconds = [each for each, _ in taken]
        return Answered(seconds[::2], seconds[1::2], rows)

    def release(self) -> Done | Failed:
        *_, last = [each.ask(Done, "release", {}) for each in self._timed]
        return last

    def energy(self, calls: int, seconds: float) -> Energy | Failed:
        return self._ask(Energy, "energy", calls=calls, seconds=seconds)

    def ceilings(self, dtype: str) -> Ceilings | Failed:
        return self._ask(Ceilings, "ceilings", dtype=dtype)

    def weigh(self, job: Job, expected: float) -> Weighed | Failed | None:
        """The memory of one call, which takes about `expected` seconds; None where it has no process of its own."""
        if self.function is not None:
            return None
        if self.device != "cpu":  # an allocator's peak hides nothing
            return self._ask(Weighed, "weigh", job=asdict(job), expected=expected)
        if failed := self._rehearse(job):
            self._close_weighing()
            return failed
        self._weighing = self._weighing or self._elsewhere(MEASURED, weighs=True)
        answer = self._weighing.ask(Weighed, "weigh", {"job": asdict(job), "expected": expected})
        if isinstance(answer, Failed) or answer.spent:
            self._close_weighing()
        return answer

    def restart(self) -> None:
        """End the processes that are timed, and all that they have started. The next question starts others."""
        for each in self._timing:
            if isinstance(each, Elsewhere):
                each.worker.close()

    def used(self) -> float:
        """Seconds of CPU time that the processes that are timed have used; 0 where it has none of its own."""
        return sum(each.used() for each in self._apart)

    def files(self) -> list[str] | None:
        """The files that the processes that are timed have imported and mapped; None where that is not known."""
        found = [each.files() for each in self._apart]
        known = [files for files in found if files is not None]
        return sorted({file for files in known for file in files}) if known and len(known) == len(found) else None

    def close(self) -> None:
        """End all its processes."""
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
            self._timing = [self._to_be_timed(number) for number in range(self.in_processes)]
        return self._timing

    @property
    def _apart(self) -> list[Elsewhere]:
        return [each for each in self._timed if isinstance(each, Elsewhere)]

    def _ask(self, kind: type[AnyAnswer], verb: str, stay: bool = False, **arguments: Any) -> AnyAnswer | Failed:
        return self._timed[self._turn].ask(kind, verb, arguments, stay)

    def _rehearse(self, job: Job) -> Failed | None:
        """Make a small call of this contract and dtype, once, in the process whose memory is measured.

        Where the call started threads, that process is of no use: the next one has to do without a small call.
        """
        if self._weighing is None:
            self._weighing, self._rehearsed = self._elsewhere(MEASURED, weighs=True), set()
        if (job.contract, job.dtype) in self._rehearsed:
            return None
        self._rehearsed.add((job.contract, job.dtype))
        answer = self._weighing.ask(Rehearsed, "rehearse", {"job": asdict(job)})
        if isinstance(answer, Failed):
            return answer
        if not answer.copyable:
            self._close_weighing()
        return None

    def _close_weighing(self) -> None:
        if self._weighing is not None:
            self._weighing.worker.close()
        self._weighing = None

    def _to_be_timed(self, number: int) -> Elsewhere:
        return self._elsewhere(timed_as(number), cores_of(self.threads, 0))

    def _elsewhere(
        self, environment: Mapping[str, str], together: Collection[int] = (), weighs: bool = False
    ) -> Elsewhere:
        """A process with this environment, which moves to the cores `together` once it has imported."""
        walled = not self.trusted and not self.shipped
        worker = Worker(
            self.declaration,
            self.device,
            self.time_limit,
            max(IMPORTS_AT_ONCE_LIMIT, self.time_limit),
            environment={**environment, **with_threads(self.threads)},
            cores=cores_of(self.threads, self.place),
            service=service(self.gradients, weighs),
            walled=walled,
            memory_limit=self.memory_limit if walled else 0,  # of the system: what limits itself can take that back
            watched=False,
        )
        return Elsewhere(worker, self.threads, self.memory_limit, together)


def participant(implementation: Implementation, **settings: Any) -> Participant:
    """The implementation as a participant: in processes of its own where they can import it, else in this one."""
    at_hand, trusted = function_here(implementation), not isinstance(implementation, Declaration)
    return Participant(declaration_of(implementation), function=at_hand, trusted=trusted, **settings)


def is_approximate(declaration: Declaration) -> bool:
    """Whether an implementation declares that its accuracy is measured, and not bounded, where its contract has that.

    Another contract's row does not show how far off its answers are, so that it cannot be for its author to say.
    """
    accuracy = declaration.conventions.get("accuracy")
    return accuracy == "measured" and accuracy in contract(declaration.contract).conventions.get("accuracy", ())


def _as_lists(rows: Rows) -> dict[str, list[int]]:
    return {name: list(places) for name, places in rows.items()}
