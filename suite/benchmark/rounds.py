"""Rounds in which every implementation takes its turn in random order, so that what disturbs one disturbs all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from time import perf_counter
from typing import Any, Protocol

from suite.measure import LOOK, NARROW
from suite.statistics import compare, interval, rounds_needed

FEWEST = 12
"""Rounds at least, more where the number of comparisons needs them."""
TOO_FEW = 3
"""Rounds that a slow implementation gets at least."""
PATIENCE = 45.0
"""Seconds of timed calls after which an implementation need not have the rounds that a verdict needs."""
PROOF, MOST_PROVED = 0.02, 256
"""A process proves its times by so many seconds of calls on numbers that it has not seen, but by no more calls."""
ATTEMPTS = 5
"""It may try so often: machines are fast and slow by turns."""
UNSEEN = range(2_000_003, 2**31)
"""By numbers drawn from these inputs are turned, so that nobody foresees them."""
LONG, MOST_REPEATED = 0.1, 20_000
"""A call of so many seconds is proved by its own sample; shorter ones are repeated for that long, at most so often."""
TASTE = 16
"""Before so many repetitions comes one: calls that take a hundred times what is claimed are not made for minutes."""
MARGIN, EACH = 0.03, 5e-6
"""Seconds that a proof may take beyond its calls: waking the process, scheduling; and copying what each returned."""
ALIKE = 2
"""Whoever is up to so many times as fast or slow as the baseline makes as many calls in a sample."""
STALLED, STALL = 20, 10.0
"""Samples may take so many times the calls in them, and so many seconds more, all together."""

Request = Callable[[str, Mapping[str, Any]], dict[str, Any]]


class Timed(Protocol):
    """Something that answers `prepare`, `sample`, `rows`, `load`, `prove` and `release`."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    def request(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]: ...


