"""Results of audits: of the mutants of a contract, of submissions that try to fool the suite, and of the timer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from attnsuite.model.rows import Outcome

COMBINED = "combined"
"""The family of cases that combine features."""
EXEMPT = frozenset({"documents", COMBINED})
"""Families that need not kill a mutant alone, and do not count when another family has to. The documents' examples are
tested for their own sake; cases that combine features have mutants of their own."""

TRIPLES_KILLED = 0.95
"""The smallest share of mutants of fused triples that must be killed; of mutants of pairs all must be."""


@dataclass(frozen=True)
class LevelCoverage:
    """The pairs of levels, or the triples of fused levels, in the rows of a covering array."""

    possible: int
    met: int
    """Those that are in a row."""
    mutants: int
    """The mutants: each has a small mistake where one of these pairs or triples meets, and nowhere else."""
    survived: tuple[str, ...] = ()
    """The mutants that no row kills, in words."""

    @property
    def killed(self) -> int:
        """The number of killed mutants."""
        return self.mutants - len(self.survived)

    def complete(self, share: float) -> bool:
        """Whether all of them meet, and at least this share of the mutants is killed."""
        return self.met == self.possible and self.killed >= share * self.mutants


@dataclass(frozen=True)
class Combinations:
    """What the covering array of a contract covers and kills."""

    quick: int
    """Rows of the profile `quick`."""
    full: int
    """Rows of the profile `full`."""
    pairs: LevelCoverage
    triples: LevelCoverage

    @property
    def survived(self) -> list[str]:
        """The surviving mutants of pairs, and those of triples where too many survive."""
        pairs, triples = self.pairs.complete(1.0), self.triples.complete(TRIPLES_KILLED)
        return [*(() if pairs else self.pairs.survived), *(() if triples else self.triples.survived)]


@dataclass(frozen=True)
class SeedAudit:
    """Correct implementations with the numbers, or the covering arrays, of further seeds."""

    seeds: int
    """The number of seeds."""
    results: int
    """The number of judged results, of all implementations and seeds."""
    largest: float
    """The largest error of a passed test, divided by its tolerance."""
    accusations: Sequence[tuple[int, Outcome]] = ()
    """The seed of each failed test, and its outcome; there must be none."""


@dataclass(frozen=True)
class Audit:
    """The results of an audit. `kills` maps each mutant to the cases that kill it, by family."""

    kills: Mapping[str, Mapping[str, frozenset[str]]]
    mistakes: Mapping[str, str]
    """The mistake of each mutant, in words."""
    sources: Mapping[str, str]
    """The source of each mistake, or empty."""
    families: Mapping[str, int]
    """The number of cases in each family."""
    variants: Mapping[str, str]
    """The style of each correct variant that was tested"""
    accusations: Sequence[Outcome]
    controls: Sequence[str]
    """Complaints about the correct computations that mutants change; there must be none."""
    contract: str = "attention"
    exempt: frozenset[str] = EXEMPT
    """Families that need not kill a mutant alone: EXEMPT, and the core of most contracts."""
    combinations: Combinations | None = None
    """None where the contract has no cases that combine features."""
    redrawn: SeedAudit | None = None
    """The correct implementations with numbers of other seeds."""
    rearranged: SeedAudit | None = None
    """The correct implementations on other covering arrays."""

    @property
    def survived(self) -> list[str]:
        """Mutants that no case kills."""
        return [name for name, families in self.kills.items() if not families]

    @property
    def unnecessary(self) -> list[str]:
        """Families without a mutant that only they kill."""
        return [family for family in self.families if family not in self.exempt and not self.killed_only_by(family)]

    def killed_only_by(self, family: str) -> list[str]:
        """Mutants that no other family kills, if EXEMPT families are not counted."""
        return [name for name, families in self.kills.items() if set(families) - EXEMPT == {family}]

    @property
    def distinct(self) -> int:
        """The number of different sets of failing cases."""
        return len({frozenset().union(*families.values()) for families in self.kills.values() if families})

    @property
    def passed(self) -> bool:
        """Whether every mutant is killed, every family is needed, and no correct implementation is accused."""
        combined = self.combinations.survived if self.combinations else ()
        by_chance = [
            accusation for drawn in (self.redrawn, self.rearranged) if drawn for accusation in drawn.accusations
        ]
        return not (self.survived or self.unnecessary or self.accusations or self.controls or combined or by_chance)


@dataclass(frozen=True)
class Exploit:
    """A submission that tries to fool the suite, and the verdicts that it must get: keys of `EXPECTED_VERDICTS`."""

    name: str
    kind: str
    """What it attacks: the clock, caches, …; `control` for submissions that do not cheat, correct or plainly wrong."""
    says: str
    """What it does, in words."""
    check: str
    bench: str


EXPECTED_VERDICTS = {
    "passes": "every test passes",
    "caught": "it is refused or fails, or the row says that its time is not bounded",
    "either": "its tests pass or fail: the other command detects it",
    "measured": "it is timed",
    "harmless": "it is timed and its time is true: the suite's own clock bounds it, or the row says that it could not",
    "no gain": "it is refused, or timed and harmless",
    "shown": "it is timed, and the row names the operator that ran",
    "walled": "the sandbox keeps it from writing files; without a sandbox the report says what it did",
}
"""The meaning of each verdict, in words."""


@dataclass(frozen=True)
class ExploitTrial:
    """The verdict on one exploit under one command."""

    cheat: Exploit
    command: str
    """`check` or `bench`."""
    happened: str
    """What happened, in words, with the suite's own complaint."""
    as_expected: bool

    @property
    def must(self) -> str:
        """The key of the expected verdict."""
        return self.cheat.check if self.command == "check" else self.cheat.bench


@dataclass(frozen=True)
class ExploitAudit:
    """All trials of an audit."""

    trials: Sequence[ExploitTrial]
    seconds: float = 0.0

    @property
    def unexpected(self) -> list[ExploitTrial]:
        """The trials with another verdict than the expected one."""
        return [trial for trial in self.trials if not trial.as_expected]

    @property
    def passed(self) -> bool:
        """Whether there are trials, all with the expected verdict."""
        return bool(self.trials) and not self.unexpected


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
    def tools(self) -> list[str]:
        """The other stopwatches that ours was compared with."""
        return list(dict.fromkeys(agreement.tool for agreement in self.agreements))

    def _select(self, injected: float, threads: int) -> list[Trial]:
        return [trial for trial in self.trials if (trial.injected, trial.threads) == (injected, threads)]

    def claimed(self, injected: float, threads: int) -> Share:
        """The share of these comparisons that claim a difference, wrongly where `injected` is 0."""
        trials = self._select(injected, threads)
        return Share(sum(trial.claimed for trial in trials), len(trials))

    def tables(self, threads: int) -> Share:
        """The share of tables that claim a difference of identical implementations."""
        trials = self._select(0.0, threads)
        return Share(len({trial.table for trial in trials if trial.claimed}), len({trial.table for trial in trials}))

    def disagreement(self, tool: str) -> float:
        """The median difference of another stopwatch from ours, as a share."""
        return median(agreement.off for agreement in self.agreements if agreement.tool == tool)

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
