"""How often verdicts claim what is not so, on machines of many kinds: `python tests/simulating_for_long.py --help`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from simulated import FOUND, MOST_CLAIMS, Machine, counted

NOISES = (0.02, 0.15)
FOLLOWING = (0.0, 0.3, 0.5, 0.7)
MACHINES = (
    *(Machine(noise, following) for noise in NOISES for following in FOLLOWING),
    *(Machine(heavy=0.2), Machine(drift=0.5), Machine(wandering=0.05), Machine(processes=2)),
    *(Machine(process=0.01, processes=2), Machine(process=0.02, processes=2)),
    Machine(noise=0.005, process=0.02, processes=2),
)
BEYOND = (Machine(following=0.9), Machine(noise=0.15, following=0.9), Machine(process=0.02))
"""What few rounds or a single process cannot tell: shown, and not judged."""
ROUNDS = (12, 40, 120, 360)
LONG = 120
"""Rounds from which on slowdowns of 5 % have to be found, where noise is small and processes are alike."""
EASY = 10
"""The 5 % slowdown is looked for in one table for so many tables of equals."""


def lines(tables: int, seed: int) -> Iterator[tuple[str, bool]]:
    """A line for each machine and number of rounds, and whether what it says is amiss."""
    for machine in (*MACHINES, *BEYOND):
        for rounds in ROUNDS:
            equals = counted(machine, rounds, tables, seed)
            found = counted(machine, rounds, max(10, tables // EASY), seed + 1, slower=0.05).slower
            large = counted(machine, rounds, max(10, tables // EASY), seed + 2, slower=1.6).slower
            shares = " ".join(f"{share:7.1%}" for share in (equals.tables, equals.claims, found, large))
            due = rounds >= LONG and machine.noise <= NOISES[0] and not (machine.process or machine.wandering)
            missed = due and found < FOUND
            amiss = machine not in BEYOND and (equals.claims > MOST_CLAIMS or missed)
            yield f"{machine!r:36} {rounds:4} {shares}{'  amiss' if amiss else ''}", amiss


def main() -> int:
    """Simulate, and say what came of it; 1 where equals are told apart or slowdowns missed too often."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", type=int, default=1000, help="tables of equals for each machine")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    print("claims of equals in so many tables and comparisons, slowdowns found of 5 % and of 2.6 times")
    print(f"{'machine':36} {'rounds':>4} {'tables':>5} {'pairs':>7} {'5 %':>7} {'2.6 ×':>7}")
    status = 0
    for line, amiss in lines(asked.tables, asked.seed):
        print(line, flush=True)
        status |= amiss
    return status


if __name__ == "__main__":
    raise SystemExit(main())
