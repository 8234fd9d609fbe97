"""One implementation in a benchmark: its processes, one or more for time and one for memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from msgspec.structs import asdict

from attnsuite import registry
from attnsuite.benchmark.connection import RemoteBench, no_result
from attnsuite.benchmark.entry import ProofTimes, Sample
from attnsuite.benchmark.measure import messages
from attnsuite.benchmark.measure.messages import AnyReply, Job, NoResult, Rows, invalid_reply
from attnsuite.benchmark.measure.received_inputs import layout_of, tensors_in
from attnsuite.benchmark.processes import BENCH, MEASURED, cores_of, timed_as, with_threads
from attnsuite.benchmark.request import Implementation, declaration_of, memory_limit
from attnsuite.benchmark.secret_inputs import SecretInputs, secret_inputs_of
from attnsuite.cases import Contract
from attnsuite.contracts import contract as contract_named
from attnsuite.model.limits import IMPORTS_AT_ONCE_LIMIT, TIME_LIMIT
from attnsuite.registry import Declaration
from attnsuite.worker.forkserver import await_servers
from attnsuite.worker.messages import buffer
from attnsuite.worker.turns import CALL, IDLE
from attnsuite.worker.worker import Ready, Worker


@dataclass
class Participant:
    """An implementation and the connections to its benches. Every verb may return `NoResult`.

    Its timed processes are suspended while others are timed; the one whose turn it is replies. On a CPU the memory of
    each call is measured in a new process, because memory left by earlier calls hides that of later ones.
    """

    declaration: Declaration
    device: str = "cpu"
    threads: int = 1
    memory_limit: int = field(default_factory=memory_limit)
    time_limit: float = TIME_LIMIT
    place: int = 0
    """Its index among the participants, which selects the cores for imports."""
    trusted: bool = False
    """Whether it needs no sandbox, because the caller passed a function object."""
    processes: int = 1
    """Number of processes that are timed in turns."""
    _timing: list[RemoteBench] = field(default_factory=list, repr=False)
    _turn: int = 0
    _secrets: SecretInputs = field(init=False, repr=False)
    """Inputs of the prepared task that are unknown to its processes."""

    @property
    def name(self) -> str:
        """The full name of the implementation."""
        return self.declaration.full_name

    @property
    def shipped(self) -> bool:
        """Whether its code ships with the suite; a submission may have any name."""
        return self.declaration.shipped

    def start(self) -> None:
        """Start the workers of all benches."""
        for bench in self._timed:
            bench.worker.start()

    def ready(self) -> NoResult | None:
        """Wait until the implementation is imported; why that failed, or None."""
        for bench in self._timed:
            state = bench.worker.ready()
            if not isinstance(state, Ready):
                return no_result(state)
            self.declaration = state.declaration
            bench.worker.suspend()
        return None

    def take_turn(self, process: int) -> None:
        """Select one of its timed processes, counted from 0, for the next verbs."""
        self._turn = process

    def prepare(self, job: Job) -> messages.PreparedTask | NoResult:
        """Prepare a task in the first process, and select that process."""
        self.take_turn(0)
        self._secrets = secret_inputs_of(job)
        return self._request(messages.PreparedTask, "prepare", job=asdict(job))

    def prepare_others(self, job: Job) -> NoResult | None:
        """Prepare the same task in the other processes; why one of them failed, or None."""
        for bench in self._timed[1:]:
            reply = bench.request(messages.PreparedTask, "prepare", job=asdict(job))
            if isinstance(reply, NoResult):
                return replace(reply, detail=f"in another process of its own: {reply.detail}")
        return None

    def sample(self, number: int, calls: int) -> Sample | NoResult:
        """One sample on the inputs of a round, and its time by this process's clock, which no submission can reach."""
        entered = self._request(messages.RoundInputs, "enter", stay=True, number=number)
        if isinstance(entered, NoResult):
            return entered
        began = perf_counter()
        sampled = self._request(messages.SampleTime, "sample", stay=True, calls=calls)
        ended = perf_counter()
        idled = self._request(messages.Acknowledgement, "idle")
        if isinstance(sampled, NoResult) or isinstance(idled, NoResult):
            return sampled if isinstance(sampled, NoResult) else idled  # type: ignore[return-value]
        return Sample(sampled.seconds, entered.warmed, sampled.made, ended - began, perf_counter() - ended)

    def output_rows(self, rows: Rows) -> messages.OutputRows | NoResult:
        """Return some rows of the last output, or the reason for their absence."""
        return self._request(
            messages.OutputRows, "output_rows", rows={name: list(places) for name, places in rows.items()}
        )

    @property
    def capacity(self) -> int:
        """How many secret inputs fit into memory at once."""
        return self._secrets.capacity

    def proof_times(self, numbers: Sequence[int], kept: int, warm: int) -> ProofTimes | NoResult:
        """The times of calls on the inputs of these secret numbers, one by one, each after `warm` calls on other
        inputs.

        The output for the number `kept` comes with them.
        """
        inputs = [self._secrets.inputs(number) for number in numbers]
        buffers = [[buffer(tensor.flatten()) for tensor in tensors.values()] for tensors in inputs]
        turns = [(kind, parts) for parts in buffers for kind in (CALL, IDLE)]
        place = 2 * numbers.index(kept)
        exchanged = self._timed[self._turn].exchange(layout_of(inputs[0]), warm, turns, place)
        if isinstance(exchanged, NoResult):
            return exchanged
        results, reply = exchanged
        if (rows := tensors_in(results[place][1], reply.layout)) is None:
            return invalid_reply("the number of bytes differs from that of its tensors")
        seconds = [turn_seconds for turn_seconds, _ in results]
        return ProofTimes(seconds[::2], seconds[1::2], rows)

    def release(self) -> messages.Acknowledgement | NoResult:
        """Release the task in all timed processes."""
        *_, last = [bench.request(messages.Acknowledgement, "release") for bench in self._timed]
        return last

    def energy(self, calls: int, seconds: float) -> messages.Energy | NoResult:
        """The telemetry of calls in a row, each of `seconds` seconds."""
        return self._request(messages.Energy, "energy", calls=calls, seconds=seconds)

    def ceilings(self, dtype: str) -> messages.Ceilings | NoResult:
        """The rates that the machine reaches in its process."""
        return self._request(messages.Ceilings, "ceilings", dtype=dtype)

    def measure_memory(self, job: Job) -> messages.CallMemory | NoResult:
        """The memory of one call, on a CPU in a new process."""
        if self.device != "cpu":  # an allocator's peak counts each call alone
            return self._request(messages.CallMemory, "measure_memory", job=asdict(job))
        bench = self._remote_bench(MEASURED, for_memory=True)
        try:
            return bench.request(messages.CallMemory, "measure_memory", job=asdict(job))
        finally:
            bench.worker.close()

    def restart(self) -> None:
        """End the timed processes and all that they have started. The next verb starts others."""
        for bench in self._timing:
            bench.worker.close()

    def used(self) -> float:
        """Processor time in seconds of its timed processes."""
        return sum(bench.used() for bench in self._timed)

    def close(self) -> None:
        """End all workers."""
        self.restart()
        self._timing = []

    @property
    def _timed(self) -> list[RemoteBench]:
        if not self._timing:
            together = cores_of(self.threads, 0)
            self._timing = [self._remote_bench(timed_as(number), together) for number in range(self.processes)]
        return self._timing

    def _request(self, kind: type[AnyReply], verb: str, stay: bool = False, **arguments: Any) -> AnyReply | NoResult:
        return self._timed[self._turn].request(kind, verb, stay, **arguments)

    def _remote_bench(
        self, environment: Mapping[str, str], together: Collection[int] = (), for_memory: bool = False
    ) -> RemoteBench:
        """A process with this environment, which moves to the cores `together` after its imports."""
        sandboxed = not self.trusted and not self.shipped
        worker = Worker(
            self.declaration,
            self.device,
            self.time_limit,
            max(IMPORTS_AT_ONCE_LIMIT, self.time_limit),
            environment={**environment, **with_threads(self.threads)},
            cores=cores_of(self.threads, self.place),
            service=f"{BENCH}:{'begin_for_memory' if for_memory else 'begin'}",
            sandboxed=sandboxed,
            memory_limit=self.memory_limit if sandboxed else 0,  # the system's limit: a process can take back its own
            memory_watched=False,
        )
        return RemoteBench(worker, self.threads, self.memory_limit, together)


