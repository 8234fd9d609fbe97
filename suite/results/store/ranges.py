"""Which values no honest run can have: negative times, more time than the run took, rates above measured ceilings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any, TypeAlias

from attnsuite.model import (
    DTYPES,
    EVERY_CASE,
    Claimed,
    Evidence,
    Holds,
    Learned,
    Measurement,
    Outcome,
    Run,
    Shard,
    Status,
    UsageError,
)
from attnsuite.model.measurement import METERS
from attnsuite.model.statistics import interval

Complaints: TypeAlias = Iterator[str]
CLOCK_SLACK = 5.0
"""Seconds by which the start and the end of a run may be off: both are kept in whole seconds, of a clock that is set
while it runs."""
CLOCK_SHARE = 0.01
"""The share of a run by which its end may be off beside that."""
RATE_SLACK = 2.5
"""How many times the ceiling of the same run a rate may be. PyTorch's product may use half of a processor's vector
width (MKL on AMD: AVX2, where ONNX Runtime uses AVX-512 and reaches 1.75 times as much), and the half second in which
the ceiling was measured may have been a quarter slower than the rest of the run."""
AGED_SLACK = 3.0
"""The same for a ceiling of an earlier run, in which the machine may have been busy."""
COPY_SLACK = 1.5
"""A copy writes as much as it reads, and a line of memory is read before it is written: two of three transfers count.
What only reads may be faster by so much."""
HALF = frozenset({"float16", "bfloat16"})
"""The dtypes whose products may be slower than those in float32."""
STATISTICS_MATCH = 1e-5
"""The relative error of a median of samples that were rounded to six digits, and of an end of its interval."""
AHEAD = timedelta(days=1)
"""How far the clock of a machine that timed may be ahead of the one that verifies."""
HASH = re.compile(r"[0-9a-f]{12}")
COMMIT = re.compile(r"[0-9a-f]{7,40}(-dirty)?")


def duration(run: Run) -> float:
    """The longest that anything in a run can have taken, in seconds; infinite where it is not known."""
    try:
        started, finished = (datetime.fromisoformat(each) for each in (run.started, run.finished))
        return (finished - started).total_seconds() * (1 + CLOCK_SHARE) + CLOCK_SLACK
    except (ValueError, TypeError):
        return math.inf


def together(run: Run) -> float:
    """The longest that everything in a run can have taken together: shards that were merged ran at once."""
    return duration(run) * max(1, len(run.shards))


def of_run(run: Run) -> Complaints:
    """What is out of range in a run that is finished."""
    for name in ("started", "finished"):
        yield from _time(name, getattr(run, name))
    yield from _parts(run)
    longest = together(run)
    if longest < 0:
        yield f"finished is {run.finished}, before it started ({run.started})"
    with suppress(ValueError, TypeError):
        if datetime.fromisoformat(run.finished) > datetime.now(UTC) + AHEAD:
            yield f"finished is {run.finished}, which is still to come"
    if run.commit and not COMMIT.fullmatch(run.commit):
        yield f"commit is {run.commit!r:.80}, which is none"
    for name, value in {"suite": run.suite, **run.sources}.items():
        if value and not HASH.fullmatch(value):
            yield f"the hash of {name:.80} is {value!r:.40}, not 12 hexadecimal digits"
    machine = run.machine
    if not 1 <= machine.cores <= machine.threads:
        yield f"the machine has {machine.cores} cores and {machine.threads} threads"
    if not machine.memory_bytes:
        yield "the machine has no memory"
    spent = run.facts.seconds
    yield from _numbers("seconds", spent, 0.0)
    if sum(spent.values()) > longest:
        yield f"seconds are {sum(spent.values()):.4g} in all, and the run took {longest:.4g} at most"


def _parts(run: Run) -> Complaints:
    """What is amiss with the shards that a run is, or is made of."""
    if run.shard and run.shards:
        yield f"it is the shard {run.shard:.40}, and made of {len(run.shards)}"
    try:
        counts = {Shard.read(part).count for part in (*run.shards, *filter(None, [run.shard]))}
    except UsageError as error:
        yield str(error).removeprefix("--shard: ")
    else:
        if len(counts) > 1:
            yield f"it is made of shards of {' and of '.join(map(str, sorted(counts)))}"


def of_record(record: Outcome | Measurement | Learned | Claimed, run: Run) -> Complaints:
    """What is out of range in a record of this run."""
    complaints: Mapping[type, Callable[[Any, Run], Complaints]] = {
        Outcome: _outcome,
        Measurement: _measurement,
        Learned: _learned,
        Claimed: _claimed,
    }
    return complaints[type(record)](record, run)


def timed(record: Outcome | Measurement | Learned | Claimed) -> float:
    """Seconds of the run that its timed calls took."""
    return sum(record.seconds) * record.calls if isinstance(record, Measurement) else 0.0


def _outcome(of: Outcome, run: Run) -> Complaints:
    yield from _number("seconds", of.seconds, 0.0, duration(run))
    yield from _ratio(of.error_ratio)
    if of.status == Status.PASSED and of.error_ratio == math.inf:
        yield "it passed, and its error_ratio is infinite"
    if of.dtype not in (*DTYPES, EVERY_CASE):
        yield f"dtype is {of.dtype!r:.80}, not one of {', '.join(DTYPES)}"
    noted = run.facts.contracts.get(of.contract)
    of_a_case = of.dtype != EVERY_CASE  # else it is about the implementation: missing, or a gap that it has not
    if of_a_case and noted and noted.cases and of.case not in noted.cases:
        yield f"its run notes no case {of.case!r:.80} of {of.contract:.80}"
    yield from _asked(of, run)


def _measurement(of: Measurement, run: Run) -> Complaints:
    longest = duration(run)
    if of.seconds and of.status != Status.MEASURED:
        yield f"it is {of.status}, and has seconds"
    if of.seconds and not of.calls:
        yield "calls is 0, and it has seconds"
    if timed(of) > longest:
        calls = f"{of.calls:.6g} calls of {median(of.seconds):.4g} s"
        yield f"{calls} in each of {len(of.seconds)} samples are longer than the run, {longest:.4g} s at most"
    for name in ("first_call", "warm_up"):
        yield from _number(name, getattr(of, name), 0.0, longest)
    for name in ("making", "memory", "work", "relative_error", "ceilings"):
        yield from _numbers(name, getattr(of, name), 0.0)
    if of.own_clock is not None and not 0 < of.own_clock < math.inf:
        yield f"own_clock is {of.own_clock:.4g}, and no call takes that many times its time"
    if unknown := sorted(of.memory.keys() - METERS):
        yield f"memory.{unknown[0]:.80} is no meter; there are: {', '.join(sorted(METERS))}"
    if any(value == 0 for value in of.ceilings.values()):
        yield "a ceiling is 0"
    yield from _memory(of, run)
    yield from _ratio(of.error_ratio)
    if of.device == "cpu" and of.threads > run.machine.threads:
        yield f"threads is {of.threads}, and the machine has {run.machine.threads}"
    noted = run.facts.workloads.get(of.contract)
    if noted and of.workload not in (*noted, EVERY_CASE):
        yield f"its run notes no workload {of.workload!r:.80} of {of.contract:.80}"
    yield from _rates(of, run)
    yield from _asked(of, run)


def _memory(of: Measurement, run: Run) -> Complaints:
    limit = run.machine.memory_bytes
    for name in ("output", "resident", "retained"):
        if of.device == "cpu" and (of.memory.get(name) or 0) > limit:
            yield f"memory.{name} is {of.memory[name]:.4g} bytes, and the machine has {limit:.4g}"


def _rates(of: Measurement, run: Run) -> Complaints:
    """Work in less time than the machine took for it in the same run, or in an earlier one."""
    finite = all(map(math.isfinite, (*of.work.values(), *of.ceilings.values())))  # what is not is said already
    if not of.seconds or not finite:
        return
    aged = "age" in of.ceilings
    slack, which = (AGED_SLACK, "an earlier run") if aged else (RATE_SLACK, "this run")
    seconds = median(of.seconds)
    if of.dtype not in HALF and is_beyond_reach(of, slack):  # half types are held against other rows as well
        reached = of.ceilings["flops"]
        rate = of.work["attended"] / seconds
        yield f"{rate:.3g} FLOPs per second are more than the {reached:.3g} of a matrix product in {which}"
    moved, ceiling = of.work.get("bytes", 0.0), of.ceilings.get("bytes", math.inf)
    cached = of.cache == "hot" and moved <= sum(run.machine.caches.values())
    known = bool(run.machine.caches) or of.cache == "cold"
    if known and not cached and moved > seconds * ceiling * slack * COPY_SLACK:
        yield f"{moved / seconds:.3g} bytes per second are more than the {ceiling:.3g} of a copy in {which}"


def is_beyond_reach(of: Measurement, slack: float) -> bool:
    """Whether so many FLOPs per second are claimed that a matrix product reached not even a `slack`-th of them."""
    return is_beyond(of, of.ceilings.get("flops", math.inf) * slack)


def is_beyond(of: Measurement, flops: float) -> bool:
    """Whether more FLOPs per second are claimed than these."""
    return bool(of.seconds) and of.work.get("attended", 0.0) > median(of.seconds) * flops


def _learned(of: Learned, run: Run) -> Complaints:
    yield from _number("seconds", of.seconds, 0.0)
    for name in ("scores", "printed", "beside"):
        yield from _numbers(name, getattr(of, name), -math.inf)
    epochs = of.config.get("epochs")
    if isinstance(epochs, int) and epochs != len(of.curve):
        yield f"the config has {epochs} epochs, and the curve {len(of.curve)}"


def _claimed(of: Claimed, run: Run) -> Complaints:
    yield from _number("seconds", of.seconds, 0.0, duration(run))
    found = (of.value, of.low, of.high)
    answered = of.holds not in (Holds.RAISED, Holds.MISSING)
    if answered != all(each is not None for each in found):
        yield f"it {of.holds}, and value, low and high are {', '.join(map(str, found))}"
    if of.evidence == Evidence.EXACT and len(set(found)) > 1:
        yield f"it is exact, and value, low and high are {', '.join(map(str, found))}"
    if of.samples:
        due = interval(of.samples)
        for name, value, of_samples in zip(
            ("value", "low", "high"), found, (due.median, due.low, due.high), strict=True
        ):
            if value is None or not _match(value, of_samples):
                yield f"{name} is {value}, and the samples give {of_samples:.6g}"
    elif answered and of.evidence != Evidence.EXACT:
        yield f"it is {of.evidence}, and has no samples"


def _match(one: float, other: float) -> bool:
    """Whether two numbers are one, but for rounding."""
    return one == other or math.isclose(one, other, rel_tol=STATISTICS_MATCH)


def _asked(of: Outcome | Measurement, run: Run) -> Complaints:
    if of.implementation not in run.sources:
        yield f"its run names no source of {of.implementation:.80}"
    if of.known and of.known not in run.facts.findings:
        yield f"its run notes no finding {of.known!r:.80}"


def _ratio(value: float | None) -> Complaints:
    if value is not None and not value >= 0:
        yield f"error_ratio is {value:.4g}, below 0"


def _time(name: str, value: str) -> Complaints:
    try:
        if datetime.fromisoformat(value).tzinfo is None:
            yield f"{name} is {value!r:.40}, without a time zone"
    except ValueError:
        yield f"{name} is {value!r:.40}, which is no time"


def _numbers(name: str, values: Mapping[str, float | None], least: float) -> Complaints:
    for key, value in values.items():
        yield from _number(f"{name}.{key:.40}", value, least)


def _number(name: str, value: float | None, least: float, most: float = math.inf) -> Complaints:
    if value is not None and not (least <= value <= most and math.isfinite(value)):
        limits = f"between {least:.4g} and {most:.4g}" if most < math.inf else f"finite and {least:.4g} or more"
        yield f"{name} is {value:.4g}, not {limits}"
