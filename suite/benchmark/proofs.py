"""Proofs of claimed times, by calls on new inputs that this process sends one by one and times by its own clock.

A submission therefore cannot precompute, cache, defer or batch outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from statistics import median, quantiles

from torch import Tensor

from attnsuite.benchmark.busy import Disturbance
from attnsuite.benchmark.entry import Entry, Excerpt
from attnsuite.benchmark.measure import MIN_ROUNDS
from attnsuite.benchmark.measure.messages import NoResult, Rows, invalid_reply
from attnsuite.benchmark.own_clock import (
    BOUNDED_FROM,
    RequestOverhead,
    call_seconds,
    margin,
    quick,
    unbounded,
    unbounded_reason,
)
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.model import STEP, Status
from attnsuite.model.limits import MAX_CLAIM_RATIO, MIN_BOUNDED_SECONDS

MOST_CALLS = 16
"""Calls in a pass at most: a request takes longer than a short call."""
VERIFIED = 3
"""Outputs that are compared with the oracle: the quickest of those drawn in advance, one per pass. A claim is accepted
as soon as this many passes are quick enough. An exploit needs to be fast in each of them, and is wrong there; random
passes would miss half of such exploits. Of training steps, whose oracle takes seconds, one output is compared."""
PROOF_SHARE = 0.25
"""Seconds of an entry's passes per second of its samples, beyond which doubts that could only mark a row end: proofs
then take at most a fifth of a table's time. Doubts that could refuse the row go on."""
WARMUP_CALLS = 1
"""Calls right before inputs arrive, if a call takes less than `MIN_BOUNDED_SECONDS`: in samples its code is in the
caches."""
CLAIMED_SECONDS = 0.1
"""Seconds of claimed calls after which passes end, even before `VERIFIED` of them, and of `MIN_ROUNDS` passes."""
REFUSAL_FACTOR, FEWEST_PASSES = 5, 3
"""An entry that seems too slow gets REFUSAL_FACTOR times as many passes, and at least FEWEST_PASSES of them, because
the speed of machines varies."""
MOST_SPENT = 3.0
"""Seconds of passes, idle requests included, after which passes end. A call may take a thousand times what it
claims, and 200 MB of inputs take 0.3 s to reach a process and a GPU."""
SHORT_ALLOWANCE = 5e-6
"""Seconds that a call shorter than `BOUNDED_FROM` may take beyond its claim: in samples its code is in the caches,
and here a request was read before it."""
SHORT_TOLERANCE = 2.0
"""The largest (time − SHORT_ALLOWANCE) / claim of a short call."""
BACKWARD_TOLERANCE = 6.0
"""The same for a backward: its forward, which precedes it in the call, may take four times as long."""
LONGEST_HEAD_START = 1e-3
"""Seconds of hidden launching that are believed at most: flushing a cache of 1 GB takes less."""
MOST_DRIFT = 2.0
"""The largest drift, the slow-down of the machine since the rounds. Rows beyond it are marked as not bounded: a claim
of a fraction of the real time would be believed."""
WAKING = 5e-3
"""Seconds that a call on several threads may take longer on secret inputs: its threads fall asleep while inputs
arrive, and in samples are awake. OpenMP's threads spin while they wait for the others, so a waking thread gets a core
only when the scheduler preempts a spinning one, some 4 ms later. Measured on both cores of a virtual machine: calls of
2 ms by PyTorch's kernels took 1.4 to 3.3 times as long, on one core 1.0 to 1.4 times."""
NO_TIME = 10.0
"""Ratio to the claim beyond which a row of calls of `BOUNDED_FROM` seconds or more gets no time, however busy the
machine is: such a time would be worthless."""


@dataclass(frozen=True)
class Allowances:
    """The allowances for every claim."""

    drift: float = 1.0
    """Ratio of the time of calls now to that in the rounds."""
    idle: float = 0.0
    """Seconds of a request without a call."""
    jitter: float = 0.0
    """The interquartile range of such a request over passes, in seconds."""
    head_start: float = 0.0
    """Seconds of launching that claims exclude."""
    spread: float = 0.0
    """The interquartile range of calls of the trusted entry over passes, as a share of its claim."""
    call: float = 0.0
    """Claimed seconds of a call of the trusted entry."""

    def uncertainty(self, claim: float) -> float:
        """Seconds by which a true claim may be off on this machine now.

        On a busy machine a call waits for a processor, a longer call more often. The trusted entry's calls measure
        this, in proportion for shorter calls.
        """
        return max(self.jitter, self.spread * min(claim, self.call))

    def waking(self, threads: int) -> float:
        """Further seconds for a call on several threads, which have to wake up."""
        return WAKING + self.spread * self.call if threads > 1 else 0.0


