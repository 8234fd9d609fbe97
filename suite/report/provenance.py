"""The runs that the numbers of a page come from: machine, date, versions, commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnsuite.model import Run
from attnsuite.report.cells import NOTHING, text
from attnsuite.report.page import Note, Table, note, table

LONGEST_FACT = 600
"""Characters of a line about a run: the versions of a dozen libraries fit."""
OF_RUN = ("run started", "torch", "commit")
"""The columns that tell one run from another."""


def of_run(run: Run) -> tuple[object, ...]:
    """The cells of a run in the columns OF_RUN."""
    return run.started, run.versions.get("torch", NOTHING), run.commit or NOTHING


def run_table(run: Run) -> Table:
    """The table at the top of a page: machine, system, date, versions and commit of a run."""
    machine = run.machine
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
    facts = {
        "machine": f"{machine.processor}, {machine.cores} cores, {machine.threads} threads, {memory}",
        "accelerators": ", ".join(machine.accelerators) or "none",
        "system": machine.system,
        "date": run.finished or f"{run.started} (not finished)",
        "versions": ", ".join(f"{name} {version}" for name, version in run.versions.items()),
        "commit": run.commit or "unknown",
        "merged": shards(run),
    }
    return table(("", ""), ((name, text(fact, LONGEST_FACT)) for name, fact in facts.items() if fact))


def shards(run: Run) -> str:
    """Of which shards a run was merged, and without which of them; empty where it was not."""
    count = run.divided if run.shards else 0
    without = [name for name in (f"{index}/{count}" for index in range(1, count + 1)) if name not in run.shards]
    lacking = f"; not answered on this machine: {', '.join(without)}" if without else ""
    return f"of {len(run.shards)} of {count} shards{lacking}" if count else ""


def run_note(run: Run) -> Note:
    """The same in one paragraph."""
    *facts, last = (f"{name.words}: {fact.words}" for name, fact in run_table(run).rows)
    return note(*(f"{fact}; " for fact in facts), f"{last}.", longest=LONGEST_FACT)


def date(run: Run) -> str:
    """The day on which a run ended, or started if it was interrupted."""
    return (run.finished or run.started)[:10]


def dates(runs: Iterable[Run]) -> str:
    """One day, or the first and the last: "2026-11-21 to 2026-11-22"."""
    days = sorted({date(run) for run in runs})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def torch(runs: Iterable[Run]) -> str:
    """The versions of torch: "torch 2.13.0"; empty if no run notes one."""
    found = [run.versions["torch"] for run in runs if "torch" in run.versions]
    return f"torch {' and '.join(dict.fromkeys(found))}" if found else ""


def when(runs: Sequence[Run]) -> str:
    """The days, as they follow the word "measured": "on 2026-11-22", "from 2026-11-21 to 2026-11-22"."""
    days = dates(runs)
    return f"from {days}" if " to " in days else f"on {days}"


def sentence(runs: Sequence[Run]) -> str:
    """When and with what numbers were measured: "Measured on 2026-11-22 with torch 2.13.0, commit abc123."."""
    commits = list(dict.fromkeys(run.commit or "unknown" for run in runs))
    used = " with ".join(filter(None, (f"Measured {when(runs)}", torch(runs))))
    return f"{used}, commit{'s' * (len(commits) > 1)} {' and '.join(commits)}."
