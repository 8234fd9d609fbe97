"""One participant in a table: its samples, their times by the suite's own clock, and why it dropped out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import Any, TypeVar

from torch import Tensor

from attnsuite.benchmark.measure.messages import NoResult, PreparedTask, Rows
from attnsuite.model import Status

STALL_FACTOR = 20
"""Samples may take, in all, this many times as long as the calls in them (and `STALL_SECONDS` more). Between the
calls lie new inputs and their copies, which take a few times as long as a short call."""
STALL_SECONDS = 10.0
"""Seconds that may be added to that: a busy machine may stall for as long."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sample:
    """One sample as its process reports it, and its time by this process's clock. All are seconds."""

    seconds: float
    """Of one call in it, as claimed."""
    warmed: float
    """Of the untimed calls that filled the cache for it, as claimed."""
    made: float
    """Of what was made for its calls, untimed, as claimed."""
    wall: float
    """Of all its calls and the asking, by the suite's own clock."""
    idle: float
    """Of asking for a sample without calls right after it, by the same clock."""


@dataclass(frozen=True)
class ProofTimes:
    """The times of answers to inputs that came one by one from this process, by its clock, and one of the answers."""

    seconds: Sequence[float]
    """Of each: of sending the inputs, of the call, and of receiving all that it returned."""
    idle: Sequence[float]
    """Of all that but the call."""
    rows: Mapping[str, Tensor]
    """All rows of each tensor of that answer, flattened to two axes."""


@dataclass(frozen=True)
class Excerpt:
    """Rows of the output for the inputs of one number."""

    number: int
    rows: Mapping[str, Tensor]


@dataclass
class Entry:
    """A participant in one table, whose task is prepared. A participant that fails drops out."""

    participant: Any
    """A `Participant`, or in tests what stands in for one."""
    prepared: PreparedTask
    direction: str
    cache: str
    calls: int = 0
    """How many calls make a sample; at first the number for which it was prepared."""
    seconds: list[float] = field(default_factory=list)
    """Of one call, by sample, as the participant claims."""
    samples: list[Sample] = field(default_factory=list)
    """All of each sample, its time by the suite's own clock included."""
    processes: str = ""
    """Which process took each sample, a digit for each; empty where there is one."""
    sampling: float = 0.0
    """Seconds that all samples took by the suite's own clock, the making of inputs included."""
    awake: float = 0.0
    """Seconds that all its answers took by the suite's own clock."""
    own_clock: float | None = None
    """The time of a call by the suite's own clock, as a multiple of what is claimed; None where that is not known."""
    unbounded: str = ""
    """Why the suite's own clock does not bound the claim within the margin of own_clock.py; empty where it does, and
    where calls are too short for that."""
    kept: Excerpt | None = None
    """Of the round that is verified."""
    proofs: Sequence[Excerpt] = ()
    """Of calls on secret numbers, by which its times were proved."""
    proved: bool = False
    """Whether calls on inputs that it had not seen took no longer than it claims."""
    relative_error: Mapping[str, float] = field(default_factory=dict)
    """The errors of what is verified, relative to the oracle's values, as its workload reports them."""
    error_ratio: float | None = None
    """The largest error of all excerpts, in bounds, once they are verified."""
    failed: NoResult | None = None
    took_more_cores: bool = False
    """Whether it used more cores than it was given, so that the others' times cannot be trusted."""
    stopped: str = ""
    """Why it has samples enough, as in `Measurement`."""
    _turn: int = 0
    _turns: list[int] = field(default_factory=list, repr=False)
    """The processes that have yet to take their turn."""

    def __post_init__(self) -> None:
        self.calls = self.calls or self.prepared.calls

    @property
    def name(self) -> str:
        return str(self.participant.name)

    @property
    def spent(self) -> float:
        """Seconds of timed calls."""
        return sum(self.seconds) * self.calls

    def take_turn(self, random: Random) -> None:
        """Let one of its processes take the next samples: each as often as any other, in random order."""
        if (processes := self.participant.processes) > 1:
            self._turns = self._turns or random.sample(range(processes), processes)
            self._turn = self._turns.pop()
            self.participant.take_turn(self._turn)

    def sample(self, number: int) -> None:
        """Take one sample on the inputs of this round."""
        before = self.awake
        sample = self.ask(lambda: self.participant.sample(number, self.calls))
        self.sampling += self.awake - before
        if sample is None:
            return
        self.seconds.append(sample.seconds)
        self.samples.append(sample)
        if self.participant.processes > 1:
            self.processes += str(self._turn)
        if self.cache == "hot" and self.sampling > STALL_FACTOR * self.spent + STALL_SECONDS:
            self.refuse(f"its samples took {self.sampling:.3g} s, the calls in them, as it claims, {self.spent:.3g} s")

    def keep(self, number: int, rows: Rows) -> None:
        """Keep rows of what the sample of this round returned, in place of those of an earlier one."""
        if answer := self.ask(lambda: self.participant.found(rows)):
            self.kept = Excerpt(number, answer.rows)
        elif self.failed:
            self.refuse(self.failed.detail)

    def refuse(self, detail: str) -> None:
        """Let it drop out, because its times cannot be believed."""
        self.failed = NoResult(Status.REFUSED, detail)

    def ask(self, question: Callable[[], Result | NoResult]) -> Result | None:
        """The participant's answer, whose time is counted. None where it drops out by its answer."""
        started = perf_counter()
        answer = question()
        self.awake += perf_counter() - started
        if not isinstance(answer, NoResult):
            return answer
        self.failed = answer
        return None
