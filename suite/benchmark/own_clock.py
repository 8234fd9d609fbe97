"""Claims held against the clock of this process, which no submission can reach: of samples, and of new numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from attnsuite.benchmark.busy import Disturbance
from attnsuite.benchmark.entry import Entry, Racer, Witnessed
from attnsuite.model import STEP
from attnsuite.model.bounded import LONG, MARGIN, UNBELIEVED

HELD = 2.5e-4
"""Seconds: calls that last so long or longer are held to what they take on new numbers within a share. What is beside a
call and not measured, some 5 µs, is 2 % of this."""
MOST_LIE = 2.0
"""How many times as far off most samples have to be, where a quarter of them is not: a busy machine delays many."""


@dataclass
class Asking:
    """What it takes to ask, without any call, as the entry tells for which it took least.

    It is the suite's own work and the same for all entries of a table, so that nobody can make it look longer.
    """

    seconds: float = 0.0
    """Of a sample without calls, in the median."""
    jitter: float = 0.0
    """Of the slowest tenth of these: a wait up to this says nothing of a claim."""
    head_start: float = math.inf
    """Of launching a call while the device flushes its cache."""

    @classmethod
    def of(cls, entries: Iterable[Entry[Racer]]) -> Asking:
        """From the samples of all entries."""
        measured = [entry for entry in entries if entry.samples]
        if not measured:
            return cls()
        idles = [[sample.idle for sample in entry.samples] for entry in measured]
        least = min(idles, key=median)
        slowest = quantiles(least, n=10)[-1] if len(least) > 1 else least[0]
        return cls(median(least), slowest, min(entry.prepared.head_start for entry in measured))


def hold_samples(entry: Entry[Racer], asking: Asking, disturbance: Disturbance | None = None) -> None:
    """Hold all samples of an entry against what they took; it is refused where most took far longer than claimed.

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
        if why := (disturbance or Disturbance()).explains(least, UNBELIEVED, threads):
            entry.unbounded = f"{why}: {unbounded(entry.own_clock, 'its samples')}"
            return
        took = f"by the suite's own clock they took {sum(walls):.3g} s"
        entry.refuse(f"it claims {sum(claims):.3g} s for the calls in its samples, but {took}")
    elif entry.own_clock > UNBELIEVED:  # on a machine so busy that this may be by chance
        entry.unbounded = unbounded(entry.own_clock, "its samples")


def lasts(entry: Entry[Racer], asking: Asking) -> float:
    """Seconds of a call: as claimed, or as its samples took by the suite's own clock, whichever is more.

    So nobody chooses by a claim how closely it is looked at.
    """
    claim = median(entry.seconds)
    if entry.cache != "hot" or not entry.samples:
        return claim
    beside = [asking.seconds + _made(each, entry) for each in entry.samples]
    walls = [each.wall - other for each, other in zip(entry.samples, beside, strict=True)]
    return max(claim, median(walls) / entry.calls)


def _claimed(sample: Witnessed, entry: Entry[Racer]) -> float:
    """Seconds of all calls of a sample, and of what the suite has made for them where anything is."""
    return sample.seconds * entry.calls + _made(sample, entry)


def _made(sample: Witnessed, entry: Entry[Racer]) -> float:
    """Seconds of a sample in which the suite made what its calls need: the forward of a backward."""
    return sample.made if entry.direction in ("backward", STEP) else 0.0


def far_off(times: float, claim: float, asking: Asking) -> bool:
    """Whether what took so many times as long as the claim was not just asked for on a busy machine."""
    return times > UNBELIEVED and (times - 1) * claim > asking.jitter


def doubt(entry: Entry[Racer]) -> str:
    """Why the suite's own clock cannot bound what is claimed; empty where it can."""
    if entry.cache != "hot":
        return "the cache is flushed between its calls"
    return "its forward lies between its calls" if entry.direction == "backward" else ""


def margin(entry: Entry[Racer], asking: Asking) -> float:
    """How much longer than claimed a call may take by the suite's own clock before its row says so."""
    return MARGIN if lasts(entry, asking) >= LONG else UNBELIEVED - 1


def unbounded(times: float, what: str = "calls on new numbers", margin: float = MARGIN) -> str:
    """What a row says of calls that took so many times as long as claimed; empty where that is within the margin."""
    return f"{what} took {times:.2f} times as long" if times > 1 + margin else ""


def quick(seconds: Sequence[float]) -> float:
    """The lower quartile: what disturbs calls only ever adds to them, so that it tells more of them than the median.

    Nobody gains by claiming some shorter times than others, for it is never above the median, which is quoted.
    """
    return quantiles(seconds, n=4)[0] if len(seconds) > 1 else seconds[0]
