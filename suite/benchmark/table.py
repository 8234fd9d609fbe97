"""One table: participants are prepared, raced and verified; repeated without those that took cores from others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from msgspec import structs
from torch import Tensor

from attnsuite.benchmark.busy import Load, LoadMeter
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.measure.memory import device_uuid
from attnsuite.benchmark.measure.messages import CallMemory, NoResult, PreparedTask, Rows
from attnsuite.benchmark.participant import Participant, is_approximate
from attnsuite.benchmark.processes import cores
from attnsuite.benchmark.race import race
from attnsuite.benchmark.request import Request, Table
from attnsuite.cases import Contract
from attnsuite.machine.telemetry import Meter
from attnsuite.model import Measurement, Reason, Status
from attnsuite.model.limits import NOT_BOUNDED

PREDICTIVE_SHARE = 0.1
"""Share of the longest allowed call from which a call predicts, in proportion, how long more work takes. A shorter
one may spend most of its time on overhead."""
HOPELESS = 2.0
"""A call that is predicted to take more than this many times the longest allowed is skipped. More than 1, because
the prediction is inexact."""
MORE_CORES = 1.25
"""An entry took more cores than it was given if it used more than this many times their processor time (and
`CPU_TIME_ERROR` more)."""
CPU_TIME_ERROR = 0.1
"""Seconds by which the system's count of processor time may be off: it counts ticks, by thread."""

MemoryResult = CallMemory | NoResult
"""The memory of a call."""
Refusal = Callable[[str, str, frozenset[str]], NoResult | None]
"""Why an implementation of this name may not be timed in a dtype with these features, or None."""


@dataclass(frozen=True)
class LongestCall:
    """The longest call so far of an implementation: its table, its seconds, and its FLOPs."""

    table: str
    seconds: float
    work: float

    def forbids(self, work: float, slowest: float) -> str:
        """Why a call of `work` FLOPs is skipped if a call may take `slowest` seconds; empty if it is not."""
        times = work / self.work
        expected = self.seconds * times if self.seconds > PREDICTIVE_SHARE * slowest else 0.0
        if times < 1 or (self.seconds <= slowest and expected <= HOPELESS * slowest):
            return ""
        more = f"{times:.3g} times the work" if times > 1 else "as much work"
        return f"{more} of {self.table}, which takes {self.seconds:.3g} s a call"


@dataclass(frozen=True)
class TimedTable:
    """A table after timing: its entries, why others have none, the device's telemetry, and the load meanwhile."""

    entries: Sequence[Entry]
    failed: Mapping[str, NoResult]
    telemetry: Mapping[str, Any]
    load: Load = field(default_factory=Load)