def begun(implementations: Iterable[Implementation], stack: ExitStack, **settings: Any) -> list[Participant]:
    """The implementations as participants, which close with `stack`. On a CPU they begin to import.

    On a GPU they begin later: each would take memory from those under test.
    """
    members = [
        Participant(declaration_of(item), trusted=not isinstance(item, Declaration), place=place, **settings)
        for place, item in enumerate(implementations)
    ]
    for member in members:
        stack.callback(member.close)
        if member.device == "cpu":
            member.start()
    return members


def reference_for(
    contract: str, baseline: str, timed: Sequence[Implementation], stack: ExitStack, **settings: Any
) -> Participant | None:
    """The contract's own baseline as a trusted reference, which is timed with others, gets no row, and closes with
    `stack`.

    Proofs of times compare with it: its claims are true, so it separates a false claim from a busy machine. None if
    `baseline` is among the `timed` and ships with the suite, and if the contract's own cannot be started. `settings`
    are those of a `Participant`.
    """
    name = f"{contract}/{baseline}"
    if any(declaration.full_name == name and declaration.shipped for declaration in map(declaration_of, timed)):
        return None
    own = f"{contract}/{contract_named(contract).baseline}"
    declaration = next((declaration for declaration in registry.discover() if declaration.full_name == own), None)
    if declaration is None or registry.missing_library(declaration) is not None:
        return None
    named = replace(declaration, name=f"{declaration.name} (not shown)")
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
    """Wait for all imports: the participants that can be timed, why others cannot, and the reference if needed."""
    for member in started:
        member.start()
    reference = reference_for(contract.name, contract.baseline, timed, stack, place=len(started), **settings)
    failed = {member.name: reason for member in started if (reason := member.ready())}
    await_servers()  # no import runs while others are timed
    return [member for member in started if member.name not in failed], failed, reference


def is_approximate(declaration: Declaration) -> bool:
    """Whether an implementation declares that its errors are measured and not bounded, as some contracts allow."""
    accuracy = declaration.conventions.get("accuracy")
    return accuracy == "measured" and accuracy in contract_named(declaration.contract).conventions.get("accuracy", ())