@dataclass
class Course:
    """One implementation's way through the rounds. `failed` holds status and detail where it dropped out."""

    member: Timed
    prepared: Mapping[str, Any]
    seconds: list[float] = field(default_factory=list)
    walls: list[float] = field(default_factory=list)
    """What a sample took by the suite's own clock, all of it."""
    awake: float = 0.0
    """Seconds of all requests by the suite's own clock."""
    warmed: float = 0.0
    """Seconds of the calls that warmed the cache for a sample."""
    made: float = 0.0
    """Seconds of what has to be made for the calls in samples: the forward before each backward."""
    kept: tuple[int, Mapping[str, Any]] | None = None
    """The number by which a round's inputs were turned, and rows of what it returned then."""
    failed: Mapping[str, Any] = field(default_factory=dict)
    greedy: bool = False
    """Whether it used more cores than it was given, from which the others' times have suffered."""
    stopped: str = ""
    proved: bool = False
    """Whether calls on numbers that it had not seen took no longer than it claims."""
    proof: tuple[int, Mapping[str, Any]] | None = None
    """One of those numbers, and rows of what it returned for it; none where samples are proof enough."""
    _attempts: int = 0

    @property
    def spent(self) -> float:
        return sum(self.seconds) * int(self.prepared["calls"])

    def sample(self, number: int) -> None:
        """Take one sample, on inputs turned by this number."""
        if (seconds := self._sampled(number)) is None:
            return
        self.seconds.append(seconds)
        taken = sum(self.walls)
        if self.prepared["cache"] == "hot" and taken > STALLED * self.spent + STALL:
            detail = f"its samples took {taken:.3g} s, the calls in them, as it claims, {self.spent:.3g} s"
            self.failed = {"status": "refused", "detail": detail}

    def keep(self, number: int, rows: Mapping[str, Sequence[int]]) -> None:
        """Take rows of what the sample of this round returned, in place of those of an earlier one."""
        answer = self._ask("rows", {"rows": rows})
        if "status" in answer:
            self.failed = {**answer, "status": "refused"}
        else:
            self.kept = number, answer["rows"]

    def prove(self, unseen: Sequence[int], rows: Mapping[str, Sequence[int]], random: Random) -> None:
        """Have it answer for numbers that it has not seen, in no more than twice the time that it claims for calls.

        This comes after its samples: whoever lies only once he is believed has nothing left to lie about. The claim is
        their median; when it tries again, what a sample takes by then, if that is more. Samples of one long call, on
        inputs that nobody foresaw, are such answers themselves, for all of each was timed here.
        """
        self._attempts += 1
        said = median(self.seconds)
        alone = self.prepared["calls"] == 1 and self.prepared["cache"] == "hot"
        if said >= LONG and alone and self.prepared["direction"] != "backward":
            self._attempts = ATTEMPTS
            self._believe(said, 1, median(self.walls))
        elif self._attempts == 1:
            self._prove_by_others(said, unseen, rows, random)
        elif (now := self._sampled(random.choice(UNSEEN))) is not None:
            self._prove_by_others(max(said, now), unseen, rows, random)

    def _sampled(self, number: int) -> float | None:
        """Seconds of a call in a sample; none where it failed."""
        before = self.awake
        answer = self._ask("sample", {**self.prepared, "number": number})
        self.walls.append(self.awake - before)
        if "status" in answer:
            self.failed = answer
            return None
        self.warmed += float(answer["warmed"])
        self.made += float(answer["made"])
        return float(answer["seconds"])

    def _prove_by_others(
        self, said: float, unseen: Sequence[int], rows: Mapping[str, Sequence[int]], random: Random
    ) -> None:
        """Time calls for that very purpose, each on inputs of its own.

        All inputs are made before, then each is given to one call whose answer is copied, and that is timed here: what
        was only remembered, put off, or claimed has no place to hide. What a request takes by itself would hide short
        calls: those are given the same inputs over and over.
        """
        most = max(1, min(MOST_PROVED, math.ceil(PROOF / said)))
        if "status" in (answer := self._ask("load", {**self.prepared, "numbers": unseen[:most]})):
            self.failed = answer
            return
        count = answer["loaded"]
        if count > most:
            self.failed = {"status": "refused", "detail": "answered garbage: it loads what was not asked"}
            return
        calls = min(MOST_REPEATED, math.ceil(LONG / said))
        for passes in sorted({1, calls // count // TASTE, calls // count} - {0}):
            before = self.awake
            if "status" in (answer := self._ask("prove", {**self.prepared, "passes": passes})):
                self.failed = answer
                return
            self._believe(said, passes * count, self.awake - before)
            if passes == 1 and not self.failed:
                self._keep_proof(unseen[:count], rows, random)
            if not self.proved or self.failed:
                break

    def _believe(self, said: float, calls: int, taken: float) -> None:
        """Hold what it claims for a call against what so many took. Before a backward comes its forward, of up to four
        times its length.
        """
        times = 6 if self.prepared["direction"] == "backward" else 2
        self.proved = taken <= (times * said + EACH) * calls + MARGIN
        if not self.proved and self._attempts == ATTEMPTS:
            detail = f"it claims {said:.3g} s for a call, but {calls} calls on new numbers took {taken:.3g} s"
            self.failed = {"status": "refused", "detail": detail}

    def _keep_proof(self, numbers: Sequence[int], rows: Mapping[str, Sequence[int]], random: Random) -> None:
        """Take rows of what it returned for one of these numbers."""
        if "status" in (answer := self._ask("proof", {**self.prepared, "rows": rows})):
            self.failed = answer
            return
        sizes = {name: tuple(found.shape[:1]) for name, found in answer["found"].items()}
        if sizes != dict.fromkeys(rows, (len(numbers),)):
            self.failed = {"status": "refused", "detail": "answered garbage: it proves something else"}
            return
        place = random.randrange(len(numbers))
        self.proof = numbers[place], {name: found[place] for name, found in answer["found"].items()}

    def _ask(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        if rows := arguments.get("rows"):
            arguments = {**arguments, "rows": {name: list(places) for name, places in rows.items()}}
        started = perf_counter()
        answer = self.member.request(verb, arguments)
        self.awake += perf_counter() - started
        return answer


def run(
    courses: Sequence[Course],
    baseline: str,
    rows: Mapping[str, Sequence[int]],
    budget: float,
    random: Random,
) -> int:
    """Sample all courses round by round until their comparisons are narrow or their budgets spent; how many rounds.

    `budget` is seconds of timed calls for each. The rows that are kept are of one round, of all with equal chance. In
    the end each proves what it claimed.
    """
    _fall_in_step(courses, baseline)
    racing = list(courses)
    fewest = max(FEWEST, rounds_needed(len(racing) - 1))
    taken = number = 0
    while racing:
        taken, number = taken + 1, random.choice(UNSEEN)
        keep = random.random() * taken < 1  # reservoir sampling: each round so far is kept with equal chance
        for course in random.sample(racing, len(racing)):
            course.sample(number)
            if keep and not course.failed:
                course.keep(number, rows)
        racing = [course for course in racing if not course.failed]
        narrow = taken >= fewest and taken % LOOK == 0 and _narrow(racing, baseline)
        for course in racing:
            enough = taken >= fewest or (taken >= TOO_FEW and course.spent > PATIENCE)
            if narrow:
                course.stopped = "narrow"
            elif enough and course.spent > budget:
                course.stopped = "budget"
        if taken >= fewest and any(course.stopped and course.member.name == baseline for course in courses):
            for course in racing:  # nothing is left to pair with
                course.stopped = course.stopped or "budget"
        racing = [course for course in racing if not course.stopped]
    unseen = random.sample(UNSEEN, MOST_PROVED)
    for _ in range(ATTEMPTS):
        for course in courses:
            if not course.proved and not course.failed:
                course.prove(unseen, rows, random)
    return taken


def _fall_in_step(courses: Sequence[Course], baseline: str) -> None:
    """Have all that are about as fast as the baseline make as many calls in a sample.

    The first call of a sample takes longest. Identical implementations that make three and four of them differ by it.
    """
    for base in (int(course.prepared["calls"]) for course in courses if course.member.name == baseline):
        for course in courses:
            calls = int(course.prepared["calls"])
            if max(base, calls) <= ALIKE * min(base, calls):
                course.prepared = {**course.prepared, "calls": base}


def _narrow(racing: Sequence[Course], baseline: str) -> bool:
    """Whether every interval is narrow: of the ratio to the baseline, or of the time where there is none."""
    samples = {course.member.name: course.seconds for course in racing}
    base = samples.pop(baseline, None)
    if base is None:
        return all(of.high - of.low < 2 * NARROW * of.median for of in map(interval, samples.values()))
    if not samples:
        of = interval(base)
        return of.high - of.low < 2 * NARROW * of.median
    found = compare(base, samples).values()
    return all(of.low > 0 and of.high / of.low < (1 + NARROW) ** 2 for of in found)
