"""Runs on disk: reading, writing, merging, verifying, comparing, and their history."""

from attnsuite.results.format import verify
from attnsuite.results.merge import MergeResult, merge
from attnsuite.results.recorded import MachineRecord, load, machines, read, read_machine
from attnsuite.results.writer import RunWriter, finished_shard, named, open_run

__all__ = [
    "MachineRecord",
    "MergeResult",
    "RunWriter",
    "finished_shard",
    "load",
    "machines",
    "merge",
    "named",
    "open_run",
    "read",
    "read_machine",
    "verify",
]
