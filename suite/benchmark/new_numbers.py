"""Claims held against calls on new numbers: made in turns, timed by the suite's own clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

from suite.benchmark.entry import Entry, Excerpt
from suite.benchmark.own_clock import Asking, far_off, margin, quick, unbounded
from suite.measure import FEWEST
from suite.measure.protocol import Done, Failed, Rows, garbage

ROUND_NUMBERS = range(2_000_003, 2**31)
"""The numbers of rounds, from which inputs follow. They are drawn at random, so that nobody can foresee them, and begin
above those that a task uses for itself."""
FEWEST_PASSES = 3
"""Passes at least, however long they take."""
MOST_PASSES = 5 * FEWEST
"""Passes at most: machines are fast and slow by turns, so that one which seems to take too long is asked for more."""
ENOUGH = 0.1
"""Seconds of passes that are enough, where `FEWEST` of them would take longer; of one that seems to take too long five
times as many."""

NO_TIME = 10.0
"""A row gets no time where most calls took more than this many times as long as claimed, however busy the machine is:
such a time would say nothing."""


@dataclass
class Witness:
    """What calls of one entry on new numbers took: a pass has as many calls as a sample."""

    entry: Entry[Any]
    asking: Asking
    seconds: list[float] = field(default_factory=list)
    """Of a call, pass by pass."""
    spent: float = 0.0

    @property
    def times(self) -> float:
        """How many times as long as claimed such a call takes; 1 where none was made."""
        return quick(self.seconds) / quick(self.entry.seconds) if self.seconds else 1.0

    def done(self, often: int = 1) -> bool:
        """Whether there are passes enough, or so many times as many."""
        count = len(self.seconds)
        return count >= often * FEWEST or (count >= FEWEST_PASSES and self.spent > often * ENOUGH)

    def make_pass(self, numbers: Sequence[int], rows: Rows, random: Random) -> None:
        """Have calls made on inputs of these numbers; the rows of one of the first pass are kept."""
        participant = self.entry.participant
        if not (count := load(self.entry, numbers)):
            return
        wall = seconds(self.entry, lambda: participant.run_proof(1))
        idle = None if wall is None else seconds(self.entry, participant.idle_proof)
        if wall is None or idle is None:
            return
        if not self.seconds:
            keep(self.entry, numbers[:count], rows, random)
        self.spent += wall
        self.seconds.append((wall - self.asking.lasted(idle, count)) / count)

    def conclude(self, drift: float) -> bool:
        """Whether the claim is believed, or refused, on a machine that takes `drift` times as long as in the rounds."""
        entry, times = self.entry, self.times / drift
        entry.own_clock = max(times, entry.own_clock or 0.0)
        most = margin(entry, self.asking)
        entry.unbounded = unbounded(times, margin=most) or unbounded(entry.own_clock, "its samples", most)
        if unbounded(times, margin=most) and not self.done(often=5):
            return False
        if times > NO_TIME or far_off(times, quick(entry.seconds) * entry.calls, self.asking):
            says = f"calls on new numbers took {times:.2f} times as long"
            entry.refuse(f"it claims {median(entry.seconds):.3g} s for a call, but {says}")
        else:
            entry.proved = True
        return True


def prove(
    entries: Sequence[Entry[Any]], trusted: Entry[Any] | None, asking: Asking, rows: Rows, random: Random
) -> None:
    """Prove the claims of these entries, or refuse them.

    Passes are made as samples are, in turns and of as many calls, so that what disturbs the one disturbs the other. The
    `trusted` entry, whose code is the suite's own, says how much slower the machine is by then.
    """
    witnesses = {entry.name: Witness(entry, asking) for entry in entries}
    known = None if trusted is None or trusted.failed else witnesses.setdefault(trusted.name, Witness(trusted, asking))
    waiting = [entry for entry in entries if not entry.failed]
    while waiting:
        numbers = random.sample(ROUND_NUMBERS, max(entry.calls for entry in waiting))
        asked = [*waiting, *([known.entry] if known and known.entry not in waiting else [])]
        for entry in random.sample(asked, len(asked)):
            witnesses[entry.name].make_pass(numbers[: entry.calls], rows, random)
        drift = max(1.0, known.times) if known else 1.0
        waiting = [entry for entry in waiting if not entry.failed and not _is_concluded(witnesses[entry.name], drift)]


def _is_concluded(witness: Witness, drift: float) -> bool:
    return witness.done() and witness.conclude(drift)


def load(entry: Entry[Any], numbers: Sequence[int]) -> int:
    """Have inputs made; how many, or 0 where that failed."""
    answer = entry.ask(lambda: entry.participant.load_proof(numbers))
    if answer and answer.loaded > len(numbers):
        entry.failed = garbage("it loads what was not asked")
    return answer.loaded if answer and not entry.failed else 0


def seconds(entry: Entry[Any], question: Callable[[], Done | Failed]) -> float | None:
    """What the answer to a question takes; None where the entry drops out by it."""
    before = entry.awake
    return None if entry.ask(question) is None else entry.awake - before


def keep(entry: Entry[Any], numbers: Sequence[int], rows: Rows, random: Random) -> None:
    """Keep rows of what it returned for one of these numbers."""
    answer = entry.ask(lambda: entry.participant.proof_found(rows))
    if answer is None:
        return
    sizes = {name: tuple(found.shape[:1]) for name, found in answer.rows.items()}
    if sizes != dict.fromkeys(rows, (len(numbers),)):
        entry.failed = garbage("it proves something else")
        return
    place = random.randrange(len(numbers))
    entry.proof = Excerpt(numbers[place], {name: found[place] for name, found in answer.rows.items()})
