"""Simulated samples of noisy machines, and the shares of wrong and right verdicts on them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from random import Random

from attnsuite.model.faster import Comparison, compare
from attnsuite.model.statistics import LEVEL

OTHERS = 8
"""Implementations in a table besides its baseline."""
MOST_CLAIMS = 0.02
"""The largest share of comparisons of equal implementations that may claim a difference."""
FOUND = 0.90
"""The smallest share of 5 % slow-downs to find, with many rounds and equal processes."""


@dataclass(frozen=True, repr=False)
class Machine:
    """The distribution of samples. Fields are standard deviations of logarithms, or shares.

    A sample's logarithm is the sum of its round's disturbance, a drift, its process's offset, and its own noise.
    """

    noise: float = 0.02
    """The noise of a sample."""
    following: float = 0.0
    """The autocorrelation of the noise of one implementation, from round to round."""
    heavy: float = 0.0
    """The share of samples that an interruption makes longer by up to half."""
    shared: float = 0.1
    """The disturbance of a round, common to its samples."""
    drift: float = 0.0
    """The slow-down of the whole machine over the race."""
    wandering: float = 0.0
    """The drift of one implementation over the race, relative to the others."""
    process: float = 0.0
    """The offset of a process."""
    processes: int = 1

    def __repr__(self) -> str:
        unusual = [f"{of.name} {value:g}" for of in fields(self) if (value := getattr(self, of.name)) != of.default]
        return ", ".join(unusual) or "independent"

    def row(self, random: Random, rounds: int, shared: list[float], slower: float = 0.0) -> tuple[list[float], str]:
        """Samples of one implementation, and which process took each."""
        offsets = [random.gauss(0, self.process) for _ in range(self.processes)]
        state, trend = random.gauss(0, 1), random.gauss(0, self.wandering)
        seconds, of = [], ""
        for place, (common, process) in enumerate(zip(shared, turns(random, self.processes), strict=False)):
            state = self.following * state + math.sqrt(1 - self.following**2) * random.gauss(0, 1)
            spike = random.uniform(0, 0.5) if random.random() < self.heavy else 0.0
            along = place / rounds - 0.5
            log = common + self.drift * along + trend * along + offsets[process] + self.noise * state + spike
            seconds.append(0.01 * (1 + slower) * math.exp(log))
            of += str(process)
        return seconds, of if self.processes > 1 else ""

    def table(self, random: Random, rounds: int, slower: float = 0.0, others: int = OTHERS) -> dict[str, Comparison]:
        """The verdicts on implementations that are slower than their baseline by this share."""
        shared = [random.gauss(0, self.shared) for _ in range(rounds)]
        base, of = self.row(random, rounds, shared)
        rows = {str(number): self.row(random, rounds, shared, slower) for number in range(others)}
        seconds = {name: row for name, (row, _) in rows.items()}
        return compare(base, seconds, LEVEL, {name: each for name, (_, each) in rows.items()}, of)


@dataclass(frozen=True)
class Counted:
    """The shares of tables with a claim, of comparisons with a claim, and of `slower` verdicts."""

    tables: float
    claims: float
    slower: float


def counted(machine: Machine, rounds: int, tables: int, seed: int = 0, slower: float = 0.0) -> Counted:
    """The shares over tables whose implementations are slower than the baseline by this share."""
    random = Random(seed)
    found = [list(machine.table(random, rounds, slower).values()) for _ in range(tables)]
    claims = [sum(each.verdict in ("faster", "slower") for each in table) for table in found]
    told = sum(each.verdict == "slower" for table in found for each in table)
    return Counted(sum(map(bool, claims)) / tables, sum(claims) / (tables * OTHERS), told / (tables * OTHERS))


def turns(random: Random, processes: int) -> Iterator[int]:
    """The process of each round: all of them in random order, repeatedly."""
    while True:
        yield from random.sample(range(processes), processes)
