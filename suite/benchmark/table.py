"""One table: participants are prepared, raced and verified, and again without those that took cores from others."""

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
from attnsuite.benchmark.measure.messages import NoResult, PreparedTask, Rows, Weighed
from attnsuite.benchmark.participant import Participant, is_approximate
from attnsuite.benchmark.processes import cores
from attnsuite.benchmark.race import race
from attnsuite.benchmark.request import Request, Table
from attnsuite.cases import Contract
from attnsuite.machine.telemetry import Meter
from attnsuite.model import Measurement, Reason, Status
from attnsuite.model.limits import NOT_BOUNDED

TELLING = 0.1
"""A call of this share of the longest allowed, or more, tells how long more work will take, in proportion. A shorter
one may take most of its time for something else than its work."""
HOPELESS = 2.0
"""A call that would in this proportion take more than this many times the longest allowed is not tried. It is more
than 1 because the proportion is not exact."""
MORE_CORES = 1.25
"""An entry used more cores than it was given if its processor time is more than this many times what those have to
give (and `CPU_TIME_ERROR` more)."""
CPU_TIME_ERROR = 0.1
"""Seconds by which the system's count of processor time may be off: it counts in ticks, for every thread."""

Weight = Weighed | NoResult | None
"""The memory of a call; None where the participant has no process of its own."""
Refusal = Callable[[str, str, frozenset[str]], NoResult | None]
"""Why an implementation of this name may not be timed in a dtype with these features; None where it may."""


@dataclass(frozen=True)
class LongestCall:
    """The longest call so far of an implementation: its table, its seconds, and its FLOPs."""

    table: str
    seconds: float
    work: float

    def forbids(self, work: float, slowest: float) -> str:
        """Why a call of `work` FLOPs is not tried where one may take `slowest` seconds; empty where it is."""
        times = work / self.work
        expected = self.seconds * times if self.seconds > TELLING * slowest else 0.0
        if times < 1 or (self.seconds <= slowest and expected <= HOPELESS * slowest):
            return ""
        more = f"{times:.3g} times the work" if times > 1 else "as much work"
        return f"{more} of {self.table}, which takes {self.seconds:.3g} s a call"


