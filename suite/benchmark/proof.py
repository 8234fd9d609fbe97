"""Proof of the times that a process claims for short calls: on inputs it has not seen, by the suite's own clock."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from statistics import median

from suite.benchmark.entry import Entry, Racer
from suite.benchmark.new_numbers import ROUND_NUMBERS, keep, load, seconds
from suite.benchmark.own_clock import Asking, doubt, lasts, quick
from suite.measure.protocol import Rows
from suite.records.bounded import LONG

NEW_INPUTS = 0.02
"""Seconds of calls that a proof makes at least on inputs that are all different, if `MOST_INPUTS` are enough for
that."""
MOST_INPUTS = 256
"""Different inputs in a proof at most: making them takes longer than a short call."""
REPEATED = 0.1
"""Seconds for which the calls of a proof are repeated, so that waking the process is a small part of the whole."""
MOST_PROOF_CALLS = 20_000
"""Calls in a proof at most, where the claim is so short that more would be due."""
TRIAL = 16
"""Before the whole proof comes one of this fraction, so that a process whose calls take a hundred times what it claims
is found out within a second rather than minutes."""
OVERHEAD = 0.03
"""Seconds that a proof may take beyond its calls: for waking the process, and for scheduling."""
OVERHEAD_OF_CALL = 5e-6
"""Seconds by which each call of a proof may be longer at least: for copying what it returned. Where that takes longer,
as it does on a GPU, what it takes is measured, and so is what it takes to read the inputs before the call."""
LONGEST_HEAD_START = 1e-3
"""Seconds that launching may be hidden at most, whatever a process says: flushing a cache of 1 GB takes less."""
TOLERANCE = 2
"""How many times as long as claimed calls may take in a proof: not all that a call uses lies where it does in samples,
and what disturbs one block of calls is not averaged over."""
TOLERANCE_OF_BACKWARD = 6
"""The same for a backward, before which comes its forward, of up to four times the backward's length."""
DRIFT_SAMPLES = 5
"""Samples of a trusted entry that say how fast the machine is by now."""
MOST_ATTEMPTS = 5
"""How often a proof may be tried: machines are fast and slow by turns."""


