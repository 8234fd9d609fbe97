"""A run of a minute, and rows of each kind in which nothing is amiss: each test makes one thing so."""

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from stored import MACHINE, RUN, folder, measurement

from attnsuite.model import Claimed, ContractFacts, Evidence, Facts, Holds, Learned, WorkloadFacts
from attnsuite.results.store import verify

NOW = datetime.now(UTC)
FACTS = Facts(
    {"attention": ContractFacts(cases={"a": (), "b": ()}, baseline="loops")},
    findings={"pt-1": "in words"},
    workloads={"attention": {"ladder/1k": WorkloadFacts("ladder", "", "", 1024)}},
)
HONEST = replace(
    RUN,
    started=(NOW - timedelta(seconds=60)).isoformat(timespec="seconds"),
    machine=replace(MACHINE, accelerators=()),
    commit="",
    sources={"attention/loops": "0123456789ab"},
    suite="ba9876543210",
    facts=FACTS,
)
"""A run that took a minute."""
CEILINGS = {"flops": 1e9, "bytes": 1e9}
WORK = {"attended": 1e6, "convention": 1e6, "bytes": 1e6}


def claim(*of, evidence=Evidence.EXACT, holds=Holds.HOLDS, samples=()):
    words = ("claims/t", "t/a", "cpu", "doc-1", "1", "says", "quantity", "at most 3")
    return Claimed(*words, evidence, holds, *of, samples=samples)


def trained(**others):
    of = {"curve": (2.0, 1.0), "scores": {"accuracy": 0.5}, "config": {"epochs": 2}, "seconds": 3.0, **others}
    return Learned("attention/loops", "recall", 0, "cpu", **of)


def timed(workload="ladder/1k", **others):
    """A measurement with all that is measured beside a time."""
    whole = {"calls": 1, "error_ratio": 0.5, "stopped": "budget", "first_call": 0.5, "warm_up": 0.0}
    return measurement(workload, **{**whole, "work": WORK, "ceilings": CEILINGS, **others})


def refusals(results):
    return [str(each).removeprefix(f"{folder(results)}/") for each in verify(folder(results)).refusals]