@dataclass
class Prover:
    """The times of one entry's calls on new inputs."""

    entry: Entry
    overhead: RequestOverhead
    threshold: float = BOUNDED_FROM
    """Seconds: the claim of a longer call is bounded by its time on secret inputs, within a share."""
    seconds: list[float] = field(default_factory=list)
    """Of a reply, in the median of each pass."""
    idle: list[float] = field(default_factory=list)
    """Of the same request without a call, in the median of each pass."""
    excerpts: dict[tuple[float, float], Excerpt] = field(default_factory=dict)
    """The rows to verify, by the seconds of the reply and the tie-break of its pass: the quickest. Among equally quick
    ones, those with the lowest tie-break, which is the same for all entries."""
    disturbance: Disturbance = field(default_factory=Disturbance)
    """Other causes of longer calls."""

    @property
    def calls(self) -> int:
        """Calls in a pass: few enough for `MIN_ROUNDS` passes.

        After the first pass, the process's own claims about the length of calls and samples cannot raise the number.
        """
        capacity: int = self.entry.participant.capacity
        longest = max(quick(self.entry.seconds), quick(self.seconds) - quick(self.idle) if self.seconds else 0.0)
        return max(1, min(self.entry.calls, MOST_CALLS, capacity, int(CLAIMED_SECONDS / MIN_ROUNDS / longest)))

    @property
    def is_long(self) -> bool:
        """Whether its calls are long enough, and of a kind, that their time bounds the claim within a share."""
        return not unbounded_reason(self.entry) and call_seconds(self.entry, self.overhead) >= self.threshold

    @property
    def may_accept(self) -> bool:
        """Whether enough passes are done to accept a claim that calls do not exceed."""
        return self._has(VERIFIED, CLAIMED_SECONDS) or self._spent > MOST_SPENT

    @property
    def may_refuse(self) -> bool:
        """Whether enough passes are done to refuse a claim that calls seem to exceed."""
        enough = self._has(REFUSAL_FACTOR * MIN_ROUNDS, REFUSAL_FACTOR * CLAIMED_SECONDS) or self._spent > MOST_SPENT
        return enough and len(self.seconds) >= FEWEST_PASSES

    @property
    def _spent(self) -> float:
        return (sum(self.seconds) + sum(self.idle)) * self.calls

    def _has(self, passes: int, claimed: float) -> bool:
        return len(self.seconds) >= passes or len(self.seconds) * self.calls * quick(self.entry.seconds) > claimed

    def make_pass(self, numbers: Sequence[int], kept: int, tie_break: float, rows: Rows) -> None:
        """Time calls on the inputs of these numbers; the output for `kept` is verified if it is among the quickest."""
        warm = WARMUP_CALLS if quick(self.entry.seconds) < MIN_BOUNDED_SECONDS else 0
        reply = self.entry.attempt(lambda: self.entry.participant.proof_times(numbers, kept, warm))
        if reply is None:
            return
        self._keep(kept, reply.rows, (reply.seconds[numbers.index(kept)], tie_break), rows)
        self.seconds.append(median(reply.seconds))
        self.idle.append(median(reply.idle))

    def _keep(self, number: int, output: Mapping[str, Tensor], place: tuple[float, float], rows: Rows) -> None:
        try:
            self.excerpts[place] = Excerpt(number, {name: output[name][list(places)] for name, places in rows.items()})
        except (KeyError, IndexError, RuntimeError):  # RuntimeError: a dtype that cannot be indexed
            sizes = {name: tuple(tensor.shape) for name, tensor in output.items()}
            self.entry.failed = invalid_reply(f"tensors of sizes {sizes}")
            return
        if len(self.excerpts) > (1 if self.entry.direction == STEP else VERIFIED):
            del self.excerpts[max(self.excerpts)]
        self.entry.proofs = [self.excerpts[place] for place in sorted(self.excerpts)]

    def ratio(self, idle: float, passes: int = 0) -> float:
        """Ratio of the time of a call to its claim in the lower quartile of passes, or in the slowest of as many
        quickest `passes`, if that is more; `idle` is the seconds of a request without a call.
        """
        slowest = max(sorted(self.seconds)[:passes], default=0.0)
        return (max(quick(self.seconds), slowest) - idle) / quick(self.entry.seconds)

    def bounds(self, allowances: Allowances) -> tuple[float, float]:
        """The lowest and the highest ratio of the time of a call to its claim.

        This process may wake up more slowly than the entry that measures the overhead, which matters for a short call.
        But a submission may also prolong its own idle requests on purpose.
        """
        slack = 0.0 if self.is_long else SHORT_ALLOWANCE + allowances.head_start
        own = quick(self.idle) if self.idle else allowances.idle
        longest = allowances.idle if self.is_long else max(allowances.idle, own)
        low = self.ratio(longest + slack) / allowances.drift
        high = self.ratio(min(allowances.idle, own) + slack, VERIFIED) / min(allowances.drift, MOST_DRIFT)
        return low, max(low, high)

    def conclude(self, allowances: Allowances) -> bool:
        """Accept or refuse the claim; False if that needs more passes.

        It is refused if nothing explains the time of calls. It is marked as not bounded if something may, such as a
        machine that other processes kept busy.
        """
        entry, claim = self.entry, quick(self.entry.seconds)
        low, high = self.bounds(allowances)
        allowed = margin(entry, self.overhead) if self.is_long else self._tolerance - 1
        may_mark = self.may_refuse or (high <= self._tolerance and self._spent > PROOF_SHARE * entry.sampling)
        if high > 1 + allowed and not may_mark:
            return False
        uncertain = allowances.uncertainty(claim) + allowances.waking(entry.participant.threads)
        disturbed = (low - 1) * claim <= uncertain
        if low > self._tolerance and (not disturbed or (self.is_long and low > NO_TIME)):
            self._refuse_unless(low, high)
            return True
        words = unbounded(high, margin=allowed)
        if self.is_long:
            entry.own_clock = max(high, entry.own_clock or 0.0)
            words = words or unbounded(entry.own_clock, "its samples", allowed)
            entry.unbounded = self._with_load(words)
        elif (reason := unbounded_reason(entry)) and call_seconds(entry, self.overhead) >= MIN_BOUNDED_SECONDS:
            entry.unbounded, entry.own_clock = reason, None
        elif words:
            entry.own_clock = max(high, entry.own_clock or 0.0)
            entry.unbounded = self._with_load(words)
        entry.concluded = True
        return True

    def _refuse_unless(self, low: float, high: float) -> None:
        """Refuse the claim, which calls exceed by a factor of `low`, unless a disturbance explains that.

        Then the time is shown as not bounded; beyond `NO_TIME` no time is shown.
        """
        entry, words = self.entry, unbounded(low, margin=0.0)
        reason = self.disturbance.explains(low, self._tolerance, entry.participant.threads)
        if not reason:
            entry.refuse(f"it claims {median(entry.seconds):.3g} s for a call, but {words}")
        elif self.is_long and low > NO_TIME:
            entry.failed = NoResult(Status.UNSUPPORTED, f"not bounded: {reason}: {words}")
        else:
            entry.own_clock, entry.unbounded = max(high, entry.own_clock or 0.0), f"{reason}: {words}"
            entry.concluded = True

    def _with_load(self, words: str) -> str:
        """The note of a row whose time is not bounded, with the load if the machine was busy."""
        busy = self.disturbance.busy(self.entry.participant.threads) if words else ""
        return f"{busy}: {words}" if busy else words

    @property
    def _tolerance(self) -> float:
        """Ratio to the claim beyond which it is refused."""
        if self.is_long:
            return MAX_CLAIM_RATIO
        return BACKWARD_TOLERANCE if self.entry.direction == "backward" else SHORT_TOLERANCE


