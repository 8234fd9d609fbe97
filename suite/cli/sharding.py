"""What `--shard i/n` does to `check` and `bench`: a folder for each part, which runs only until it is complete."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from attnsuite.cli.targets import Tell
from attnsuite.model import Measurement, Outcome, Run, Shard
from attnsuite.results import finished_shard

Row = TypeVar("Row", Outcome, Measurement)


def place(results: Path, shard: Shard | None) -> Path:
    """Where a shard is stored: in a folder of its own, so that all may run at once."""
    return results / shard.folder if shard else results


def stored(results: Path | None, run: Run, kind: type[Row], tell: Tell) -> list[Row] | None:
    """The rows of a shard that is complete; None of one that is not, and without a shard."""
    if results is None or not run.shard:
        return None
    folder = place(results, Shard.read(run.shard))
    rows = finished_shard(folder, run)
    if rows is None:
        return None
    kept = [row for row in rows if isinstance(row, kind)]
    tell(f"the shard {run.shard} is complete already in {folder}: {len(kept)} rows, nothing runs again")
    return kept


def empty(shard: Shard | None, what: str, units: int) -> str:
    """The hint that a shard has nothing to run, of `units` that are divided.

    That is no failure: a hash divides them, so that it happens with few shards, too, and the others run everything. In
    a matrix of jobs the one of an empty shard must pass, and `merge` needs its empty run.
    """
    if shard is None:
        return ""
    idle = f", so {units:,} of {shard.count:,} shards at most have anything" if units < shard.count else ""
    divided = f"{what} are divided, of which there {'is' if units == 1 else 'are'} {units:,}"
    return f"nothing falls into the shard {shard}, which therefore checks nothing: {divided}{idle}"
