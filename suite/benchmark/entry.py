"""One participant in a table: its samples, their times by the suite's own clock, and why it was removed."""

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
"""Ratio: all samples may take this many times as long as the calls in them (and `STALL_SECONDS` more). New inputs
and their copies between calls take a few times as long as a short call."""
STALL_SECONDS = 10.0
"""Seconds added to that: a busy machine may stall for as long."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Sample:
    """One sample as its process reports it, and its time by this process's clock, all in seconds."""

    seconds: float
    """Claimed time of one call."""
    warmed: float
    """Claimed time of the untimed calls that filled the cache."""
    made: float
    """Claimed time of what was made for its calls, untimed."""
    elapsed: float
    """Time of all its calls and of the request, by the suite's own clock."""
    idle: float
    """Time of a request without calls right after it, by the same clock."""


@dataclass(frozen=True)
class ProofTimes:
    """Times by this process's clock of calls on inputs that it sent one by one, and one of the outputs."""

    seconds: Sequence[float]
    """For each call: sending the inputs, the call, and receiving the output."""
    idle: Sequence[float]
    """The same without the call."""
    rows: Mapping[str, Tensor]
    """All rows of each tensor of that output, flattened to two axes."""


@dataclass(frozen=True)
class Excerpt:
    """Rows of the output for the inputs of one round number."""

    number: int
    rows: Mapping[str, Tensor]


@dataclass
class Entry:
    """A participant in one table, whose task is prepared. One that fails is removed."""

    participant: Any
    """A `Participant`, or a fake of one in tests."""
    prepared: PreparedTask
    direction: str
    cache: str
    calls: int = 0
    """Calls in a sample; at first the number for which it was prepared."""
    seconds: list[float] = field(default_factory=list)
    """Claimed seconds of one call, by sample."""
    samples: list[Sample] = field(default_factory=list)
    """The samples, with their times by the suite's own clock."""
    processes: str = ""
    """The process of each sample, as digits; empty for a single process."""
    sampling: float = 0.0
    """Seconds of all samples by the suite's own clock, making inputs included."""
    awake: float = 0.0
    """Seconds of all its replies by the suite's own clock."""
    own_clock: float | None = None
    """Ratio of the time of a call by the suite's own clock to the claimed time; None if unknown."""
    unbounded: str = ""
    """Why the suite's own clock does not bound the claim within the margin of own_clock.py; empty where it does, and
    for calls that are too short."""
    excerpt: Excerpt | None = None
    """Rows of the round that is verified."""
    proofs: Sequence[Excerpt] = ()
    """Rows of calls on new inputs, that its times were checked by."""
    concluded: bool = False
    """Whether the claim is accepted: calls on new inputs took no longer, or the row is marked as not bounded."""
    relative_error: Mapping[str, float] = field(default_factory=dict)
    """The errors of the verified rows, relative to the oracle's values, as its workload reports them."""
    error_ratio: float | None = None
    """The largest error of all verified rows, divided by its tolerance."""
    failed: NoResult | None = None
    took_more_cores: bool = False
    """Whether it used more cores than it was given, which invalidates the others' times."""
    stopped: str = ""
    """Why sampling stopped, as in `Measurement`."""
    _turn: int = 0
    _turns: list[int] = field(default_factory=list, repr=False)
    """The processes whose turn in this cycle is still to come."""

    def __post_init__(self) -> None:
        self.calls = self.calls or self.prepared.calls

    @property
    def name(self) -> str:
        """The full name of the implementation."""
        return str(self.participant.name)

    @property
    def spent(self) -> float:
        """Seconds of timed calls."""
        return sum(self.seconds) * self.calls

    def take_turn(self, random: Random) -> None:
        """Choose the process of the next samples: each as often as any other, in random order."""
        if (processes := self.participant.processes) > 1:
            self._turns = self._turns or random.sample(range(processes), processes)
            self._turn = self._turns.pop()
            self.participant.take_turn(self._turn)

    def sample(self, number: int) -> None:
        """Take one sample on the inputs of this round."""
        awake_before = self.awake
        sample = self.attempt(lambda: self.participant.sample(number, self.calls))
        self.sampling += self.awake - awake_before
        if sample is None:
            return
        self.seconds.append(sample.seconds)
        self.samples.append(sample)
        if self.participant.processes > 1:
            self.processes += str(self._turn)
        if self.cache == "hot" and self.sampling > STALL_FACTOR * self.spent + STALL_SECONDS:
            self.refuse(f"its samples took {self.sampling:.3g} s; it claims {self.spent:.3g} s for the calls in them")

    def keep(self, number: int, rows: Rows) -> None:
        """Store rows of the output of this round's sample, in place of those of an earlier round."""
        if reply := self.attempt(lambda: self.participant.output_rows(rows)):
            self.excerpt = Excerpt(number, reply.rows)
        elif self.failed:
            self.refuse(self.failed.detail)

    def refuse(self, detail: str) -> None:
        """Remove it, because its times cannot be trusted."""
        self.failed = NoResult(Status.REFUSED, detail)

    def attempt(self, action: Callable[[], Result | NoResult]) -> Result | None:
        """The participant's reply, whose time is added up; None if it fails, which removes it."""
        started = perf_counter()
        reply = action()
        self.awake += perf_counter() - started
        if not isinstance(reply, NoResult):
            return reply
        self.failed = reply
        return None
