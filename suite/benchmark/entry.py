"""What one participant does in a table: its samples, what they took by the suite's own clock, and why it dropped
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, Protocol, TypeVar

from torch import Tensor

from suite.measure.protocol import Done, Failed, Found, Loaded, Prepared, Rows, Sampled
from suite.records import Status

STALL_FACTOR = 20
"""Samples may take, in all, this many times as long as the calls in them (and `STALL_SECONDS` more). Between the calls
lie new inputs and their copies, which take a few times as long as a short call."""
STALL_SECONDS = 10.0
"""Seconds that may be added to that: a busy machine may stall for as long."""

Result = TypeVar("Result")


class Racer(Protocol):
    """A participant, as far as rounds are concerned."""

    @property
    def name(self) -> str: ...
    def sample(self, number: int, calls: int) -> Sampled | Failed: ...
    def found(self, rows: Rows) -> Found | Failed: ...
    def load_proof(self, numbers: Sequence[int]) -> Loaded | Failed: ...
    def run_proof(self, passes: int) -> Done | Failed: ...
    def proof_found(self, rows: Rows) -> Found | Failed: ...


AnyRacer = TypeVar("AnyRacer", bound=Racer)


@dataclass(frozen=True)
class Excerpt:
    """Some rows of an answer, and the number of the round whose inputs it answers."""

    number: int
    rows: Mapping[str, Tensor]


@dataclass
class Entry(Generic[AnyRacer]):
    """A participant in a table. `failed` says why it dropped out."""

    participant: AnyRacer
    prepared: Prepared
    direction: str
    cache: str
    calls: int = 0
    """How many calls make a sample; at first what the participant found when it was prepared."""
    seconds: list[float] = field(default_factory=list)
    """Of one call, by sample, as the participant claims."""
    walls: list[float] = field(default_factory=list)
    """Seconds that each sample took by the suite's own clock, all of it."""
    awake: float = 0.0
    """Seconds that all its questions took by the suite's own clock."""
    warmed: float = 0.0
    """Seconds of the calls that warmed the cache for samples."""
    made: float = 0.0
    """Seconds of what was made for the calls in samples: the forward before each backward."""
    kept: Excerpt | None = None
    """Of the round that is verified."""
    proof: Excerpt | None = None
    """Of the proof of its times; None where its samples are proof enough."""
    proved: bool = False
    """Whether calls on inputs that it had not seen took no longer than it claims."""
    relative_error: Mapping[str, float] = field(default_factory=dict)
    """What its workload says of the errors of what is verified, relative to the truth."""
    error_ratio: float | None = None
    """The largest error of both excerpts, in bounds, once they are verified."""
    failed: Failed | None = None
    took_more_cores: bool = False
    """Whether it used more cores than it was given, so that the others' times cannot be trusted."""
    stopped: str = ""
    """Why it has samples enough, as in `Measurement`."""

    def __post_init__(self) -> None:
        self.calls = self.calls or self.prepared.calls

    @property
    def name(self) -> str:
        return self.participant.name

    @property
    def spent(self) -> float:
        """Seconds of timed calls."""
        return sum(self.seconds) * self.calls

    def sample(self, number: int) -> None:
        """Take one sample on the inputs of this round."""
        if (seconds := self.time_sample(number)) is None:
            return
        self.seconds.append(seconds)
        taken = sum(self.walls)
        if self.cache == "hot" and taken > STALL_FACTOR * self.spent + STALL_SECONDS:
            self.refuse(f"its samples took {taken:.3g} s, the calls in them, as it claims, {self.spent:.3g} s")

    def time_sample(self, number: int) -> float | None:
        """Seconds of a call in a sample; None where it failed."""
        before = self.awake
        answer = self.ask(lambda: self.participant.sample(number, self.calls))
        self.walls.append(self.awake - before)
        if answer is None:
            return None
        self.warmed += answer.warmed
        self.made += answer.made
        return answer.seconds

    def keep(self, number: int, rows: Rows) -> None:
        """Keep rows of what the sample of this round returned, in place of those of an earlier one."""
        if answer := self.ask(lambda: self.participant.found(rows)):
            self.kept = Excerpt(number, answer.rows)
        elif self.failed:
            self.refuse(self.failed.detail)

    def refuse(self, detail: str) -> None:
        """Let it drop out, because its times cannot be believed."""
        self.failed = Failed(Status.REFUSED, detail)

    def ask(self, question: Callable[[], Result | Failed]) -> Result | None:
        """Ask its participant, and count how long that takes. None where it drops out by its answer."""
        started = perf_counter()
        answer = question()
        self.awake += perf_counter() - started
        if not isinstance(answer, Failed):
            return answer
        self.failed = answer
        return None