class Proof:
    """The proof of one entry's times, which it may try several times. After that its entry is `proved` or `failed`.

    `trusted` is an entry whose code is the suite's own, if there is one: it says how fast the machine is by now. Where
    there is none, the entry says it itself, for want of a better witness.
    """

    def __init__(self, entry: Entry[Racer], trusted: Entry[Racer] | None = None, asking: Asking | None = None) -> None:
        self.entry, self._trusted, self._asking = entry, trusted, asking or Asking()
        self._attempts = 0
        self._drift = 1.0
        self._fetching = 0.0
        """Seconds of each call that are reading its inputs."""

    def attempt(self, numbers: Sequence[int], rows: Rows, random: Random) -> None:
        """Try once, on inputs of rounds with these numbers; without effect where the entry is proved or has failed.

        It comes after all samples: a process that lies only once it is believed has nothing left to lie about. The
        claim is the median of its samples. Another attempt allows for a machine that has become slower.
        """
        entry = self.entry
        if entry.proved or entry.failed:
            return
        self._attempts += 1
        claim = median(entry.seconds)
        if (doubted := doubt(entry)) and lasts(entry, self._asking) >= LONG:
            entry.unbounded, entry.own_clock = doubted, None
        if self._attempts > 1:
            self._drift = max(1.0, self._slower(random), self._shared(numbers))
        self._time_calls(claim, numbers, rows, random)

    def _slower(self, random: Random) -> float:
        """How many times as long as in the rounds samples take now."""
        trusted = self._witness or self.entry
        now = [trusted.time_sample(random.choice(ROUND_NUMBERS)) for _ in range(DRIFT_SAMPLES)]
        taken = [sample.seconds for sample in now if sample is not None]
        return quick(taken) / quick(trusted.seconds) if taken else 1.0

    def _shared(self, numbers: Sequence[int]) -> float:
        """How many times as long as in samples calls take in a proof of a trusted entry.

        Where other processes use the same cores, most samples lie between two turns of the others; no proof does. A
        proof of a backward has forwards between its calls, so it says nothing of that.
        """
        if (trusted := self._witness) is None or trusted.direction == "backward":
            return 1.0
        claim = median(trusted.seconds)
        if not (count := load(trusted, numbers[: inputs(claim)])):
            return 1.0
        passes = max(1, math.ceil(REPEATED / claim) // count)
        taken = seconds(trusted, lambda: trusted.participant.run_proof(passes))
        return 1.0 if taken is None else (taken / (passes * count) - self._beside_the_call()) / claim

    @property
    def _witness(self) -> Entry[Racer] | None:
        """The trusted entry, if it is another."""
        return None if self._trusted is self.entry or self._trusted is None or self._trusted.failed else self._trusted

    def _time_calls(self, claim: float, numbers: Sequence[int], rows: Rows, random: Random) -> None:
        """Time calls on inputs that were all made before, each read just before its call. Results are copied at once.

        So nothing can be remembered, put off, or claimed without having been done. Short calls are repeated on the same
        inputs, for one pass would be lost in the time that a question takes.
        """
        if not (count := load(self.entry, numbers[: inputs(claim)])):
            return
        if self.entry.fetching:
            self._fetching = self.entry.fetching.seconds(count, anew=self._attempts > 1)
        calls = min(MOST_PROOF_CALLS, math.ceil(REPEATED / claim))
        for passes in sorted({1, calls // count // TRIAL, calls // count} - {0}):
            self._run(claim, passes, count)
            if passes == 1 and not self.entry.failed:
                keep(self.entry, numbers[:count], rows, random)
            if not self.entry.proved or self.entry.failed:
                break

    def _run(self, claim: float, passes: int, count: int) -> None:
        """Time some passes over the inputs."""
        participant = self.entry.participant
        taken = self._in_one(passes) if self._attempts == 1 else self._one_by_one(passes)
        if taken is not None and self._head_start:
            self._asking.lasted(seconds(self.entry, participant.idle_proof) or math.inf, count)
        if taken is not None and not self.entry.failed:
            self._believe(claim, passes * count, taken)

    def _in_one(self, passes: int) -> float | None:
        """Seconds of passes in a row; None where the entry drops out by them."""
        return seconds(self.entry, lambda: self.entry.participant.run_proof(passes))

    def _one_by_one(self, passes: int) -> float | None:
        """The same as a quarter of them tell that took least: a pass is about as short as a sample, so that some lie
        between two turns of other processes, which all passes in a row never do.
        """
        walls: list[float] = []
        while len(walls) < passes:
            if (wall := self._in_one(1)) is None:
                return None
            walls.append(wall)
        return passes * quick(walls)

    def _believe(self, claim: float, calls: int, taken: float) -> None:
        """Hold the claim for a call against the seconds that a number of calls took."""
        tolerance = TOLERANCE_OF_BACKWARD if self.entry.direction == "backward" else TOLERANCE
        allowed = tolerance * self._drift * claim + self._beside_the_call()
        self.entry.proved = taken <= allowed * calls + OVERHEAD
        if not self.entry.proved and self._attempts == MOST_ATTEMPTS:
            took = f"{calls} calls on new numbers took {taken:.3g} s"
            if self.entry is self._trusted:  # it does not lie: the machine is busy
                self.entry.proved, self.entry.unbounded = True, took
            else:
                self.entry.refuse(f"it claims {claim:.3g} s for a call, but {took}")

    @property
    def _head_start(self) -> float:
        """Seconds of launching that are no part of a claim, as the trusted entry tells, or else whoever tells least."""
        least = min(self.entry.prepared.head_start, self._asking.head_start)
        return min(LONGEST_HEAD_START, least if self._trusted is None else self._trusted.prepared.head_start)

    def _beside_the_call(self) -> float:
        """Seconds of each call that are no part of the claim: reading its inputs and copying its result, and on a GPU
        what launching took while the cache was flushed. They are the same for all, so that nobody can make them longer.
        """
        copying = min(self._asking.each, LONGEST_HEAD_START) if self._head_start else 0.0
        return max(OVERHEAD_OF_CALL, copying) + self._fetching + self._head_start


def inputs(claim: float) -> int:
    """How many different inputs a proof of calls of so many seconds has."""
    return max(1, min(MOST_INPUTS, math.ceil(NEW_INPUTS / claim)))
