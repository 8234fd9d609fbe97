"""The origin of a page's numbers: machine, date, versions and commit of its runs."""

from __future__ import annotations

from attnsuite.model import Run
from attnsuite.report.cells import text
from attnsuite.report.page import Table, table

LONGEST_FACT = 600
"""Characters of a line about a run: the versions of a dozen libraries fit."""


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
        "shards": shards(run),
    }
    return table(("", ""), ((name, text(fact, LONGEST_FACT)) for name, fact in facts.items() if fact))


def shards(run: Run) -> str:
    """The shards that a run was merged from, and the missing ones; empty for a run without shards."""
    if not run.shards:
        return ""
    names = (f"{index}/{run.divided}" for index in range(1, run.divided + 1))
    missing = [name for name in names if name not in run.shards]
    without = f"; without {', '.join(missing)}" if missing else ""
    return f"merged from {len(run.shards)} of {run.divided} shards{without}"


def date(run: Run) -> str:
    """The day on which a run ended, or started if it was interrupted."""
    return (run.finished or run.started)[:10]


def torch(run: Run) -> str:
    """The version of torch: "torch 2.13.0"; empty without a version."""
    return f"torch {run.versions['torch']}" if "torch" in run.versions else ""
