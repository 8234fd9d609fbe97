"""Comparison of two sides, timed against each other round by round, in several pairs of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random, SystemRandom
from time import perf_counter

from msgspec import structs

from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.participant import Participant, all_ready, begun
from attnsuite.benchmark.processes import prewarm_benchmark
from attnsuite.benchmark.request import Request, Table, with_gradients
from attnsuite.benchmark.table import MemoryResult, TimedTable, Timing, measured
from attnsuite.cases import Contract
from attnsuite.model import Measurement, Outcome
from attnsuite.registry import Declaration
from attnsuite.worker.forkserver import forget_servers

MEMORY_PAIRS = 3
"""Pairs of processes whose memory is measured: the median removes differences of a few pages."""
OLD, NEW = "old", "new"
"""The sides."""

Rows = tuple[Measurement, Measurement]
"""The rows of the old side and of the new one, in one pair of processes."""


@dataclass(frozen=True)
class Pair:
    """The same implementation on both sides, or one and its replacement; rows of both are called `name`."""

    name: str
    old: Declaration
    new: Declaration

    def __getitem__(self, side: str) -> Declaration:
        return self.old if side == OLD else self.new

    def renamed(self, side: str) -> Declaration:
        """The implementation under a name that includes its side."""
        return replace(self[side], name=f"{self[side].name} ({side})")


@dataclass
class Interleaved:
    """A comparison of pairs in one run. `progress` reports progress."""

    contract: Contract
    pairs: Sequence[Pair]
    request: Request
    progress: Callable[[str], None] = lambda doing: None
    random: Random = field(default_factory=SystemRandom)
    busy: list[str] = field(default_factory=list)
    """The load during each table of a pair of processes that was timed on a busy machine."""

    def __post_init__(self) -> None:
        self._gates = {side: Gate(self.contract, self.request.device, self.request.time_limit) for side in (OLD, NEW)}
        self._timing = Timing(self.contract, self.request, self._refusal, self.random)

    def tables(self) -> list[Table]:
        """The tables. Raises UsageError for an empty selection."""
        return self.request.tables(self.contract)

    def outcomes(self) -> dict[str, list[Outcome]]:
        """The outcomes, by side, of all cases that need no more features than the tables use."""
        uses = {(table.dtype, table.features(self.contract)) for table in self.tables()}
        for side, gate in self._gates.items():
            self.progress(f"conformance of the {side} side")
            gate.test([pair[side] for pair in self.pairs], uses)
        return {
            side: [
                structs.replace(outcome, implementation=pair.name)
                for pair in self.pairs
                for outcome in gate.outcomes(pair[side].full_name)
            ]
            for side, gate in self._gates.items()
        }

    def measure(self, processes: int) -> Iterator[dict[tuple[str, Table], Rows]]:
        """Time everything in `processes` pairs of processes, one pair after the other; after `outcomes`."""
        started = perf_counter()
        for number in range(processes):
            remaining = (perf_counter() - started) / number * (processes - number) if number else 0.0
            self.progress(f"pair {number + 1} of {processes}" + (f", about {remaining:.0f} s left" if number else ""))
            yield self._in_new_processes(measure_memory=number < MEMORY_PAIRS)

    def _refusal(self, name: str, dtype: str, features: frozenset[str]) -> NoResult | None:
        """The refusal by the gate of a participant's side, which its name includes."""
        own = {pair.renamed(side).full_name: (side, pair[side].full_name) for pair in self.pairs for side in (OLD, NEW)}
        side, full_name = own[name]
        return self._gates[side].refusal(full_name, dtype, features)

    def _in_new_processes(self, *, measure_memory: bool) -> dict[tuple[str, Table], Rows]:
        forget_servers()  # for new memory addresses on both sides
        self._timing.memories.clear()
        rows: dict[tuple[str, Table], Rows] = {}
        with ExitStack() as stack:
            participants, unready, reference = self._participants(stack)
            for table in self.tables():
                shuffled = self.random.sample(participants, len(participants))
                timed = self._timing.time(table, shuffled, reference)
                timed = replace(timed, failed={**unready, **timed.failed})
                memories = self._timing.measure_memory(table, timed.entries) if measure_memory else {}
                self.busy += filter(None, [timed.load.note(table.threads)])
                for pair in self.pairs:
                    old, new = (pair.renamed(side).full_name for side in (OLD, NEW))
                    rows[pair.name, table] = (
                        self._row(pair, table, timed, old, memories.get(old)),
                        self._row(pair, table, timed, new, memories.get(new)),
                    )
        return rows

    def _participants(self, stack: ExitStack) -> tuple[list[Participant], dict[str, NoResult], Participant | None]:
        """The participants that can be timed, why others cannot, and the reference if needed."""
        tables = self.tables()
        device, threads, limit = self.request.device, tables[0].threads, self.request.time_limit
        declarations = [pair.renamed(side) for pair in self.pairs for side in (OLD, NEW)]
        settings = {"device": device, "threads": threads, "time_limit": limit}
        if device == "cpu":
            prewarm_benchmark(threads, [self.contract.name], gradients=with_gradients(tables))
        started = begun(declarations, stack, **settings)
        return all_ready(started, self.contract, declarations, stack, **settings)

    def _row(self, pair: Pair, table: Table, timed: TimedTable, name: str, memory: MemoryResult | None) -> Measurement:
        entry = next((entry for entry in timed.entries if entry.name == name), None)
        failed = timed.failed.get(name) if entry is None else entry.failed
        row = table.row(pair.name, self.contract.name, self.request.device, failed)
        return row if entry is None or failed else structs.replace(measured(row, entry, memory), detail="")
