"""Results of an audit of the stopwatch, and the errors that it may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

SLOWDOWNS = (0.03, 0.05, 0.10)
"""The injected slowdowns, as shares of a call's time. The first equals the margin below which no difference is claimed,
so it is reported and not judged."""
JUDGED_SLOWDOWN = 0.05
"""The judged slowdown: the smallest that is clearly beyond that margin."""
FALSE_CLAIMS = 0.02
"""The largest share of comparisons of identical implementations, on one thread, that may claim a difference. By
design it is under 1 % of tables; the rest allows for other work on the machine."""
MIN_FOUND_SHARE = 0.90
"""The smallest share of comparisons, on one thread, that must claim JUDGED_SLOWDOWN."""
DISAGREEMENT = 0.03
"""The largest share by which another stopwatch may differ from ours, in the median over workloads and implementations:
the margin below which no difference is claimed."""
SHARE_LEVEL = 0.95
"""The confidence level of the intervals of shares; that of times is `attnsuite.model.statistics.LEVEL`."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One comparison with the baseline. Speed-up, interval and verdict are those of `model.faster.compare`."""

    table: int
    threads: int
    workload: str
    injected: float
    """The true slowdown, as a share of the time of a call; 0 for an identical implementation."""
    verdict: str
    speedup: float
    low: float
    high: float
    rounds: int

    @property
    def claimed(self) -> bool:
        """Whether the verdict claims a difference; of a slowed-down implementation, that it is slower."""
        return self.verdict == "slower" or (not self.injected and self.verdict == "faster")

    @property
    def slowdown(self) -> float:
        """The measured slowdown, as a share."""
        return 1 / self.speedup - 1


@dataclass(frozen=True, slots=True)
class Agreement:
    """The times of another stopwatch for the same function, measured in turns with ours in random order."""

    tool: str
    device: str
    implementation: str
    workload: str
    seconds: float
    """The median time of one call by our stopwatch."""
    ratio: float
    """The median over pairs of the ratio of our time to theirs."""
    pairs: int

    @property
    def off(self) -> float:
        """The difference of both, as a share."""
        return abs(self.ratio - 1)


@dataclass(frozen=True, slots=True)
class Share:
    """A count out of a total."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share, 0 of nothing."""
        return self.count / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The exact interval of the true share at SHARE_LEVEL, for independent comparisons.

        Source: Clopper and Pearson, Biometrika 26 (1934).
        """
        from scipy.special import betaincinv

        tail, others = (1 - SHARE_LEVEL) / 2, self.total - self.count
        low = float(betaincinv(self.count, others + 1, tail)) if self.count else 0.0
        high = float(betaincinv(self.count + 1, others, 1 - tail)) if others else 1.0
        return low, high


@dataclass(frozen=True)
class StopwatchAudit:
    """The results of an audit. `failed` has the implementations that could not be timed, with reasons."""

    trials: Sequence[Trial]
    agreements: Sequence[Agreement]
    failed: Sequence[str] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    """Other stopwatches that are not installed, with reasons."""
    seconds: float = 0.0

    @property
    def threads(self) -> list[int]:
        """The numbers of threads, in ascending order."""
        return sorted({trial.threads for trial in self.trials})

    @property
    def workloads(self) -> list[str]:
        """The workloads, in the order of measuring."""
        return list(dict.fromkeys(trial.workload for trial in self.trials))

    @property
    def tools(self) -> list[str]:
        """The other stopwatches that ours was compared with."""
        return list(dict.fromkeys(each.tool for each in self.agreements))

    def select(self, injected: float, threads: int, workload: str = "") -> list[Trial]:
        """The comparisons of one kind, on one workload or on all."""
        alike = [trial for trial in self.trials if (trial.injected, trial.threads) == (injected, threads)]
        return [trial for trial in alike if workload in ("", trial.workload)]

    def claimed(self, injected: float, threads: int, workload: str = "") -> Share:
        """The share of these comparisons that claim a difference, wrongly where `injected` is 0."""
        trials = self.select(injected, threads, workload)
        return Share(sum(trial.claimed for trial in trials), len(trials))

    def tables(self, threads: int) -> Share:
        """The share of tables that claim a difference of identical implementations."""
        trials = self.select(0.0, threads)
        return Share(len({trial.table for trial in trials if trial.claimed}), len({trial.table for trial in trials}))

    def disagreement(self, tool: str) -> float:
        """The median difference of another stopwatch from ours, as a share."""
        return median(each.off for each in self.agreements if each.tool == tool)

    @property
    def complaints(self) -> list[str]:
        """Results beyond the limits above. Comparisons on several threads are reported, not judged."""
        claims, detected = self.claimed(0.0, 1), self.claimed(JUDGED_SLOWDOWN, 1)
        complaints = [f"not timed: {failure}" for failure in self.failed]
        if not claims.total or claims.value > FALSE_CLAIMS:
            complaints.append(
                f"false claims: {claims.count} of {claims.total} on one thread, {percent(FALSE_CLAIMS)} are allowed"
            )
        if detected.value < MIN_FOUND_SHARE:
            what = f"slowdowns of {percent(JUDGED_SLOWDOWN)} found"
            complaints.append(
                f"{what}: {detected.count} of {detected.total} on one thread, {percent(MIN_FOUND_SHARE)} are required"
            )
        if not self.agreements:
            complaints.append("no other stopwatch was compared with")
        for tool in self.tools:
            if self.disagreement(tool) > DISAGREEMENT:
                off = self.disagreement(tool)
                complaints.append(f"{tool} is {percent(off, 1)} from our times, {percent(DISAGREEMENT)} are allowed")
        return complaints

    @property
    def passed(self) -> bool:
        """Whether nothing is beyond the limits."""
        return not self.complaints


def percent(share: float, decimals: int = 0) -> str:
    """A share as text: "5 %"."""
    return f"{100 * share:.{decimals}f} %"