@dataclass
class Timing:
    """Times tables of one contract."""

    contract: Contract
    request: Request
    refusal: Refusal
    random: Random
    _longest: dict[tuple[str, str, str, int], LongestCall] = field(default_factory=dict)
    """By implementation, group of workloads, dtype and threads."""
    memories: dict[tuple[str, str, str, int, bool], MemoryResult] = field(default_factory=dict)
    """The memory by implementation, workload, dtype, threads, and whether it is forward alone."""

    def time(
        self, table: Table, participants: Sequence[Participant], reference: Participant | None = None
    ) -> TimedTable:
        """Time a table, and again without entries that took cores from the others.

        The `reference` is timed with them if possible, and is not part of the result.
        """
        failed: dict[str, NoResult] = {}
        while True:
            able = [participant for participant in participants if participant.name not in failed]
            timed = self._raced(table, able, reference)
            failed |= timed.failed
            took_cores = [entry for entry in timed.entries if entry.took_more_cores]
            if not took_cores:
                return replace(timed, failed=failed)
            for entry in took_cores:
                entry.participant.restart()
            failed |= {entry.name: entry.failed for entry in took_cores if entry.failed}

    def measure_memory(self, table: Table, entries: Sequence[Entry]) -> dict[str, MemoryResult]:
        """The memory of a call of each entry, by name, measured in parallel and once for each kind of call.

        Whole calls are measured: a backward has the memory of forward and backward. Failed entries have none.
        """
        workers = max(1, len(cores()) // table.threads) if table.threads else 1  # a GPU's meter sees all its processes
        able = sorted((entry for entry in entries if not entry.failed), key=lambda entry: -entry.prepared.first_call)
        with ThreadPoolExecutor(workers) as pool:  # longest first, so that they end together
            futures = {entry.name: pool.submit(self._memory, table, entry) for entry in able}
            return {name: future.result() for name, future in futures.items()}

    def _memory(self, table: Table, entry: Entry) -> MemoryResult:
        call = entry.name, table.workload.name, table.dtype, table.threads, table.direction == "forward"
        if call not in self.memories:
            job = table.job(self.contract, entry.participant.declaration)
            self.memories[call] = entry.participant.measure_memory(job)
        return self.memories[call]

    def _raced(self, table: Table, participants: Sequence[Participant], reference: Participant | None) -> TimedTable:
        """Time all participants that can be prepared."""
        entries: list[Entry] = []
        failed: dict[str, NoResult] = {}
        for participant in participants:
            prepared = self._prepared(participant, table)
            if isinstance(prepared, NoResult):
                failed[participant.name] = prepared
                if prepared.status != Status.UNSUPPORTED and not participant.shipped:
                    participant.restart()  # processes that it has started would disturb the others
            else:
                entries.append(Entry(participant, prepared, table.direction, table.cache))
        if not entries:
            return TimedTable([], failed, {})
        own = self._reference_entry(reference, table) if reference else None
        with Meter(device_uuid(self.request.device) or self.request.device) as meter:
            load = self._race(table, entries, own)
        if own:
            own.participant.release()
        return TimedTable(entries, failed, meter.telemetry, load)

    def _reference_entry(self, reference: Participant, table: Table) -> Entry | None:
        """The reference's entry; None if it cannot be timed here, or exceeds the longest allowed call."""
        if table.unsupported(reference.declaration, self.contract, self.request.kind):
            return None
        prepared = reference.prepare(table.job(self.contract, reference.declaration))
        if isinstance(prepared, NoResult):
            return None
        if takes_too_long(prepared.expected, self.request.slowest):
            reference.release()
            return None
        return Entry(reference, prepared, table.direction, table.cache)

    def _prepared(self, participant: Participant, table: Table) -> PreparedTask | NoResult:
        """The participant's task after warm-up, or why it is not timed."""
        unsupported = table.unsupported(participant.declaration, self.contract, self.request.kind)
        if failed := unsupported or self.refusal(participant.name, table.dtype, table.features(self.contract)):
            return failed
        work = table.workload.work(table.dtype, table.direction)["attended"]
        group = participant.name, table.workload.group, table.dtype, table.threads
        longest = self._longest.get(group, LongestCall("", 0.0, math.inf))
        if detail := longest.forbids(work, self.request.slowest):
            return too_slow(detail)
        job = table.job(self.contract, participant.declaration)
        prepared = participant.prepare(job)
        if isinstance(prepared, NoResult):
            if prepared.status == Status.TIMEOUT:  # each larger call would take the time limit, too
                self._longest[group] = LongestCall(table.title, self.request.time_limit, work)
            return prepared
        latest = LongestCall(table.title, prepared.expected, work)
        self._longest[group] = max(longest, latest, key=lambda call: call.seconds)
        failed = takes_too_long(prepared.expected, self.request.slowest) or participant.prepare_others(job)
        if failed:
            participant.release()
        return failed or prepared

    def _race(self, table: Table, entries: Sequence[Entry], reference: Entry | None) -> Load:
        """Race and verify the entries; returns the load meanwhile."""
        rows = table.workload.rows(table.direction, self.random)
        used = {entry.name: entry.participant.used() for entry in entries}
        baseline, meter = f"{self.contract.name}/{self.contract.baseline}", LoadMeter()
        race(entries, baseline, rows, self.request.seconds, self.random, reference, meter.load)
        load = meter.load()
        for entry in entries:
            spent = entry.participant.used() - used[entry.name]
            declaration = entry.participant.declaration
            verify(table.under(declaration), entry, rows, spent, is_approximate(declaration))
            if self.request.kind == "cpu" or entry.failed:  # on a GPU its memory is measured later
                entry.participant.release()
        return load


def verify(table: Table, entry: Entry, rows: Rows, used: float, approximate: bool = False) -> None:
    """Remove an entry whose outputs are wrong, or which used more cores than it was given.

    `used` is seconds of processor time since its first round; also a failed entry may have disturbed the others. The
    errors of an `approximate` entry have no bound; they are reported.
    """
    timed = [("its output was wrong while it was timed", entry.excerpt)] if entry.excerpt else []
    proofs = [("its output was wrong for inputs that it had not seen", proof) for proof in entry.proofs]
    ratios = []
    for when, excerpt in (*timed, *proofs):
        if entry.failed:
            break
        ratio = verified(table, excerpt.number, rows, excerpt.rows, when, approximate)
        if isinstance(ratio, NoResult):
            entry.failed = ratio
        else:
            ratios.append(ratio)
    entry.took_more_cores = bool(table.threads) and used > MORE_CORES * table.threads * entry.awake + CPU_TIME_ERROR
    if entry.failed:
        return
    entry.error_ratio = max(ratios)
    if entry.excerpt is not None:
        kept = entry.excerpt
        entry.relative_error = table.workload.errors(table.dtype, table.direction, kept.number, rows, kept.rows)
    if entry.took_more_cores:
        entry.refuse(f"it was given {table.threads} cores and used {used / entry.awake:.2f}")


def verified(
    table: Table, number: int, rows: Rows, output: Mapping[str, Tensor], when: str, approximate: bool = False
) -> float | NoResult:
    """The largest error, in units of the bound, of output rows of a round; or a refusal that states `when` it was
    wrong.
    """
    verdict = table.workload.verdict(table.dtype, table.direction, number, rows, output)
    if verdict.status != Status.PASSED and not (approximate and verdict.error_ratio is not None):
        return NoResult(Status.REFUSED, f"{when}: {verdict.detail}", verdict.error_ratio)
    return verdict.error_ratio or 0.0


def measured(row: Measurement, entry: Entry, memory: MemoryResult | None, notes: Sequence[str] = ()) -> Measurement:
    """The row of an entry that has not failed, with its samples, errors and memory."""
    known = memory if isinstance(memory, CallMemory) else None
    warning = entry.unbounded and f"{NOT_BOUNDED}: {entry.unbounded}"
    note = f"no memory: {memory}" if isinstance(memory, NoResult) else ""
    return structs.replace(
        row,
        detail="; ".join(filter(None, (warning, *notes, note))),
        seconds=tuple(entry.seconds),
        processes=entry.processes,
        calls=entry.calls,
        stopped=entry.stopped,
        first_call=entry.prepared.first_call,
        warm_up=entry.prepared.warm_up,
        making=entry.prepared.making,
        memory=known.memory if known else {},
        error_ratio=entry.error_ratio,
        own_clock=entry.own_clock,
        relative_error=entry.relative_error,
        kernel=known.kernel if known else "",
    )


def takes_too_long(seconds: float, slowest: float) -> NoResult | None:
    """Why a call of `seconds` is not timed if a call may take `slowest`, or None."""
    return too_slow(f"a call takes {seconds:.3g} s, more than {slowest:g} s") if seconds > slowest else None


def too_slow(detail: str) -> NoResult:
    """The failure of a call that takes too long to time."""
    return NoResult(Status.UNSUPPORTED, f"too slow to time here: {detail}", reason=Reason.TOO_SLOW)
