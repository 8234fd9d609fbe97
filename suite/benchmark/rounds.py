"""Rounds in which every implementation takes its turn in random order, so that what disturbs one disturbs all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
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
LONG, MOST = 0.05, 20
"""The process's clock is held against the suite's own over so many seconds of calls, or so many samples' worth."""
MARGIN = 0.02
"""Seconds that a sample may take beyond its calls: waking the process, turning its inputs."""
FLUSH = {"cpu": 0.1, "cuda": 0.001}
"""Seconds that the untimed flush before a cold call may take."""

Request = Callable[[str, Mapping[str, Any]], dict[str, Any]]


class Timed(Protocol):
    """Something that answers `prepare`, `sample`, `rows` and `release`."""

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
    warmed: float = 0.0
    """Seconds of the calls that warmed the cache for a sample."""
    round: int = 0
    rows: Mapping[str, Any] = field(default_factory=dict)
    """Rows of the output of that round."""
    failed: Mapping[str, Any] = field(default_factory=dict)
    stopped: str = ""
    _disbelieved: str = ""

    @property
    def spent(self) -> float:
        return sum(self.seconds) * int(self.prepared["calls"])

    def sample(self, number: int) -> None:
        """Take one sample."""
        started = perf_counter()
        answer = self.member.request("sample", {**self.prepared, "number": number})
        self.walls.append(perf_counter() - started)
        if "status" in answer:
            self.failed = answer
        else:
            self.seconds.append(float(answer["seconds"]))
            self.warmed += float(answer["warmed"])

    def keep_rows(self, number: int, rows: Mapping[str, Sequence[int]]) -> None:
        """Take rows of what the sample of this round returned, in place of those of an earlier one."""
        answer = self.member.request("rows", {"rows": {name: list(places) for name, places in rows.items()}})
        if "status" in answer:
            self.failed = {**answer, "status": "refused", "detail": f"round {number}: {answer['detail']}"}
        else:
            self.round, self.rows = number, answer["rows"]

    def confirm(self) -> None:
        """Hold the times that the process claims against the suite's own clock: one of several samples must agree.

        A claim is held against the wall time of the very same sample, because machines are fast and slow by turns.
        """
        calls, said = int(self.prepared["calls"]), interval(self.seconds).median
        if said * calls >= LONG or self._flushes:
            doubts = [self._doubt(calls, *pair) for pair in zip(self.seconds, self.walls, strict=True)]
            self._disbelieved = doubts[-1] if all(doubts) else ""
            return
        calls = min(MOST * calls, math.ceil(LONG / said))
        for _ in range(3):
            started = perf_counter()
            answer = self.member.request("sample", {**self.prepared, "calls": calls, "number": 0})
            if "status" in answer:
                self.failed = answer
                return
            self._disbelieved = self._doubt(calls, float(answer["seconds"]), perf_counter() - started)
            if not self._disbelieved:
                return

    def disbelieved(self) -> str:
        """What is wrong with the times that the process claims, held against the suite's own clock; or empty."""
        return self._disbelieved

    @property
    def _flushes(self) -> bool:
        """Whether most of a sample is no call: a CPU's cache takes long to flush."""
        return self.prepared["cache"] == "cold" and not self.member.device.startswith("cuda")

    def _doubt(self, calls: int, said: float, wall: float) -> str:
        """What is wrong with a claim, or empty.

        A sample is its calls, one that warms the cache, and what is not timed: the forward before each backward, of up
        to four times its length, flushes, and the turning of the inputs.
        """
        times = 6 if self.prepared["direction"] == "backward" else 2
        flushes = calls * FLUSH[self.member.device.partition(":")[0]] if self.prepared["cache"] == "cold" else 0.0
        if wall <= times * said * (calls + 2) + flushes + MARGIN:
            return ""
        return f"it claims {said:.3g} s for a call, but {calls} calls took {wall:.3g} s in all"


def run(
    courses: Sequence[Course],
    baseline: str,
    rows: Mapping[str, Sequence[int]],
    budget: float,
    random: Random,
) -> int:
    """Sample all courses round by round until their comparisons are narrow or their budgets spent; how many rounds.

    `budget` is seconds of timed calls for each. The rows that are kept are of one round, of all with equal chance.
    """
    racing = list(courses)
    fewest = max(FEWEST, rounds_needed(len(racing) - 1))
    number = 0  # the inputs of round 0 are those of the warm-up, which could be remembered
    while racing:
        number += 1
        keep = random.random() * number < 1  # reservoir sampling: each round so far is kept with equal chance
        for course in random.sample(racing, len(racing)):
            course.sample(number)
            if keep and not course.failed:
                course.keep_rows(number, rows)
        racing = [course for course in racing if not course.failed]
        narrow = number >= fewest and number % LOOK == 0 and _narrow(racing, baseline)
        for course in racing:
            enough = number >= fewest or (number >= TOO_FEW and course.spent > PATIENCE)
            if narrow:
                course.stopped = "narrow"
            elif enough and course.spent > budget:
                course.stopped = "budget"
        if number >= fewest and any(course.stopped and course.member.name == baseline for course in courses):
            for course in racing:  # nothing is left to pair with
                course.stopped = course.stopped or "budget"
        racing = [course for course in racing if not course.stopped]
    for course in courses:
        if not course.failed:
            course.confirm()
    return number


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
