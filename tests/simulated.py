"""Tables of samples as bad machines would take them, and how often verdicts on them claim what is not so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from random import Random

from attnsuite.model.faster import Comparison, compare
from attnsuite.model.statistics import LEVEL

OTHERS = 8
"""Implementations in a table beside its baseline."""
MOST_CLAIMS = 0.02
"""The share of comparisons of what is one and the same that may claim a difference."""
FOUND = 0.90
"""The share of slowdowns of 5 % that has to be found where rounds are many and processes alike."""


@dataclass(frozen=True, repr=False)
class Machine:
    """How samples come about. All are standard deviations of logarithms, or shares.

    A sample's logarithm is the sum of a disturbance that its round shares, of a drift, of what its process adds, and of
    noise of its own.
    """

    noise: float = 0.02
    """Of a sample's own."""
    following: float = 0.0
    """The autocorrelation of the noise of one implementation, from round to round."""
    heavy: float = 0.0
    """The share of samples that an interruption makes longer by up to half."""
    shared: float = 0.1
    """Of what all samples of a round have in common."""
    drift: float = 0.0
    """By how much the whole machine becomes slower over the race."""
    wandering: float = 0.0
    """Of how much slower or faster one implementation becomes over the race, beside the others."""
    process: float = 0.0
    """Of what a process adds to all its samples."""
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

    def table(self, random: Random, rounds: int, slower: float = 0.0) -> dict[str, Comparison]:
        """The verdicts on implementations that are slower than their baseline by this share."""
        shared = [random.gauss(0, self.shared) for _ in range(rounds)]
        base, of = self.row(random, rounds, shared)
        rows = {str(number): self.row(random, rounds, shared, slower) for number in range(OTHERS)}
        seconds = {name: row for name, (row, _) in rows.items()}
        return compare(base, seconds, LEVEL, {name: each for name, (_, each) in rows.items()}, of)


@dataclass(frozen=True)
class Counted:
    """What became of so many tables: shares of tables with a claim, of comparisons with one, and of `slower` ones."""

    tables: float
    claims: float
    slower: float


def counted(machine: Machine, rounds: int, tables: int, seed: int = 0, slower: float = 0.0) -> Counted:
    """Verdicts of tables in which all that is compared is slower than the baseline by this share."""
    random = Random(seed)
    found = [list(machine.table(random, rounds, slower).values()) for _ in range(tables)]
    claims = [sum(each.verdict in ("faster", "slower") for each in table) for table in found]
    told = sum(each.verdict == "slower" for table in found for each in table)
    return Counted(sum(map(bool, claims)) / tables, sum(claims) / (tables * OTHERS), told / (tables * OTHERS))


def turns(random: Random, processes: int) -> Iterator[int]:
    """Which process has its turn, round by round: all of them once in random order, then again."""
    while True:
        yield from random.sample(range(processes), processes)
