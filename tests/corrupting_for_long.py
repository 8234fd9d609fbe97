"""Corrupts every file of a small copy of the results, again and again: `python tests/corrupting_for_long.py --help`."""

from __future__ import annotations

import argparse
import time
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from corrupting import Corrupter, copied, remembered

CHUNK = 20
"""Corruptions of a file before the next one's: where time runs out, all files have had about as many."""


def corrupted(times: int, seed: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """So many corruptions of each file, or fewer where the seconds are over: counts by file, and what was missed."""
    until, counts, amiss = time.monotonic() + seconds, Counter[str](), list[str]()
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        remembered(patch)
        corrupter = Corrupter(copied(Path(folder) / "results"), seed)
        for chunk in range(0, times, CHUNK):
            for name in corrupter.files:
                for _ in range(min(CHUNK, times - chunk)):
                    if time.monotonic() > until:
                        return counts, amiss
                    amiss += _once(corrupter, name, counts)
            print(
                f"{chunk + CHUNK} of {times} for each of {len(corrupter.files)} files; amiss: {len(amiss)}", flush=True
            )
    return counts, amiss


def _once(corrupter: Corrupter, name: Path, counts: Counter[str]) -> list[str]:
    """What is amiss with one corruption: it changed what is shown and was not found, or something crashed."""
    counts[str(name)] += 1
    try:
        what, found, changed = corrupter.missed(name)
    except Exception:
        corrupter.restore()
        return [f"{name}: {traceback.format_exc()}"]
    counts["that were found"] += found
    return [f"{name}: {what}"] if changed else []


def main() -> int:
    """Corrupt, and say what came of it; 1 where anything is amiss."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--times", type=int, default=1000, help="corruptions of each file")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--seconds", type=float, default=float("inf"), help="after which no more are begun")
    asked = options.parse_args()
    counts, amiss = corrupted(asked.times, asked.seed, asked.seconds)
    for name, count in counts.items():
        print(f"{count:7d} {name}")
    print("\n".join(["amiss:", *amiss] if amiss else ["nothing is amiss"]))
    return 1 if amiss else 0


if __name__ == "__main__":
    raise SystemExit(main())
