"""Proof of the times that a process claims: calls on inputs it has not seen, timed by the suite's own clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import median

from suite.benchmark.entry import Entry, Excerpt, Racer
from suite.measure.protocol import Rows, garbage

ROUND_NUMBERS = range(2_000_003, 2**31)
"""The numbers of rounds, from which inputs follow. They are drawn at random, so that nobody can foresee them, and begin
above those that a task uses for itself."""
NEW_INPUTS = 0.02
"""Seconds of calls that a proof makes at least on inputs that are all different, if `MOST_INPUTS` are enough for
that."""
MOST_INPUTS = 256
"""Different inputs in a proof at most: making them takes longer than a short call."""
REPEATED = 0.1
"""Seconds for which the calls of a proof are repeated, so that waking the process is a small part of the whole. A
sample of one call that takes as long is proof enough by itself."""
MOST_PROOF_CALLS = 20_000
"""Calls in a proof at most, where the claim is so short that more would be due."""
TRIAL = 16
"""Before the whole proof comes one of this fraction, so that a process whose calls take a hundred times what it claims
is found out within a second rather than minutes."""
OVERHEAD = 0.03
"""Seconds that a proof may take beyond its calls: for waking the process, and for scheduling."""
OVERHEAD_OF_CALL = 5e-6
"""Seconds by which each call of a proof may be longer: for copying what it returned."""
TOLERANCE = 2
"""How many times as long as claimed calls may take in a proof: the inputs are not in the cache."""
TOLERANCE_OF_BACKWARD = 6
"""The same for a backward, before which comes its forward, of up to four times the backward's length."""
MOST_ATTEMPTS = 5
"""How often a proof may be tried: machines are fast and slow by turns."""


class Proof:
    """The proof of one entry's times, which it may try several times. After that its entry is `proved` or `failed`."""

    def __init__(self, entry: Entry[Racer]) -> None:
        self.entry = entry
        self._attempts = 0

    def attempt(self, numbers: Sequence[int], rows: Rows, random: Random) -> None:
        """Try once, on inputs of rounds with these numbers; without effect where the entry is proved or has failed.

        It comes after all samples: a process that lies only once it is believed has nothing left to lie about. The
        claim is the median of its samples; when it tries again, the time of another sample, if that is longer. Long
        calls, each a sample by itself, are proved by their samples, whose inputs nobody could foresee.
        """
        entry = self.entry
        if entry.proved or entry.failed:
            return
        self._attempts += 1
        claim = median(entry.seconds)
        if claim >= REPEATED and entry.calls == 1 and entry.cache == "hot" and entry.direction != "backward":
            self._attempts = MOST_ATTEMPTS
            self._believe(claim, 1, median(entry.walls))
        elif self._attempts == 1:
            self._time_calls(claim, numbers, rows, random)
        elif (now := entry.time_sample(random.choice(ROUND_NUMBERS))) is not None:
            self._time_calls(max(claim, now), numbers, rows, random)

    def _time_calls(self, claim: float, numbers: Sequence[int], rows: Rows, random: Random) -> None:
        """Time calls on inputs that were all made before; each result is copied at once.

        So nothing can be remembered, put off, or claimed without having been done. Short calls are repeated on the same
        inputs, for one pass would be lost in the time that a question takes.
        """
        if not (count := self._load(claim, numbers)):
            return
        calls = min(MOST_PROOF_CALLS, math.ceil(REPEATED / claim))
        for passes in sorted({1, calls // count // TRIAL, calls // count} - {0}):
            self._run(claim, passes, count)
            if passes == 1 and not self.entry.failed:
                self._keep(numbers[:count], rows, random)
            if not self.entry.proved or self.entry.failed:
                break

    def _load(self, claim: float, numbers: Sequence[int]) -> int:
        """Have inputs made; how many, or 0 where that failed."""
        most = max(1, min(MOST_INPUTS, math.ceil(NEW_INPUTS / claim)))
        answer = self.entry.ask(lambda: self.entry.participant.load_proof(numbers[:most]))
        if answer and answer.loaded > most:
            self.entry.failed = garbage("it loads what was not asked")
        return answer.loaded if answer and not self.entry.failed else 0

    def _run(self, claim: float, passes: int, count: int) -> None:
        """Time some passes over the inputs."""
        before = self.entry.awake
        if self.entry.ask(lambda: self.entry.participant.run_proof(passes)):
            self._believe(claim, passes * count, self.entry.awake - before)

    def _believe(self, claim: float, calls: int, taken: float) -> None:
        """Hold the claim for a call against the seconds that a number of calls took."""
        tolerance = TOLERANCE_OF_BACKWARD if self.entry.direction == "backward" else TOLERANCE
        self.entry.proved = taken <= (tolerance * claim + OVERHEAD_OF_CALL) * calls + OVERHEAD
        if not self.entry.proved and self._attempts == MOST_ATTEMPTS:
            took = f"{calls} calls on new numbers took {taken:.3g} s"
            self.entry.refuse(f"it claims {claim:.3g} s for a call, but {took}")

    def _keep(self, numbers: Sequence[int], rows: Rows, random: Random) -> None:
        """Keep rows of what it returned for one of these numbers."""
        answer = self.entry.ask(lambda: self.entry.participant.proof_found(rows))
        if answer is None:
            return
        sizes = {name: tuple(found.shape[:1]) for name, found in answer.rows.items()}
        if sizes != dict.fromkeys(rows, (len(numbers),)):
            self.entry.failed = garbage("it proves something else")
            return
        place = random.randrange(len(numbers))
        self.entry.proof = Excerpt(numbers[place], {name: found[place] for name, found in answer.rows.items()})
