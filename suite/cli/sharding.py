"""`--shard i/n` of `check` and `bench`: each part has a folder of its own, and a complete part does not run again."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from attnsuite.cli.targets import Hint
from attnsuite.model import Measurement, Outcome, Run, Shard
from attnsuite.results import finished_shard

Row = TypeVar("Row", Outcome, Measurement)


def place(results: Path, shard: Shard | None) -> Path:
    """The folder of a shard, or `results` without one. Shards have folders of their own, so all can run at once."""
    return results / shard.folder if shard else results


def stored(results: Path | None, run: Run, kind: type[Row], hint: Hint) -> list[Row] | None:
    """The rows of a complete shard; None for an incomplete one, and without a shard."""
    if results is None or not run.shard:
        return None
    folder = place(results, Shard.read(run.shard))
    rows = finished_shard(folder, run)
    if rows is None:
        return None
    stored_rows = [row for row in rows if isinstance(row, kind)]
    hint(f"shard {run.shard} is already complete in {folder}: {len(stored_rows)} rows, nothing runs again")
    return stored_rows


def empty(shard: Shard | None, what: str, units: int) -> str:
    """The hint that none of the `units` fell into a shard; empty without a shard.

    An empty shard is no failure, because the other shards run everything. Its CI job must pass, and merging needs its
    empty run.
    """
    if shard is None:
        return ""
    few = f" of {units:,}" if units < shard.count else ""
    return f"shard {shard} has nothing to run: {what} are divided by a hash, and none{few} fell into it"
