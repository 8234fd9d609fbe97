"""What an audit of the stopwatch found, and how much error is allowed in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

SLOWDOWNS = (0.03, 0.05, 0.10)
"""The slowdowns that are injected, as shares of a call's time. The first lies on the margin below which no difference
is claimed, so it is reported and not judged."""
JUDGED_SLOWDOWN = 0.05
"""The slowdown that is judged: the smallest that is clearly beyond that margin."""
FALSE_CLAIMS = 0.02
"""The largest share of comparisons of identical implementations, on one thread, that may claim a difference. By
design under 1 % of tables have such a claim; the rest allows for a machine that other work disturbs."""
MIN_FOUND_SHARE = 0.90
"""The smallest share of comparisons, on one thread, in which the slowdown MUST_BE_FOUND has to be found."""
DISAGREEMENT = 0.03
"""The largest share by which another stopwatch may differ from ours, in the median over workloads and implementations:
the margin below which no difference is claimed."""
SHARE_LEVEL = 0.95
"""Confidence level of the intervals of shares. That of times and verdicts is `attnsuite.model.statistics.LEVEL`."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One comparison with the baseline. Speed-up, interval and verdict are those of `model.faster.compare`."""

    table: int
    threads: int
    workload: str
    injected: float
    """How much slower it really is, as a share of the time of a call; 0 for an identical implementation."""
    verdict: str
    speedup: float
    low: float
    high: float
    rounds: int

    @property
    def claimed(self) -> bool:
        """Whether the verdict claims a difference; of an implementation that is slowed down, only that it is slower."""
        return self.verdict == "slower" or (not self.injected and self.verdict == "faster")

    @property
    def slowdown(self) -> float:
        """The share by which it was measured to be slower."""
        return 1 / self.speedup - 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """The times of another stopwatch for the same callable, taken in turns with ours in random order."""

    tool: str
    device: str
    implementation: str
    workload: str
    seconds: float
    """The median time of one call by our stopwatch."""
    ratio: float
    """The median over the pairs of our time and theirs."""
    pairs: int

    @property
    def off(self) -> float:
        """How far apart both are, as a share."""
        return abs(self.ratio - 1)


@dataclass(frozen=True, slots=True)
class Share:
    """A count out of a total."""

    count: int
    total: int

    @property
    def value(self) -> float:
        return self.count / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the true share at SHARE_LEVEL, if all comparisons are independent.

        Source: Clopper and Pearson, Biometrika 26 (1934).
        """
        from scipy.special import betaincinv

        tail, others = (1 - SHARE_LEVEL) / 2, self.total - self.count
        low = float(betaincinv(self.count, others + 1, tail)) if self.count else 0.0
        high = float(betaincinv(self.count + 1, others, 1 - tail)) if others else 1.0
        return low, high


@dataclass(frozen=True)
class StopwatchAudit:
    """What the audit found. `failed` are the implementations that could not be timed, and why: each is a complaint."""

    trials: Sequence[Trial]
    agreements: Sequence[Agreement]
    failed: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    """Other stopwatches that are not installed, with the reason."""
    seconds: float = 0.0

    @property
    def threads(self) -> list[int]:
        """The numbers of threads, one first."""
        return sorted({trial.threads for trial in self.trials})

    @property
    def workloads(self) -> list[str]:
        """In the order of measuring."""
        return list(dict.fromkeys(trial.workload for trial in self.trials))

    @property
    def tools(self) -> list[str]:
        """The other stopwatches that ours was compared with."""
        return list(dict.fromkeys(of.tool for of in self.agreements))

    def of(self, injected: float, threads: int, workload: str = "") -> list[Trial]:
        """The comparisons of one kind, on one workload or on all."""
        alike = [trial for trial in self.trials if (trial.injected, trial.threads) == (injected, threads)]
        return [trial for trial in alike if workload in ("", trial.workload)]

    def claimed(self, injected: float, threads: int, workload: str = "") -> Share:
        """In how many of these comparisons the verdict claims a difference: wrongly where `injected` is 0."""
        trials = self.of(injected, threads, workload)
        return Share(sum(trial.claimed for trial in trials), len(trials))

    def tables(self, threads: int) -> Share:
        """How many tables have a claim about any of their identical implementations."""
        trials = self.of(0.0, threads)
        return Share(len({trial.table for trial in trials if trial.claimed}), len({trial.table for trial in trials}))

    def disagreement(self, tool: str) -> float:
        """How far another stopwatch is from ours, in the median."""
        return median(of.off for of in self.agreements if of.tool == tool)

    @property
    def complaints(self) -> list[str]:
        """What is worse than the constants above allow. Comparisons on several threads are reported, not judged."""
        claims, found = self.claimed(0.0, 1), self.claimed(JUDGED_SLOWDOWN, 1)
        said = [f"not timed: {failure}" for failure in self.failed]
        if not claims.total or claims.value > FALSE_CLAIMS:
            said.append(
                f"false claims: {claims.count} of {claims.total} on one thread, {percent(FALSE_CLAIMS)} are allowed"
            )
        if found.value < MIN_FOUND_SHARE:
            what = f"slowdowns of {percent(JUDGED_SLOWDOWN)} found"
            said.append(f"{what}: {found.count} of {found.total} on one thread, {percent(MIN_FOUND_SHARE)} are due")
        if not self.agreements:
            said.append("no other stopwatch was compared with")
        for tool in self.tools:
            if self.disagreement(tool) > DISAGREEMENT:
                off = self.disagreement(tool)
                said.append(f"{tool} is {percent(off, 1)} from our times, {percent(DISAGREEMENT)} are allowed")
        return said

    @property
    def passed(self) -> bool:
        return not self.complaints


def percent(share: float, decimals: int = 0) -> str:
    """A share as it is said: "5 %"."""
    return f"{100 * share:.{decimals}f} %"
