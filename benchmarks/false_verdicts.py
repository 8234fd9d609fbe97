"""Rates of wrong verdicts on many kinds of machines: `python benchmarks/false_verdicts.py --help`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
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
"""Machines on which few rounds or one process do not suffice: printed, and not judged."""
ROUNDS = (12, 40, 120, 360)
LONG = 120
"""The fewest rounds that must find slow-downs of 5 %, with small noise and equal processes."""
EASY = 10
"""One table with slow-downs of 5 % for this many tables of equal implementations."""


def lines(tables: int, seed: int) -> Iterator[tuple[str, bool]]:
    """A line per machine and number of rounds, and whether its rates are too bad."""
    for machine in (*MACHINES, *BEYOND):
        for rounds in ROUNDS:
            equals = counted(machine, rounds, tables, seed)
            found = counted(machine, rounds, max(10, tables // EASY), seed + 1, slower=0.05).slower
            large = counted(machine, rounds, max(10, tables // EASY), seed + 2, slower=1.6).slower
            shares = " ".join(f"{share:7.1%}" for share in (equals.tables, equals.claims, found, large))
            must_find = rounds >= LONG and machine.noise <= NOISES[0] and not (machine.process or machine.wandering)
            missed = must_find and found < FOUND
            bad = machine not in BEYOND and (equals.claims > MOST_CLAIMS or missed)
            yield f"{machine!r:36} {rounds:4} {shares}{'  too bad' if bad else ''}", bad


def main() -> int:
    """Simulate and print; 1 if too many equal implementations differ, or too many slow-downs are missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000, help="tables of equals for each machine")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("shares of tables and comparisons of equals with a claim; shares of found slow-downs, 5 % and 2.6 times")
    print(f"{'machine':36} {'rounds':>4} {'tables':>5} {'pairs':>7} {'5 %':>7} {'2.6 ×':>7}")
    status = 0
    for line, bad in lines(options.tables, options.seed):
        print(line, flush=True)
        status |= bad
    return status


if __name__ == "__main__":
    raise SystemExit(main())
