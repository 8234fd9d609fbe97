"""Rows that contradict themselves, though each value alone is in range: no run writes one field beside the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, TypeAlias

from msgspec import NODEFAULT
from msgspec.structs import fields

from attnsuite.model import (
    CACHES,
    DTYPES,
    EVERY_CASE,
    FAILURES,
    Claimed,
    Evidence,
    Holds,
    Learned,
    Measurement,
    Outcome,
    Reason,
    Run,
    Status,
)
from attnsuite.model.bounded import LONG, MARGIN, NOT_BOUNDED, UNBELIEVED
from attnsuite.results.store import due_ranges

Complaints: TypeAlias = Iterator[str]
ROUNDED = 1e-5
"""The relative error of a number that is kept to six digits, and then some."""
REASONS: Mapping[Reason, tuple[Status, ...]] = {
    Reason.NONE: tuple(Status),
    Reason.UNTAKEN: (Status.DECLINED,),
    Reason.LACKING: (Status.DECLINED,),
    Reason.AT_RUN_TIME: (Status.DECLINED,),
    Reason.UNDEFINED: (Status.DECLINED,),
    Reason.CORE: (Status.WRONG,),
    Reason.NOT_ASKED: (Status.HUNG,),
    Reason.TOO_SLOW: (Status.DECLINED,),
    Reason.LENIENT: (Status.WRONG,),
}
"""The statuses that each reason explains."""
OF_TIMED = frozenset({"detail", "known", "reason", "error_ratio"})
"""What a row without a time may say beside what was asked and its status."""
WORK = frozenset({"attended", "convention", "bytes"})
"""The work that is kept of whatever was timed."""
STOPPED = ("narrow", "budget")
"""Why rounds end."""
TOOK = re.compile(r": (its samples|calls on new numbers) took (\d+\.\d\d) times as long")
LACKS = re.compile(r"lacks (\w+): ")
SHARES = re.compile(r"accuracy|BLEU|recalled")
"""How scores are called that lie between 0 and 1."""


def of_record(record: Outcome | Measurement | Learned | Claimed, run: Run) -> Complaints:
    """What a record says that cannot be beside what else it says, or beside what its run notes."""
    complaints: Mapping[type, Callable[[Any, Run], Complaints]] = {
        Outcome: _outcome,
        Measurement: _measurement,
        Learned: _learned,
        Claimed: _claimed,
    }
    return complaints[type(record)](record, run)


def _outcome(of: Outcome, run: Run) -> Complaints:
    yield from _named(of)
    yield from _why(of)
    if of.error_ratio is not None and of.status not in (Status.PASSED, Status.WRONG):
        yield f"it is {of.status}, and has an error_ratio"
    if of.status == Status.PASSED and _beyond(of.error_ratio) and not _is_approximate(of, run):
        yield f"it passed, and its error_ratio is {of.error_ratio:.4g}, above 1"
    if of.status == Status.PASSED and of.seconds is None:
        yield "it passed, and has no seconds"
    if of.known and of.status not in FAILURES:
        yield f"it is {of.status}, and known as {of.known:.80}"
    if of.lenient and (of.known or not of.validates_input):
        yield f"its reason is {of.reason}, and it is {of.known or of.case:.80}"
    yield from _diagnosed(of)
    if of.dtype == EVERY_CASE and of.status in (Status.PASSED, Status.DECLINED):
        yield f"it is {of.status}, and about no case in a dtype"
    if (of.case == EVERY_CASE) > (of.dtype == EVERY_CASE):
        yield f"it is about every case in {of.dtype:.20} alone"
    if of.status == Status.MISSING and of.case != EVERY_CASE:
        yield f"it is missing, and about {of.case:.80} alone"
    yield from _gaps(of, run)


def _diagnosed(of: Outcome) -> Complaints:
    """Where the deviations that it equals are not those that its detail names."""
    if of.diagnosis and of.status != Status.WRONG:
        yield f"it is {of.status}, and has a diagnosis"
    for name in of.diagnosis:
        if f'"{name}"' not in of.detail and not _is_cut(of.detail):
            yield f"its diagnosis is {name:.80}, which its detail does not name"


def _gaps(of: Outcome, run: Run) -> Complaints:
    """An answer to what the implementation lacks, as the run notes, and a gap that it does not note."""
    gaps, noted = run.facts.gaps.get(of.implementation, {}), run.facts.contracts.get(of.contract)
    if of.dtype == EVERY_CASE or noted is None or of.case not in noted.cases:
        return
    needs = {*noted.cases[of.case], of.device.partition(":")[0]} - {*DTYPES} | {of.dtype}
    if of.status == Status.PASSED and (lacked := sorted(needs & gaps.keys())):
        yield f"it passed, and its run notes that it lacks {lacked[0]:.80}, which the case needs"
    if of.reason == Reason.LACKING:
        said = LACKS.match(of.detail)
        if said is None or said[1] not in gaps:
            yield f"it declines what it lacks, and its run notes no such gap ({of.detail!r:.60})"
        elif said[1] not in {*needs, *DTYPES}:  # a case may need numbers of other dtypes beside its own
            yield f"it declines for want of {said[1]:.80}, which the case does not need"
    if of.reason == Reason.UNTAKEN and not of.detail.startswith("takes no "):
        yield f"it declines what it has no parameter for, and says {of.detail!r:.60}"


def _measurement(of: Measurement, run: Run) -> Complaints:
    yield from _named(of)
    yield from _why(of)
    if of.known and of.status != Status.REFUSED:
        yield f"it is {of.status}, and known as {of.known:.80}"
    every = {name: getattr(of, name) == EVERY_CASE for name in ("workload", "dtype", "direction", "cache")}
    if len(set(every.values())) > 1:
        yield f"it is about every {next(name for name, said in every.items() if said)}, and not about every other"
    elif not every["workload"] and of.dtype not in DTYPES:
        yield f"dtype is {of.dtype!r:.80}, not one of {', '.join(DTYPES)}"
    if of.status != Status.MEASURED:
        yield from _not_timed(of)
        return
    if every["workload"]:
        yield "it is measured, and about every workload"
    yield from _timed(of, run)
    yield from _own_clock(of)


def _not_timed(of: Measurement) -> Complaints:
    """What was measured of what has no time."""
    for name, empty in DEFAULTS.items():
        if name not in OF_TIMED and name != "seconds" and getattr(of, name) != empty:
            yield f"it is {of.status}, and has {name}"
    if of.error_ratio is not None and of.status != Status.REFUSED:
        yield f"it is {of.status}, and has an error_ratio"


def _timed(of: Measurement, run: Run) -> Complaints:
    """What is measured beside every time, and what the answer has to be."""
    if of.error_ratio is None:
        yield "it is measured, and no error_ratio says that its answer was looked at"
    elif _beyond(of.error_ratio) and not _is_approximate(of, run):
        yield f"it is measured, and its error_ratio is {of.error_ratio:.4g}, above 1"
    if lost := sorted(WORK - of.work.keys()):
        yield f"it is measured, and has no work.{lost[0]}"
    if of.stopped not in STOPPED:
        yield f"stopped is {of.stopped!r:.40}, not one of {', '.join(STOPPED)}"
    for name in ("first_call", "warm_up"):
        if getattr(of, name) is None:
            yield f"it is measured, and has no {name}"
    if (of.device == "cpu") != (of.threads > 0):
        yield f"threads is {of.threads}, on {of.device:.40}"
    noted = run.facts.contracts.get(of.contract)
    if of.making and noted is not None and not noted.is_model:
        yield f"it has making, and nothing is made of {of.contract:.80}"
    if of.device == "cpu" and of.telemetry:
        yield "it has telemetry, which only a GPU gives"
    if of.relative_error.get("rms", 0.0) > of.relative_error.get("largest", 0.0) * (1 + ROUNDED):
        yield "relative_error.rms is above relative_error.largest"


def _own_clock(of: Measurement) -> Complaints:
    """A time that the suite's own clock does not bound, without the words that say so, or words without such a time."""
    times, said = of.own_clock, of.detail.startswith(NOT_BOUNDED)
    if times is None:
        return
    is_long = of.cache == CACHES[0] and of.direction != "backward" and median(of.seconds) >= LONG
    most = 1 + MARGIN if is_long else UNBELIEVED
    if times > most * (1 + ROUNDED) and not said:
        yield f"own_clock is {times:.4g}, and the detail does not say that this time is not bounded"
    took = TOOK.search(of.detail) if said else None
    if took and (float(took[2]) > times + 0.006 or (took[1] == "its samples" and float(took[2]) < times - 0.006)):
        yield f"own_clock is {times:.4g}, and the detail says that {took[1]} took {took[2]} times as long"