def prove(
    entries: Sequence[Entry],
    trusted: Entry | None,
    overhead: RequestOverhead,
    rows: Rows,
    random: Random,
    disturbance: Disturbance,
) -> None:
    """Prove the claims of these entries, or refuse them.

    Passes take turns, as samples do, so that a disturbance affects all entries. The `trusted` entry, whose code ships
    with the suite, measures how much slower the machine is now, and the overhead of requests. Without it, the entry
    with the least overhead measures the overhead, so that no entry can inflate it, and drift is taken as 1.
    """
    able = trusted is not None and not trusted.failed
    threshold = BOUNDED_FROM if able else MIN_BOUNDED_SECONDS  # without it, a false claim looks like a slower machine
    make = partial(Prover, overhead=overhead, threshold=threshold, disturbance=disturbance)
    provers = {entry.name: make(entry) for entry in entries}
    known = provers.setdefault(trusted.name, make(trusted)) if trusted and able else None
    waiting = [provers[entry.name] for entry in entries if not entry.failed]
    while waiting:
        kept, *others = random.sample(SECRET_NUMBERS, max(prover.calls for prover in waiting))
        tie_break = random.random()
        timed = [*waiting, *([known] if known and known not in waiting and not known.entry.failed else [])]
        for prover in random.sample(timed, len(timed)):
            numbers = [kept, *others[: prover.calls - 1]]
            prover.make_pass(random.sample(numbers, len(numbers)), kept, tie_break, rows)
        waiting = [prover for prover in waiting if not prover.entry.failed]
        allowances = _allowances(known, list(provers.values()), overhead)
        waiting = [prover for prover in waiting if not (prover.may_accept and prover.conclude(allowances))]


def _allowances(known: Prover | None, provers: Sequence[Prover], overhead: RequestOverhead) -> Allowances:
    """The allowances by the trusted entry, if it was timed; otherwise by the least overhead, with a drift of 1."""
    trusted = known if known and known.idle else None
    able = [trusted] if trusted else [prover for prover in provers if prover.idle]
    if not able:
        return Allowances()
    least = min(able, key=lambda prover: quick(prover.idle))
    idle = quick(least.idle)
    slow = quantiles(least.idle, n=4)[-1] if len(least.idle) > 1 else idle
    has_drift = trusted is not None and trusted.entry.direction != "backward"  # a forward precedes each backward
    drift = max(1.0, trusted.ratio(idle)) if trusted and has_drift else 1.0
    head_start = min(LONGEST_HEAD_START, trusted.entry.prepared.head_start if trusted else overhead.head_start)
    if trusted is None or len(trusted.seconds) < FEWEST_PASSES:
        return Allowances(drift, idle, slow - idle, head_start)
    early, _, late = quantiles(trusted.seconds, n=4)
    call = quick(trusted.entry.seconds)
    return Allowances(drift, idle, slow - idle, head_start, (late - early) / call, call)
