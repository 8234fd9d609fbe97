"""Folders of shards, as tests of merging need them."""

from pathlib import Path

from builders import measured
from msgspec.structs import replace
from stored import MACHINE, RUN, outcome, record

from attnsuite.model import ContractFacts, Facts, Measurement, Outcome, Run, WorkloadFacts

CASES = ("large", "plain", "ragged", "small")
"""The cases of the check that is divided, one for each shard."""
FACTS = Facts(
    contracts={"attention": ContractFacts("matmul")},
    workloads={"attention": {f"ladder/{name}": WorkloadFacts("ladder", name, "why", 1) for name in ("1k", "2k")}},
)
SOURCES = {"attention/loops": "1a" * 6, "attention/matmul": "2b" * 6}
CHECK = replace(RUN, sources=SOURCES, suite="5e" * 6, commit="ab" * 6, request="check on cpu", facts=FACTS)
BENCH = replace(CHECK, request="bench quick on cpu")
OTHER = replace(MACHINE, name="xeon-2-cores", processor="Xeon")
"""Another machine than that of these runs."""


def shard(index: int, count: int = 4, of: Run = CHECK, **others: object) -> Run:
    """The run of one shard, which begins a minute after the one before."""
    begun = {"id": f"r{index}", "started": f"2026-01-02T03:0{index}:00+00:00"}
    return replace(of, shard=f"{index}/{count}", **{**begun, **others})


def stored(place: Path, index: int, *records: Outcome | Measurement, of: Run = CHECK, **others: object) -> Path:
    """The folder of one of four shards, with the outcome of its case, or with other records."""
    folder = place / f"shard-{index}-of-4"
    record(folder, shard(index, of=of, **others), *(records or [outcome(CASES[index - 1], seconds=0.1)]))
    return folder


def timed(place: Path, index: int) -> Path:
    """The folder of one of four shards of a benchmark, with a timed table in which one implementation is faster."""
    table = {"workload": f"ladder/{index % 2 + 1}k", "dtype": ("float32", "float64")[index // 3]}
    rows = [
        measured(name, seconds=seconds, stopped="budget", **table)
        for name, seconds in (("loops", 0.2), ("matmul", 0.1))
    ]
    return stored(place, index, *rows, of=BENCH)