@dataclass(frozen=True)
class TimedTable:
    """A table that was timed: its entries, why others have none, the device's telemetry, and the load meanwhile."""

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
    _hung: dict[tuple[str, int], LongestCall] = field(default_factory=dict)
    """The least work whose result did not come in time, by implementation and threads."""
    weights: dict[tuple[str, str, str, int, bool], Weight] = field(default_factory=dict)
    """The memory by implementation, workload, dtype, threads, and whether it is forward alone."""

    def time(
        self, table: Table, participants: Sequence[Participant], reference: Participant | None = None
    ) -> TimedTable:
        """Time a table, and again without those that took cores from the others.

        The `reference` is timed with them where it can be, and is no part of the result.
        """
        failed: dict[str, NoResult] = {}
        while True:
            timed = self._raced(table, [each for each in participants if each.name not in failed], reference)
            failed |= timed.failed
            took_cores = [entry for entry in timed.entries if entry.took_more_cores]
            if not took_cores:
                return replace(timed, failed=failed)
            for entry in took_cores:
                entry.participant.restart()
            failed |= {entry.name: entry.failed for entry in took_cores if entry.failed}

    def weigh(self, table: Table, entries: Sequence[Entry]) -> dict[str, Weight]:
        """The memory of a call of each, by name, measured side by side and once for each kind of call.

        Whole calls are measured, so a backward takes the memory of forward and backward. Failed entries have none.
        """
        at_once = max(1, len(cores()) // table.threads) if table.threads else 1  # a GPU's meter sees all its processes
        able = sorted((each for each in entries if not each.failed), key=lambda entry: -entry.prepared.first_call)
        with ThreadPoolExecutor(at_once) as pool:  # longest first, so that they end together
            answers = {entry.name: pool.submit(self._weighed, table, entry) for entry in able}
            return {name: answer.result() for name, answer in answers.items()}

    def _weighed(self, table: Table, entry: Entry) -> Weight:
        call = entry.name, table.workload.name, table.dtype, table.threads, table.direction == "forward"
        if call not in self.weights:
            self.weights[call] = entry.participant.weigh(table.job(self.contract, entry.participant.declaration))
        return self.weights[call]

    def _raced(self, table: Table, participants: Sequence[Participant], reference: Participant | None) -> TimedTable:
        """Time all that can take part."""
        entries: list[Entry] = []
        failed: dict[str, NoResult] = {}
        for each in participants:
            prepared = self._prepared(each, table)
            if isinstance(prepared, NoResult):
                failed[each.name] = prepared
                if prepared.status != Status.UNSUPPORTED and not each.shipped:
                    each.restart()  # the processes that it has started would run next to the others
            else:
                entries.append(Entry(each, prepared, table.direction, table.cache))
        if not entries:
            return TimedTable([], failed, {})
        beside = self._prepared_beside(reference, table) if reference else None
        with Meter(device_uuid(self.request.device) or self.request.device) as meter:
            load = self._race(table, entries, beside)
        if beside:
            beside.participant.release()
        return TimedTable(entries, failed, meter.telemetry, load)

    def _prepared_beside(self, reference: Participant, table: Table) -> Entry | None:
        """The yardstick's entry; None where it cannot be timed here, or takes longer than others may."""
        if table.unsupported(reference.declaration, self.contract, self.request.kind):
            return None
        answer = reference.prepare(table.job(self.contract, reference.declaration))
        if isinstance(answer, NoResult):
            return None
        if takes_too_long(answer.expected, self.request.slowest):
            reference.release()
            return None
        return Entry(reference, answer, table.direction, table.cache)

    def _prepared(self, each: Participant, table: Table) -> PreparedTask | NoResult:
        """The participant's task, warmed up; or why it takes no part."""
        unsupported = table.unsupported(each.declaration, self.contract, self.request.kind)
        if failed := unsupported or self.refusal(each.name, table.dtype, table.features(self.contract)):
            return failed
        work = table.workload.work(table.dtype, table.direction)["attended"]
        group = each.name, table.workload.group, table.dtype, table.threads
        longest = self._longest.get(group, LongestCall("", 0.0, math.inf))
        if detail := longest.forbids(work, self.request.slowest) or self._hangs(each.name, table.threads, work):
            return too_slow(detail)
        job = table.job(self.contract, each.declaration)
        answer = each.prepare(job)
        if isinstance(answer, NoResult):
            if answer.status == Status.TIMEOUT:
                self._hung[each.name, table.threads] = LongestCall(table.title, self.request.time_limit, work)
            return answer
        now = LongestCall(table.title, answer.expected, work)
        self._longest[group] = max(longest, now, key=lambda call: call.seconds)
        failed = takes_too_long(answer.expected, self.request.slowest) or each.prepare_others(job)
        if failed:
            each.release()
        return failed or answer

    def _hangs(self, name: str, threads: int, work: float) -> str:
        """Why a call is not tried after a timeout of one with no more work; empty where it is."""
        hung = self._hung.get((name, threads))
        if hung is None or work < hung.work:
            return ""
        return f"as much work as {hung.table}, or more, of which there was no result within the time limit"

    def _race(self, table: Table, entries: Sequence[Entry], reference: Entry | None) -> Load:
        """Race and verify them; the load meanwhile."""
        rows = table.workload.rows(table.direction, self.random)
        used = {entry.name: entry.participant.used() for entry in entries}
        baseline, meter = f"{self.contract.name}/{self.contract.baseline}", LoadMeter()
        race(entries, baseline, rows, self.request.seconds, self.random, reference, meter.load)
        load = meter.load()
        for entry in entries:
            spent = entry.participant.used() - used[entry.name]
            declaration = entry.participant.declaration
            verify(table.under(declaration), entry, rows, spent, is_approximate(declaration))
            if self.request.kind == "cpu" or entry.failed:  # on a GPU the task's memory is yet to be measured
                entry.participant.release()
        return load


def verify(table: Table, entry: Entry, rows: Rows, used: float, approximate: bool = False) -> None:
    """Let an entry drop out whose outputs are wrong, or which used more cores than it was given.

    `used` is seconds of processor time since its first round; of one that has failed it tells whether the others' times
    can be trusted. The errors of an `approximate` one have no bound, and are kept.
    """
    kept = [("while it was timed its answer was wrong", entry.kept)] if entry.kept else []
    proofs = [("its answer was wrong for numbers that it had not seen", proof) for proof in entry.proofs]
    ratios = []
    for when, excerpt in (*kept, *proofs):
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
    if entry.kept is not None:
        excerpt = entry.kept
        entry.relative_error = table.workload.errors(table.dtype, table.direction, excerpt.number, rows, excerpt.rows)
    if entry.took_more_cores:
        entry.refuse(f"it was given {table.threads} cores and used {used / entry.awake:.2f}")


def verified(
    table: Table, number: int, rows: Rows, output: Mapping[str, Tensor], when: str, approximate: bool = False
) -> float | NoResult:
    """The largest error, in bounds, of rows of the output in a round; or a refusal that says `when` it was wrong."""
    verdict = table.workload.verdict(table.dtype, table.direction, number, rows, output)
    if verdict.status != Status.PASSED and not (approximate and verdict.error_ratio is not None):
        return NoResult(Status.REFUSED, f"{when}: {verdict.detail}", verdict.error_ratio)
    return verdict.error_ratio or 0.0


def measured(row: Measurement, entry: Entry, weight: Weight, notes: Sequence[str] = ()) -> Measurement:
    """The row of an entry that has not failed, with its samples, errors and memory."""
    known = weight if isinstance(weight, Weighed) else None
    doubt = entry.unbounded and f"{NOT_BOUNDED}: {entry.unbounded}"
    note = f"no memory: {weight}" if isinstance(weight, NoResult) else ""
    return structs.replace(
        row,
        detail="; ".join(filter(None, (doubt, *notes, note))),
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
    """Why a call of `seconds` is not timed where one may take `slowest`; None where it is."""
    return too_slow(f"a call takes {seconds:.3g} s, more than {slowest:g} s") if seconds > slowest else None


def too_slow(detail: str) -> NoResult:
    """The failure of a call that takes longer than there is time for."""
    return NoResult(Status.UNSUPPORTED, f"too slow to time here: {detail}", reason=Reason.TOO_SLOW)
