"""What `--shard i/n` does to `check` and `bench`: a folder for each part, which says when it is answered already."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from attnsuite.model import Measurement, Outcome, Run, Shard
from attnsuite.results.store.shards import answered


def place(results: Path, shard: Shard | None) -> Path:
    """Where a shard is stored: in a folder of its own, so that all may be asked at once."""
    return results / shard.folder if shard else results


def of(run: Run, shard: Shard | None) -> Run:
    """The run, which says that it is a part."""
    return replace(run, shard=str(shard or ""))


def outcomes_there(results: Path, run: Run) -> list[Outcome] | None:
    """The outcomes of a shard that is answered already; None of one that is not, and without a shard."""
    there = answered(results, run) if run.shard else None
    return None if there is None else [each for each in there if isinstance(each, Outcome)]


def measurements_there(results: Path, run: Run) -> list[Measurement] | None:
    """The measurements of a shard that is answered already; None of one that is not, and without a shard."""
    there = answered(results, run) if run.shard else None
    return None if there is None else [each for each in there if isinstance(each, Measurement)]


def said_of_none(shard: Shard | None, what: str, units: int) -> str:
    """What is said where nothing of what is asked falls into a shard, none of the so many `units` that are divided.

    That is no failure. A hash divides them, so that it happens to one of few shards, too, and its whole is asked all
    the same: a matrix of jobs in which each asks one shard must not fail for it, and `merge` needs its empty run.
    """
    if shard is None:
        return ""
    idle = f", so {units:,} of {shard.count:,} shards at most have anything" if units < shard.count else ""
    divided = f"what is asked is divided by {what}, of which there {'is' if units == 1 else 'are'} {units:,}"
    return f"nothing falls into the shard {shard}, which therefore checks nothing: {divided}{idle}"


def said_of_answered(results: Path, run: Run, rows: int) -> str:
    """What is said of a shard that is answered already."""
    return f"the shard {run.shard} is answered already in {results}: {rows} rows, nothing is asked again"
