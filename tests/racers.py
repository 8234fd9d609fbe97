"""Fake participants of races, without processes, on a clock that tests advance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import torch
from clocks import Time

from attnsuite.benchmark.busy import Load
from attnsuite.benchmark.entry import Entry, ProofTimes, Sample
from attnsuite.benchmark.measure.messages import NoResult, OutputRows, PreparedTask
from attnsuite.benchmark.race import race as race_of

CEILINGS = {("float32", 1): {"flops": 1e18, "bytes": 1e9}}
"""Ceilings of no machine: to measure real ones takes seconds."""
Asked = tuple[str, str, Any]
"""The name of a participant, the verb of a request, and its argument."""


@dataclass
class Fake:
    """A participant whose calls take `takes(turn)` seconds, and which claims a share of them.

    `says` has the answer to a verb in one of its turns. Every row that it returns is the number of its inputs.
    """

    name: str
    now: Time
    takes: Callable[[int], float] = lambda turn: 0.005
    claims: float = 1.0
    says: Mapping[tuple[str, int], Any] = field(default_factory=dict)
    log: list[Asked] = field(default_factory=list)
    turn: int = 0
    number: int = 0
    capacity: int = 10**9
    """The largest number of inputs at once."""
    shipped: bool = True
    head_start: float = 0.0
    """Seconds of launching during which the device flushes its cache."""
    overhead: float = 1e-4
    """Seconds to send inputs and to receive the result."""
    threads: int = 1
    processes: int = 1
    process: int = 0
    """The current process."""
    witnessed: bool = True
    """Whether the suite's own clock measures its samples; otherwise it measures the claimed time."""

    def sample(self, number: int, calls: int) -> Any:
        self.turn, self.number = self.turn + 1, number
        return self._answer("sample", number) or self._sampled(calls)

    def take_turn(self, process: int) -> None:
        self.process = process

    def output_rows(self, rows: Any) -> Any:
        return self._answer("output_rows", rows) or OutputRows(
            {"output": torch.tensor(float(self.number), dtype=torch.float64)}
        )

    def anew(self) -> float:
        """Seconds of a call on new inputs."""
        return self.takes(self.turn)

    def idles(self) -> float:
        """Seconds of such a reply without the call."""
        return self.overhead

    def proof_times(self, numbers: Sequence[int], kept: int, warm: int) -> Any:
        if said := self._answer("proof_times", numbers):
            return said
        idle = [self.idles() for _ in numbers]
        seconds = [self.anew() + each for each in idle]
        self.now.now += sum(seconds) + sum(idle)
        return ProofTimes(seconds, idle, {"output": torch.full((4, 1), float(kept), dtype=torch.float64)})

    def _answer(self, verb: str, asked: Any) -> Any:
        self.log.append((self.name, verb, asked))
        return self.says.get((verb, self.turn))

    def _sampled(self, calls: int) -> Sample | NoResult:
        seconds = self.takes(self.turn)
        self.now.now += seconds * calls + 0.002
        claimed = seconds * self.claims
        return Sample(claimed, 0.0, 0.0, (seconds if self.witnessed else claimed) * calls + 0.001, 0.001)


class Slower(Fake):
    """A participant that is slower on new inputs than in samples, by the factor `times`."""

    times = 2.0

    def anew(self) -> float:
        return self.times * super().anew()


def short(turn: int) -> float:
    """Seconds of a call that is too short for a limit on its share."""
    return 1e-4


def entry_of(fake: Fake, calls: int = 1, direction: str = "forward", cache: str = "hot") -> Entry:
    """A fake's entry in a table."""
    return Entry(fake, PreparedTask({}, 1.0, 0.1, 0.005, calls, fake.head_start), direction, cache)


def race(
    *fakes: Fake,
    budget: float = 0.02,
    seed: int = 0,
    reference: Fake | None = None,
    load: Load | None = None,
    **prepared: Any,
) -> list[Entry]:
    """The entries of a race against the first, on a machine with this load; idle by default."""
    entries = [entry_of(fake, **prepared) for fake in fakes]
    beside = entry_of(reference, **prepared) if reference else None
    race_of(entries, fakes[0].name, {"output": [3]}, budget, Random(seed), beside, load=lambda: load or Load())
    return entries


def noisy(seed: int, spread: float = 0.3) -> Callable[[int], float]:
    """Times with wide intervals."""
    draw = Random(seed)
    return lambda turn: 0.005 * draw.lognormvariate(0, spread)


def asked(log: Sequence[Asked], verb: str) -> list[Any]:
    """The arguments of the requests with this verb."""
    return [what for _, each, what in log if each == verb]
