"""Facts that runs store with their rows: contracts, declarations, samples, known bugs; and the origin of a page."""

from collections import Counter, defaultdict

from attnsuite.model import ContractFacts, Facts, FindingFacts, Measurement, Outcome, Run
from attnsuite.report.page import Table, table, text
from attnsuite.results import MachineRecord


def contracts(recorded: MachineRecord) -> dict[str, ContractFacts]:
    """Each contract with rows. Removed cases stay, because older rows need them."""
    merged: dict[str, ContractFacts] = {}
    for run, rows in _newest_first(recorded):
        for name in sorted({row.contract for row in rows}):
            newer, older = merged.get(name, ContractFacts()), run.facts.contracts.get(name, ContractFacts())
            why = {**newer.why, **older.why, **newer.why}
            merged[name] = ContractFacts(newer.baseline or older.baseline, why)
    return merged


def declared(recorded: MachineRecord) -> dict[str, Facts]:
    """By implementation, the facts of the newest run that checked it."""
    return {outcome.implementation: recorded.runs[run].facts for run, outcome in _oldest_first(recorded)}


def _oldest_first(recorded: MachineRecord) -> list[tuple[str, Outcome]]:
    order = {run: place for place, run in enumerate(recorded.runs)}
    return sorted(recorded.rows, key=lambda row: order[row[0]])


def sampled(recorded: MachineRecord) -> dict[str, tuple[int, int]]:
    """Implementations that their newest run tested on a sample: the number of tests in it, and of all tests."""
    newest = {outcome.implementation: run for run, outcome in _oldest_first(recorded)}
    tests = Counter(outcome.implementation for run, outcome in recorded.rows if run == newest[outcome.implementation])
    whole = {name: recorded.runs[run].facts.sampled.get(name, 0) for name, run in newest.items()}
    return {name: (tests[name], number) for name, number in sorted(whole.items()) if number}


def findings(recorded: MachineRecord) -> dict[str, FindingFacts]:
    """Each known bug, from the newest run that has it."""
    return {name: bug for run in recorded.runs.values() for name, bug in run.facts.findings.items()}


def _newest_first(recorded: MachineRecord) -> list[tuple[Run, list[Outcome | Measurement]]]:
    """The runs with their rows, the newest first."""
    rows_by_run: dict[str, list[Outcome | Measurement]] = defaultdict(list)
    rows: tuple[tuple[str, Outcome | Measurement], ...] = (*recorded.rows, *recorded.measured)
    for identity, row in rows:
        rows_by_run[identity].append(row)
    return [(run, rows_by_run[run.id]) for run in reversed(recorded.runs_of(rows_by_run))]


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
