"""What is unlike between two runs beside what they measured: versions of libraries, the system, drivers, sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attnsuite.model import KeptRun, Run, Snapshot

NONE = "none"
"""What stands for the version of what is not installed."""


def marked(kept: Sequence[Snapshot]) -> Iterator[KeptRun]:
    """The runs of one machine in their order, each with what is unlike the one before."""
    before: Run | None = None
    for run in (each.run for each in kept):
        found = tuple(surroundings(before, run)) if before else ()
        yield KeptRun(run.id, run.machine.name, run.started, run.commit, dict(run.versions), found)
        before = run


def surroundings(before: Run, now: Run) -> Iterator[str]:
    """What is unlike around the sources: `torch 2.12.0 → 2.13.0`."""
    yield from _unlike(before.versions, now.versions)
    facts = {"system": before.machine.system}, {"system": now.machine.system}
    yield from _unlike(*facts)
    yield from _unlike(_driver(before), _driver(now))


def sources(before: Run, now: Run, implementation: str, baseline: str) -> Iterator[str]:
    """Which of the two have another source now."""
    names = {implementation: "its source changed", baseline: f"the source of the baseline {baseline} changed"}
    for name, says in names.items():
        if name and before.sources.get(name) != now.sources.get(name):
            yield says


def breaks(before: Run, now: Run, baseline: str) -> bool:
    """Whether what a ratio refers to may be another now."""
    return any(surroundings(before, now)) or bool(
        baseline and before.sources.get(baseline) != now.sources.get(baseline)
    )


def _driver(run: Run) -> dict[str, str]:
    driver = run.machine.accelerator_facts.get("driver")
    return {"driver": str(driver)} if driver else {}


def _unlike(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            yield f"{name} {before.get(name, NONE)} → {now.get(name, NONE)}"