def _learned(of: Learned, run: Run) -> Complaints:
    if not of.scores:
        yield "it has no scores"
    shares = {name for name in of.scores if SHARES.search(name)} | of.printed.keys()
    beside = of.beside.keys() if next(iter(of.scores), "") in shares else ()  # these are compared with the first score
    for kind, names in {"scores": shares & of.scores.keys(), "printed": of.printed.keys(), "beside": beside}.items():
        for name in sorted(names):
            if not 0 <= (value := getattr(of, kind)[name]) <= 1:
                yield f"{kind}.{name:.40} is {value:.4g}, not between 0 and 1"
    if unknown := sorted(of.printed.keys() - of.scores.keys()):
        yield f"printed.{unknown[0]:.40} is no score that it has"
    if min(of.curve) < 0:
        yield f"a loss is {min(of.curve):.4g}, below 0"


def _claimed(of: Claimed, run: Run) -> Complaints:
    topic = of.claim.partition("/")[0]
    if of.implementation != f"claims/{topic}":
        yield f"{of.claim:.80} is counted by {of.implementation:.80}, not by claims/{topic:.80}"
    if of.evidence == Evidence.EXACT and of.samples:
        yield "it is exact, and has samples"
    if of.holds in (Holds.RAISED, Holds.MISSING):
        if not of.detail:
            yield f"it {of.holds}, and does not say why"
        if of.samples or of.numbers:
            yield f"it {of.holds}, and has numbers"
        return
    due, found = due_ranges.read(of.due), (of.value, of.low, of.high)
    if due is None:
        yield f"it is due {of.due!r:.80}, which is no range"
    elif None not in found and (why := due_ranges.unlike(due, of)):
        yield why
    if of.value is not None and of.low is not None and of.high is not None and not of.low <= of.value <= of.high:
        yield f"value is {of.value:.6g}, not between low and high, {of.low:.6g} and {of.high:.6g}"


