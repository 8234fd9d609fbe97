"""Comparison of claimed times with the clock of this process, which no submission can reach."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from attnsuite.benchmark.busy import Disturbance
from attnsuite.benchmark.entry import Entry, Sample
from attnsuite.model import STEP
from attnsuite.model.limits import CLAIM_MARGIN, MAX_CLAIM_RATIO

BOUNDED_FROM = 2.5e-4
"""Seconds: the claims of calls this long or longer are bounded by their time on secret inputs, within a share. The
unmeasured part of a call, some 5 µs, is 2 % of this."""
SHORT_MARGIN = 1e-4
"""Seconds that a call may take beyond its claim, if that is more than `CLAIM_MARGIN`: the overhead of requests
varies by as much."""
MOST_OUTLYING = 2.0
"""The ratio of the median to the lower quartile up to which only the quartile counts: a busy machine delays many
samples."""


@dataclass
class RequestOverhead:
    """The time of a request without a call, from the entry for which it was least.

    It is the suite's own work and the same for all entries of a table, so that no entry can inflate it.
    """

    seconds: float = 0.0
    """Median seconds of a sample without calls."""
    jitter: float = 0.0
    """Their 90th percentile in seconds: waiting that long is no sign of a false claim."""
    head_start: float = math.inf
    """Seconds of launching a call while the device flushes its cache."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> RequestOverhead:
        """The overhead of the entry with the shortest idle requests; zero without samples."""
        measured = [entry for entry in entries if entry.samples]
        if not measured:
            return cls()
        idles = [[sample.idle for sample in entry.samples] for entry in measured]
        least = min(idles, key=median)
        slowest = quantiles(least, n=10)[-1] if len(least) > 1 else least[0]
        return cls(median(least), slowest, min(entry.prepared.head_start for entry in measured))


def check_samples(entry: Entry, overhead: RequestOverhead, disturbance: Disturbance | None = None) -> None:
    """Compare the samples of an entry with their wall times; refuse it if most took far longer than claimed.

    A sample and its wall time are simultaneous, so they agree on a machine of any speed. If a `disturbance` explains
    the difference, the row is marked as not bounded.
    """
    if entry.failed or entry.cache != "hot" or not entry.samples:
        return
    claims = [_claimed(sample, entry) for sample in entry.samples]
    elapsed_times = [sample.elapsed - overhead.seconds for sample in entry.samples]
    ratios = [elapsed / claim for elapsed, claim in zip(elapsed_times, claims, strict=True)]
    entry.own_clock = median(ratios)
    least = max(quick(ratios), entry.own_clock / MOST_OUTLYING)
    if is_far_off(least, median(claims), overhead):
        threads = entry.participant.threads
        if reason := (disturbance or Disturbance()).explains(least, MAX_CLAIM_RATIO, threads):
            entry.unbounded = f"{reason}: {unbounded(entry.own_clock, 'its samples')}"
            return
        took = f"by the suite's own clock they took {sum(elapsed_times):.3g} s"
        entry.refuse(f"it claims {sum(claims):.3g} s for the calls in its samples, but {took}")
    elif entry.own_clock > MAX_CLAIM_RATIO:  # on a machine so busy that this may be by chance
        entry.unbounded = unbounded(entry.own_clock, "its samples")


def call_seconds(entry: Entry, overhead: RequestOverhead) -> float:
    """Seconds of a call: the claim or the suite's own clock in its samples, whichever is more.

    A claim therefore cannot choose how closely it is examined.
    """
    claim = median(entry.seconds)
    if entry.cache != "hot" or not entry.samples:
        return claim
    elapsed = [sample.elapsed - overhead.seconds - _made(sample, entry) for sample in entry.samples]
    return max(claim, median(elapsed) / entry.calls)


def _claimed(sample: Sample, entry: Entry) -> float:
    """Claimed seconds of all calls of a sample, and of what the suite has made for them."""
    return sample.seconds * entry.calls + _made(sample, entry)


def _made(sample: Sample, entry: Entry) -> float:
    """Seconds of a sample in which the suite prepared its calls: the forward of each backward."""
    return sample.made if entry.direction in ("backward", STEP) else 0.0


def is_far_off(ratio: float, claim: float, overhead: RequestOverhead) -> bool:
    """Whether waiting on a busy machine cannot explain this ratio of elapsed time to claim."""
    return ratio > MAX_CLAIM_RATIO and (ratio - 1) * claim > overhead.jitter


def unbounded_reason(entry: Entry) -> str:
    """Why the suite's own clock cannot bound a claim; empty if it can."""
    if entry.cache != "hot":
        return "the cache is flushed between its calls"
    return "its forward lies between its calls" if entry.direction == "backward" else ""


def margin(entry: Entry, overhead: RequestOverhead) -> float:
    """The share of the claim that a call may take beyond it by the suite's own clock before its row is marked."""
    return max(CLAIM_MARGIN, SHORT_MARGIN / call_seconds(entry, overhead))


def unbounded(ratio: float, what: str = "calls on new inputs", margin: float = CLAIM_MARGIN) -> str:
    """The note of a row whose calls took `ratio` times as long as claimed; empty within the margin."""
    return f"{what} took {ratio:.2f} times as long" if ratio > 1 + margin else ""


def quick(seconds: Sequence[float]) -> float:
    """The lower quartile, which is closer to undisturbed calls than the median, because disturbances only add time.

    Claiming a few shorter times gains nothing: the quartile is never above the median, which is reported.
    """
    return quantiles(seconds, n=4)[0] if len(seconds) > 1 else seconds[0]
