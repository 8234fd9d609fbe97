"""Two sides timed against each other: in each of several pairs of processes, round by round, as in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random, SystemRandom
from time import perf_counter

from msgspec import structs

from attnsuite.benchmark.accounts import Accounts
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.implementation import Implementation
from attnsuite.benchmark.measure.protocol import Failed, Weighed
from attnsuite.benchmark.own_cores import own_cores
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.request import Request, Table, with_gradients
from attnsuite.benchmark.timing import Timing
from attnsuite.benchmark.weighing import Weighing, Weight
from attnsuite.benchmark.yardstick import yardstick
from attnsuite.cases import Contract
from attnsuite.model import Measurement, Outcome
from attnsuite.registry import Declaration
from attnsuite.worker import await_servers, forget_servers

WEIGHED_PAIRS = 3
"""Pairs of processes whose memory is measured: it differs by pages, so that the one in the middle tells it."""
OLD, NEW = "old", "new"
"""The sides."""

Rows = tuple[Measurement, Measurement]
"""What was measured of the old side and of the new one, in one pair of processes."""


@dataclass(frozen=True)
class Pair:
    """The same implementation on both sides, or one and what takes its place; rows of both are called `name`."""

    name: str
    old: Declaration
    new: Declaration

    @property
    def sides(self) -> dict[str, Declaration]:
        """Both, under names that tell one from the other."""
        both = ((OLD, self.old), (NEW, self.new))
        return {side: replace(of, name=f"{of.name} ({side})") for side, of in both}


@dataclass
class Interleaved:
    """What is compared in one run. `tell` is told what is being done."""

    contract: Contract
    pairs: Sequence[Pair]
    request: Request
    tell: Callable[[str], None] = lambda doing: None
    random: Random = field(default_factory=SystemRandom)
    busy: list[str] = field(default_factory=list)
    """For each table of a pair of processes that was timed while the machine was busy, how busy it was."""

    def __post_init__(self) -> None:
        self._gates = {side: Gate(self.contract, self.request.device, self.request.time_limit) for side in (OLD, NEW)}
        self._timing = Timing(self.contract, self.request, _Gates(self.pairs, self._gates), Accounts(), self.random)

    def tables(self) -> list[Table]:
        """What is timed. UsageError where that is nothing."""
        return self.request.tables(self.contract)

    def ask(self) -> dict[str, list[Outcome]]:
        """The outcomes, on each side, of all cases that need no more than what is timed."""
        uses = {(table.dtype, table.features(self.contract)) for table in self.tables()}
        for side, gate in self._gates.items():
            self.tell(f"conformance of the {side} side")
            gate.ask([pair.old if side == OLD else pair.new for pair in self.pairs], uses)
        return {side: list(self._outcomes(side)) for side in self._gates}

    def measure(self, processes: int) -> Iterator[dict[tuple[str, Table], Rows]]:
        """Time everything in so many pairs of processes, one pair after the other; after `ask`."""
        started = perf_counter()
        for number in range(processes):
            left = (perf_counter() - started) / number * (processes - number) if number else 0.0
            self.tell(f"pair {number + 1} of {processes}" + (f", about {left:.0f} s left" if number else ""))
            yield self._in_new_processes(weigh=number < WEIGHED_PAIRS)

    def _outcomes(self, side: str) -> Iterator[Outcome]:
        for pair in self.pairs:
            of = pair.old if side == OLD else pair.new
            for outcome in self._gates[side].outcomes(of.full_name):
                yield structs.replace(outcome, implementation=pair.name)

    def _in_new_processes(self, *, weigh: bool) -> dict[tuple[str, Table], Rows]:
        forget_servers()  # so that where memory lies is drawn anew, for both sides
        found: dict[tuple[str, Table], Rows] = {}
        with ExitStack() as stack:
            participants, unready, beside = self._participants(stack)
            weighing = Weighing(self.contract)
            for table in self.tables():
                shuffled = self.random.sample(participants, len(participants))
                with own_cores(table.threads, self.request.device, self.tell):
                    timed = self._timing.time(table, shuffled, beside)
                    weights = weighing.weigh(table, timed.entries) if weigh else {}
                self.busy += filter(None, [timed.load.says(table.threads)])
                failed = {**unready, **timed.failed}
                entries = {entry.name: entry for entry in timed.entries}
                for pair in self.pairs:
                    names = [side.full_name for side in pair.sides.values()]
                    old, new = (self._row(pair, table, entries.get(n), failed.get(n), weights.get(n)) for n in names)
                    found[pair.name, table] = old, new
        return found

    def _participants(self, stack: ExitStack) -> tuple[list[Participant], dict[str, Failed], Participant | None]:
        """All that can take part, why the others cannot, and the yardstick where one is needed."""
        settings = {
            "device": self.request.device,
            "threads": self.tables()[0].threads,
            "time_limit": self.request.time_limit,
            "gradients": with_gradients(self.tables()),
        }
        declarations = [of for pair in self.pairs for of in pair.sides.values()]
        started = [Participant(of, place=place, **settings) for place, of in enumerate(declarations)]  # type: ignore[arg-type]
        for each in started:
            stack.callback(each.close)
            each.start()
        name, base = self.contract.name, self.contract.baseline
        beside = yardstick(name, base, declarations, stack, place=len(started), **settings)
        lost = {each.name: failed for each in started if (failed := each.ready())}
        await_servers()  # nothing is imported while others are timed
        return [each for each in started if each.name not in lost], lost, beside

    def _row(
        self, pair: Pair, table: Table, entry: Entry[Participant] | None, failed: Failed | None, weighed: Weight
    ) -> Measurement:
        why = failed if entry is None else entry.failed
        row = table.row(pair.name, self.contract.name, self.request.device, why)
        if entry is None or why:
            return row
        return structs.replace(
            row,
            seconds=tuple(entry.seconds),
            calls=entry.calls,
            stopped=entry.stopped,
            first_call=entry.prepared.first_call,
            warm_up=entry.prepared.warm_up,
            memory=weighed.memory if isinstance(weighed, Weighed) else {},
            error_ratio=entry.error_ratio,
            own_clock=entry.own_clock,
        )


class _Gates:
    """The gates of both sides, for participants whose names say which side they are."""

    def __init__(self, pairs: Sequence[Pair], gates: Mapping[str, Gate]) -> None:
        self._of = {
            side.full_name: (gates[which], (pair.old if which == OLD else pair.new).full_name)
            for pair in pairs
            for which, side in pair.sides.items()
        }

    def refusal(self, name: str, dtype: str, features: frozenset[str]) -> Failed | None:
        gate, own_name = self._of[name]
        return gate.refusal(own_name, dtype, features)

    def confirm(self, implementation: Implementation, files: Callable[[], Sequence[str] | None]) -> None:
        """Without effect: these gates believe no verdict that was kept."""