def _why(of: Outcome | Measurement) -> Complaints:
    """A status without its words, and a reason for another status."""
    if of.status not in (Status.PASSED, Status.MEASURED) and not of.detail:
        yield f"it is {of.status}, and does not say why"
    if of.status not in REASONS[of.reason]:
        yield f"it is {of.status}, and its reason is {of.reason}"


def _named(of: Outcome | Measurement) -> Complaints:
    contract = of.implementation.partition("/")[0]
    if of.contract != contract:
        yield f"the contract is {of.contract!r:.80}, and {of.implementation:.80} is of {contract:.80}"


def _beyond(error_ratio: float | None) -> bool:
    return error_ratio is not None and error_ratio > 1


def _is_approximate(of: Outcome | Measurement, run: Run) -> bool:
    """Whether it declares that its errors are measured, and not bounded: of models alone that is theirs to say."""
    noted = run.facts.contracts.get(of.contract)
    declared = run.facts.conventions.get(of.implementation, {}).get("accuracy") == "measured"
    return declared and (noted is None or noted.is_model)


def _is_cut(text: str) -> bool:
    """Whether a text is so long that a row has only its beginning."""
    return text.endswith(" characters)")


DEFAULTS: Mapping[str, Any] = {
    each.name: each.default_factory() if each.default_factory is not NODEFAULT else each.default
    for each in fields(Measurement)
    if each.default is not NODEFAULT or each.default_factory is not NODEFAULT
}
"""What a measurement holds where nothing was measured."""
