"""One table: who can take part is prepared, raced and verified, again without those that took cores from others."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

from attnsuite.benchmark.accounts import Accounts
from attnsuite.benchmark.busy import Load, LoadMeter
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.implementation import Implementation
from attnsuite.benchmark.measure.memory import device_uuid
from attnsuite.benchmark.measure.protocol import Failed, Prepared
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.processes import kept_awake
from attnsuite.benchmark.race import race
from attnsuite.benchmark.request import Request, Table
from attnsuite.benchmark.verification import verify
from attnsuite.cases import Contract
from attnsuite.machine.telemetry import Meter
from attnsuite.model import Reason, Status

TELLING = 0.1
"""A call of this share of the longest allowed, or more, tells what more work will take, in proportion. A shorter one
may take most of its time for something else than its work."""
HOPELESS = 2.0
"""A call that would in this proportion take more than this many times the longest allowed is not tried. It is more than
1 because the proportion is not exact."""


@dataclass(frozen=True)
class LongestCall:
    """The longest call so far of an implementation: what it was of, its seconds, and its FLOPs."""

    of: str
    seconds: float
    work: float

    def forbids(self, work: float, slowest: float) -> str:
        """Why a call of `work` FLOPs is not tried where one may take `slowest` seconds; empty where it is."""
        times = work / self.work
        expected = self.seconds * times if self.seconds > TELLING * slowest else 0.0
        if times < 1 or (self.seconds <= slowest and expected <= HOPELESS * slowest):
            return ""
        more = f"{times:.3g} times the work" if times > 1 else "as much work"
        return f"{more} of {self.of}, which takes {self.seconds:.3g} s a call"


@dataclass(frozen=True)
class TimedTable:
    """A table that was timed: who was in the race, why the others were not, and what the device did meanwhile."""

    entries: Sequence[Entry[Participant]]
    failed: Mapping[str, Failed]
    telemetry: Mapping[str, Any]
    load: Load = field(default_factory=Load)
    """What other processes took of the machine meanwhile."""


class Refusing(Protocol):
    """What says who may not be timed, as `Gate` does."""

    def refusal(self, name: str, dtype: str, features: frozenset[str]) -> Failed | None: ...

    def confirm(self, implementation: Implementation, files: Callable[[], Sequence[str] | None]) -> None: ...


@dataclass
class Timing:
    """Times tables of one contract."""

    contract: Contract
    request: Request
    gate: Refusing
    accounts: Accounts
    random: Random
    _longest: dict[tuple[str, str, str, int], LongestCall] = field(default_factory=dict)
    """By implementation, group of workloads, dtype and threads."""
    _hung: dict[tuple[str, int], LongestCall] = field(default_factory=dict)
    """The least work of which an implementation gave no answer in time, by implementation and threads."""

    def time(
        self, table: Table, participants: Sequence[Participant], yardstick: Participant | None = None
    ) -> TimedTable:
        """Time a table, and again without those that took cores from the others.

        The `yardstick` is timed beside them where it can be, and is no part of what is returned.
        """
        failed: dict[str, Failed] = {}
        while True:
            timed = self._raced(table, [each for each in participants if each.name not in failed], yardstick)
            failed |= timed.failed
            took_cores = [entry for entry in timed.entries if entry.took_more_cores]
            if not took_cores:
                return replace(timed, failed=failed)
            for entry in took_cores:
                entry.participant.restart()
            failed |= {entry.name: entry.failed for entry in took_cores if entry.failed}

    def _raced(self, table: Table, participants: Sequence[Participant], yardstick: Participant | None) -> TimedTable:
        """Time all that can take part."""
        entries: list[Entry[Participant]] = []
        failed: dict[str, Failed] = {}
        for each in participants:
            prepared = self._prepared(each, table)
            if isinstance(prepared, Failed):
                failed[each.name] = prepared
                if prepared.status != Status.DECLINED and not each.shipped:
                    each.restart()  # whatever it has started would run beside the others
            else:
                entries.append(Entry(each, prepared, table.direction, table.cache))
        if not entries:
            return TimedTable([], failed, {})
        beside = self._prepared_beside(yardstick, table) if yardstick else None
        with Meter(device_uuid(self.request.device) or self.request.device) as meter:
            load = self._race(table, entries, beside)
        if beside:
            beside.participant.release()
        return TimedTable(entries, failed, meter.telemetry, load)

    def _prepared_beside(self, yardstick: Participant, table: Table) -> Entry[Participant] | None:
        """The yardstick's entry; None where it cannot be timed here, or takes longer than others may."""
        if table.declined(yardstick.declaration, self.contract, self.request.kind):
            return None
        with self.accounts.spending("preparing"):
            answer = yardstick.prepare(table.job(self.contract, yardstick.declaration))
        if isinstance(answer, Failed):
            return None
        if takes_too_long(answer.expected, self.request.slowest):
            yardstick.release()
            return None
        return Entry(yardstick, answer, table.direction, table.cache)

    def _prepared(self, each: Participant, table: Table) -> Prepared | Failed:
        """The participant's task, warmed up; or why it takes no part."""
        declined = table.declined(each.declaration, self.contract, self.request.kind)
        if failed := declined or self.gate.refusal(each.name, table.dtype, table.features(self.contract)):
            return failed
        work = table.workload.work(table.dtype, table.direction)["attended"]
        group = each.name, table.workload.group, table.dtype, table.threads
        longest = self._longest.get(group, LongestCall("", 0.0, math.inf))
        if detail := longest.forbids(work, self.request.slowest) or self._hangs(each.name, table.threads, work):
            return too_slow(detail)
        with self.accounts.spending("preparing"):
            answer = each.prepare(table.job(self.contract, each.declaration))
        if isinstance(answer, Failed):
            if answer.status == Status.HUNG:
                self._hung[each.name, table.threads] = LongestCall(table.says, self.request.time_limit, work)
            return answer
        self.accounts.move("preparing", "warm_up", answer.first_call + answer.warm_up)
        now = LongestCall(table.says, answer.expected, work)
        self._longest[group] = max(longest, now, key=lambda call: call.seconds)
        if failed := takes_too_long(answer.expected, self.request.slowest):
            each.release()
            return failed
        with self.accounts.spending("preparing"):
            failed = each.prepare_others(table.job(self.contract, each.declaration))
        if failed:
            each.release()
        return failed or answer

    def _hangs(self, name: str, threads: int, work: float) -> str:
        """Why no answer is waited for again, where there was none for as much work or less; empty where one is."""
        hung = self._hung.get((name, threads))
        if hung is None or work < hung.work:
            return ""
        return f"as much work as {hung.of}, or more, of which there was no result within the time limit"

    def _race(self, table: Table, entries: Sequence[Entry[Participant]], yardstick: Entry[Participant] | None) -> Load:
        """Race and verify them; the load meanwhile."""
        rows = table.workload.rows(table.direction, self.random)
        used = {entry.name: entry.participant.used() for entry in entries}
        baseline = f"{self.contract.name}/{self.contract.baseline}"
        kept, meter = kept_awake(table.threads), LoadMeter()
        with self.accounts.spending("between rounds"):
            race(entries, baseline, rows, self.request.seconds, self.random, yardstick, kept, meter.load)
        load = meter.load()
        for entry in entries:
            self.accounts.move("between rounds", "rounds", entry.spent + entry.made)
            self.accounts.move("between rounds", "warm_up", entry.warmed)
            with self.accounts.spending("verification"):
                spent = entry.participant.used() - used[entry.name]
                asked = table.under(entry.participant.declaration)
                verify(asked, entry, rows, spent, entry.participant.approximate)
            self._confirm(entry, table)
            if self.request.kind == "cpu" or entry.failed:  # on a GPU the task is yet to be weighed
                entry.participant.release()
        return load

    def _confirm(self, entry: Entry[Participant], table: Table) -> None:
        """Refuse who was let in by a verdict that was kept, and turns out to be something else."""
        self.gate.confirm(entry.participant.declaration, entry.participant.files)
        refused = self.gate.refusal(entry.name, table.dtype, table.features(self.contract))
        entry.failed = entry.failed or refused


def takes_too_long(seconds: float, slowest: float) -> Failed | None:
    """Why a call of `seconds` is not timed where one may take `slowest`; None where it is."""
    if seconds <= slowest:
        return None
    return too_slow(f"a call takes {seconds:.3g} s, more than {slowest:g} s")


def too_slow(detail: str) -> Failed:
    """The failure of a call that takes longer than there is time for."""
    return Failed(Status.DECLINED, f"too slow to time here: {detail}", reason=Reason.TOO_SLOW)
