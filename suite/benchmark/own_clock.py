"""Claims compared with the clock of this process, which no submission can reach: of samples, and of new numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from attnsuite.benchmark.busy import Disturbance
from attnsuite.benchmark.entry import Entry, Sample
from attnsuite.model import STEP
from attnsuite.model.limits import MARGIN, MAX_CLAIM_RATIO

HELD = 2.5e-4
"""Seconds: calls this long or longer are bounded by their time on new numbers within a share. What is not measured
of a call, some 5 µs, is 2 % of this."""
SHORT_MARGIN = 1e-4
"""Seconds by which a call may take longer than claimed, where that is more than `MARGIN`: asking varies by as much."""
MOST_LIE = 2.0
"""How many times as far off most samples have to be, where a quarter of them is not: a busy machine delays many."""


@dataclass
class Asking:
    """The time of asking without any call, from the entry for which it was least.

    It is the suite's own work and the same for all entries of a table, so that none can make it look longer.
    """

    seconds: float = 0.0
    """Of a sample without calls, in the median."""
    jitter: float = 0.0
    """Of the slowest tenth of these: a wait up to this is no sign of a false claim."""
    head_start: float = math.inf
    """Of launching a call while the device flushes its cache."""

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Asking:
        """From the samples of all entries."""
        measured = [entry for entry in entries if entry.samples]
        if not measured:
            return cls()
        idles = [[sample.idle for sample in entry.samples] for entry in measured]
        least = min(idles, key=median)
        slowest = quantiles(least, n=10)[-1] if len(least) > 1 else least[0]
        return cls(median(least), slowest, min(entry.prepared.head_start for entry in measured))


def hold_samples(entry: Entry, asking: Asking, disturbance: Disturbance | None = None) -> None:
    """Compare all samples of an entry with their wall times; it is refused where most took far longer than claimed.

    A sample and its wall time are of the same moment: however fast a machine is then, they agree. Where a `disturbance`
    explains the difference, the row says that its time is not bounded.
    """
    if entry.failed or entry.cache != "hot" or not entry.samples:
        return
    claims = [_claimed(each, entry) for each in entry.samples]
    walls = [each.wall - asking.seconds for each in entry.samples]
    times = [wall / claim for wall, claim in zip(walls, claims, strict=True)]
    entry.own_clock = median(times)
    least = max(quick(times), entry.own_clock / MOST_LIE)
    if far_off(least, median(claims), asking):
        threads = entry.participant.threads
        if why := (disturbance or Disturbance()).explains(least, MAX_CLAIM_RATIO, threads):
            entry.unbounded = f"{why}: {unbounded(entry.own_clock, 'its samples')}"
            return
        took = f"by the suite's own clock they took {sum(walls):.3g} s"
        entry.refuse(f"it claims {sum(claims):.3g} s for the calls in its samples, but {took}")
    elif entry.own_clock > MAX_CLAIM_RATIO:  # on a machine so busy that this may be by chance
        entry.unbounded = unbounded(entry.own_clock, "its samples")


def lasts(entry: Entry, asking: Asking) -> float:
    """Seconds of a call: as claimed, or by the suite's own clock in its samples, whichever is more.

    So a claim does not choose how closely it is examined.
    """
    claim = median(entry.seconds)
    if entry.cache != "hot" or not entry.samples:
        return claim
    beside = [asking.seconds + _made(each, entry) for each in entry.samples]
    walls = [each.wall - other for each, other in zip(entry.samples, beside, strict=True)]
    return max(claim, median(walls) / entry.calls)


def _claimed(sample: Sample, entry: Entry) -> float:
    """Seconds of all calls of a sample, and of what the suite has made for them where anything is."""
    return sample.seconds * entry.calls + _made(sample, entry)


def _made(sample: Sample, entry: Entry) -> float:
    """Seconds of a sample in which the suite made what its calls need: the forward of a backward."""
    return sample.made if entry.direction in ("backward", STEP) else 0.0


def far_off(times: float, claim: float, asking: Asking) -> bool:
    """Whether taking so many times as long as claimed is more than the waiting of a busy machine."""
    return times > MAX_CLAIM_RATIO and (times - 1) * claim > asking.jitter


def doubt(entry: Entry) -> str:
    """Why the suite's own clock cannot bound a claim; empty where it can."""
    if entry.cache != "hot":
        return "the cache is flushed between its calls"
    return "its forward lies between its calls" if entry.direction == "backward" else ""


def margin(entry: Entry, asking: Asking) -> float:
    """How much longer than claimed, as a share, a call may take by the suite's own clock before its row says so."""
    return max(MARGIN, SHORT_MARGIN / lasts(entry, asking))


def unbounded(times: float, what: str = "calls on new numbers", margin: float = MARGIN) -> str:
    """The words of a row whose calls took so many times as long as claimed; empty within the margin."""
    return f"{what} took {times:.2f} times as long" if times > 1 + margin else ""


def quick(seconds: Sequence[float]) -> float:
    """The lower quartile: disturbances only ever add to calls, so that it tells more of them than the median.

    Claiming some shorter times than others gains nothing, for it is never above the median, which is quoted.
    """
    return quantiles(seconds, n=4)[0] if len(seconds) > 1 else seconds[0]
