"""One implementation that takes part in a benchmark: its two processes, one for time and one for memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

from suite.benchmark.connection import Elsewhere, Here, lost
from suite.benchmark.entry import Witnessed
from suite.benchmark.implementation import Implementation, declaration_of, function_here
from suite.benchmark.processes import SERVICE, TIMED, WEIGHED, cores_of, with_threads
from suite.benchmark.request import memory_limit
from suite.benchmark.waiting import own_waits
from suite.conformance.session import is_shipped
from suite.measure.protocol import (
    AnyAnswer,
    Ceilings,
    Done,
    Energy,
    Entered,
    Failed,
    Found,
    Job,
    Loaded,
    Prepared,
    Rehearsed,
    Rows,
    Sampled,
    Weighed,
)
from suite.records.limits import IMPORTS_AT_ONCE_LIMIT, TIME_LIMIT
from suite.registry import Declaration
from suite.worker import Ready, Worker


@dataclass
class Participant:
    """An implementation and how its bench is asked. Every question may be answered by `Failed`.

    Its process for time is suspended while others are asked. Memory is measured in a second process, for a process that
    has made a call hides what another takes; not so on a GPU, where each process would take memory for itself.
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
    trusted: bool = False
    """Whether it needs no walls, because whoever benchmarks it gave a function at hand."""
    _timing: Here | Elsewhere | None = field(default=None, repr=False)
    _weighing: Elsewhere | None = field(default=None, repr=False)
    _rehearsed: set[tuple[str, str]] = field(default_factory=set, repr=False)
    """The contracts and dtypes for which a small call was made in the process whose memory is measured."""

    @property
    def name(self) -> str:
        return self.declaration.full_name

    @property
    def shipped(self) -> bool:
        """Whether its code is the suite's own; a stranger's file may have any name."""
        return is_shipped(self.declaration)

    @property
    def approximate(self) -> bool:
        """Whether it declares that no limit of its errors is promised."""
        return is_approximate(self.declaration)

    def start(self) -> None:
        """Begin to import, in the background."""
        if isinstance(self._timed, Elsewhere):
            self._timed.worker.start()

    def ready(self) -> Failed | None:
        """Wait until the implementation is imported, or say why it cannot be."""
        if not isinstance(self._timed, Elsewhere):
            return None
        state = self._timed.worker.ready()
        if not isinstance(state, Ready):
            return lost(state)
        self.declaration = state.declaration
        self._timed.worker.suspend()
        return None

    def prepare(self, job: Job) -> Prepared | Failed:
        return self._ask(Prepared, "prepare", job=asdict(job))

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

    def load_proof(self, numbers: Sequence[int]) -> Loaded | Failed:
        return self._ask(Loaded, "load_proof", stay=True, numbers=list(numbers))

    def run_proof(self, passes: int) -> Done | Failed:
        return self._ask(Done, "run_proof", stay=True, passes=passes)

    def idle_proof(self) -> Done | Failed:
        return self._ask(Done, "idle_proof")

    def proof_found(self, rows: Rows) -> Found | Failed:
        return self._ask(Found, "proof_found", rows=_as_lists(rows))

    def release(self) -> Done | Failed:
        return self._ask(Done, "release")

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
        self._weighing = self._weighing or self._elsewhere(WEIGHED)
        answer = self._weighing.ask(Weighed, "weigh", {"job": asdict(job), "expected": expected})
        if isinstance(answer, Failed) or answer.spent:
            self._close_weighing()
        return answer

    def restart(self) -> None:
        """End the process that is timed, and all that it has started. The next question starts another."""
        if isinstance(self._timing, Elsewhere):
            self._timing.worker.close()

    def used(self) -> float:
        """Seconds of CPU time that the process that is timed has used; 0 where it has none of its own."""
        return self._timing.used() if isinstance(self._timing, Elsewhere) else 0.0

    def waited(self) -> float:
        """Seconds in which it was not computed because others had the core: as the system says, of its process and of
        this one, which has to hear its answers.
        """
        return own_waits() + (self._timing.waited() if isinstance(self._timing, Elsewhere) else 0.0)

    def files(self) -> list[str] | None:
        """The files that the process that is timed has imported and mapped; None where that is not known."""
        return self._timing.files() if isinstance(self._timing, Elsewhere) else None

    def close(self) -> None:
        """End both processes."""
        self.restart()
        self._timing = None
        self._close_weighing()

    @property
    def _timed(self) -> Here | Elsewhere:
        if self._timing is None:
            here = None if self.function is None else Here(self.function, self.device, self.threads)
            self._timing = here or self._elsewhere(TIMED)
        return self._timing

    def _ask(self, kind: type[AnyAnswer], verb: str, stay: bool = False, **arguments: Any) -> AnyAnswer | Failed:
        return self._timed.ask(kind, verb, arguments, stay)

    def _rehearse(self, job: Job) -> Failed | None:
        """Make a small call of this contract and dtype, once, in the process whose memory is measured.

        Where the call started threads, that process is of no use: the next one has to do without a small call.
        """
        if self._weighing is None:
            self._weighing, self._rehearsed = self._elsewhere(WEIGHED), set()
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

    def _elsewhere(self, environment: Mapping[str, str]) -> Elsewhere:
        worker = Worker(
            self.declaration,
            self.device,
            self.time_limit,
            IMPORTS_AT_ONCE_LIMIT,
            environment={**environment, **with_threads(self.threads)},
            cores=cores_of(self.threads, self.place),
            service=SERVICE,
            walled=not self.trusted and not is_shipped(self.declaration),
        )
        together = cores_of(self.threads, 0) if environment is TIMED else ()
        return Elsewhere(worker, self.threads, self.memory_limit, together)


def participant(implementation: Implementation, **settings: Any) -> Participant:
    """The implementation as a participant: in processes of its own where they can import it, else in this one."""
    at_hand, trusted = function_here(implementation), not isinstance(implementation, Declaration)
    return Participant(declaration_of(implementation), function=at_hand, trusted=trusted, **settings)


def is_approximate(declaration: Declaration) -> bool:
    """Whether an implementation declares that its accuracy is measured, and not bounded."""
    return declaration.conventions.get("accuracy") == "measured"


def _as_lists(rows: Rows) -> dict[str, list[int]]:
    return {name: list(places) for name, places in rows.items()}
