"""Carries out a sweep whose processes are killed at random moments: `python tests/sweeping_for_long.py --help`."""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from killed import VICTIMS, KilledSweep, undivided

TARGETS = ("attention/loops", "attention/matmul", "attention/chunked", "attention/einsum_numpy")
FAMILIES = [
    *(
        "plain",
        "causal",
        "scale",
        "bool_mask",
        "float_mask",
        "both",
        "empty_row",
        "numerics",
        "layout",
        "keys",
        "queries",
    ),
    *("widths", "heads", "no_keys", "order", "ranks", "items", "roles", "documents", "window", "lengths", "state"),
    *("metamorphic", "behaviour"),
]
"""Families of cases: with the targets, units enough for many shards, each of a few seconds."""


def main() -> int:
    """Sweep, kill, and say what came of it; 1 where anything is amiss."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--shards", type=int, default=100)
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--jobs", type=int, default=2, help="shards that run at once")
    options.add_argument("--from", type=float, default=5.0, dest="first", help="seconds between two kills, at least")
    options.add_argument("--to", type=float, default=40.0, help="and at most")
    options.add_argument("--seconds", type=float, default=7200.0, help="after which it is given up")
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    chance = random.Random(asked.seed)
    victims = [*VICTIMS, *chance.choices(VICTIMS, (1, 3, 1, 1), k=asked.kills)][: asked.kills]
    chance.shuffle(victims)
    with TemporaryDirectory() as folder:
        return swept(Path(folder), asked, victims)


def swept(folder: Path, asked: argparse.Namespace, victims: list[str]) -> int:
    """Sweep in a folder, and print what is amiss."""
    words = [*TARGETS, *(word for each in FAMILIES for word in ("--case", each)), "--dtype", "float32"]
    due = undivided(folder, words)
    table = f"[check]\ntargets = {[*TARGETS]}\ncases = {FAMILIES}\ndtypes = ['float32']\n"
    sweep, began = KilledSweep(folder, asked.shards, table, asked.jobs, asked.seed), time.monotonic()
    status = sweep.carried_out(victims, (asked.first, asked.to), asked.seconds)
    lost = sweep.forgotten() if status == -1 else sweep.lost(due)
    repeated = sweep.repeated()
    kills = ", ".join(f"{count} × {what}" for what, count in Counter(sweep.kills).items())
    print(f"{asked.shards} shards, {len(due)} questions, {len(sweep.kills)} kills ({kills})")
    seconds = time.monotonic() - began
    print(f"{sweep.started} processes of shards were started in {seconds:.0f} s: " + ended(sweep, status))
    print(f"of {len(sweep.seen)} answers that were there at a kill, {len(repeated)} were asked again; {len(lost)} lost")
    amiss = [*lost, *(f"{key} was asked again" for key in repeated), *sweep.amiss]
    print("\n".join(["amiss:", *amiss] if amiss else ["nothing is amiss"]))
    return 1 if amiss or status not in (0, 1) else 0


def ended(sweep: KilledSweep, status: int) -> str:
    """How the last launcher ended."""
    if status == -1:
        return f"not at its end in time, {len(sweep.there)} questions are answered"
    return f"status {status}, {sweep.lines.strip().splitlines()[-1]}"


if __name__ == "__main__":
    raise SystemExit(main())
