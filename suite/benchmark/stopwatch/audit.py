"""The audit of the stopwatch: tables on one thread and on all cores, and other stopwatches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from time import perf_counter

from attnsuite.benchmark.processes import cores
from attnsuite.benchmark.request import BUDGETS
from attnsuite.benchmark.stopwatch.agreement import TRITON, no_triton, with_torch, with_triton
from attnsuite.benchmark.stopwatch.tables import CONTRACT, AuditTable
from attnsuite.cases import Workload
from attnsuite.contracts import contract
from attnsuite.model.audit import Agreement, StopwatchAudit, Trial, percent

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """The amount of measurement; the rest (sample lengths, when to stop) is as in every benchmark.

    38 tables of 8 identical implementations make 304 comparisons on one thread, and 38 of each slowdown: if all are
    found, the true share lies above 90 %. On all cores there are half as many. With the baseline and three slowed ones
    a table has 12 participants, as many as implementations ship here, each in a process of its own.
    """

    tables: Mapping[int, int] = field(default_factory=lambda: {len(cores()): 19} | {1: 38})
    """Number of tables by number of threads, each of the next workload in a cycle."""
    identical: int = 8
    workloads: tuple[str, ...] = ("documents/one-sentence", "decode/1k", "vit/b16", "ladder/1k")
    """From 25 µs to a few milliseconds a call, dominated by the overhead of calls, memory, products, or a softmax
    larger than the caches."""
    budget: float = BUDGETS["standard"]
    agreement: tuple[str, ...] = (
        "documents/one-sentence", "documents/encoder-block", "documents/translation", "decode/1k", "vit/b16",
        "decode/8k", "ladder/1k", "flash-small/1k-e64-causal", "ladder/4k",
    )  # fmt: skip
    agreement_on_cuda: tuple[str, ...] = (
        "documents/fashion-vit", "vit/b16-batch8", "decode/8k", "ladder/4k", "flash/512-e64", "flash/2k-e128-causal",
    )  # fmt: skip
    agreement_budget: float = 2.0
    """Seconds for each callable."""


def audit(plan: Plan, progress: Progress = lambda _: None, random: Random | None = None) -> StopwatchAudit:
    """Run the audit, one table after the other."""
    random, started = random or Random(), perf_counter()
    trials, failed = _trials(plan, progress, random)
    agreements = _reported(with_torch(named(plan.agreement), plan.agreement_budget, random), progress)
    missing_library = {TRITON: reason} if (reason := no_triton()) else {}
    if not missing_library:
        agreements += _reported(with_triton(named(plan.agreement_on_cuda), plan.agreement_budget, random), progress)
    return StopwatchAudit(trials, agreements, failed, missing_library, perf_counter() - started)


def _trials(plan: Plan, progress: Progress, random: Random) -> tuple[list[Trial], list[str]]:
    trials: list[Trial] = []
    failed: list[str] = []
    workloads, total = named(plan.workloads), sum(plan.tables.values())
    for number, (turn, threads) in enumerate(_turns(plan)):
        table = AuditTable(number, workloads[turn % len(workloads)], threads, plan.identical)
        started = perf_counter()
        table.measure(plan.budget, random)
        trials += table.trials
        failed += table.failed
        progress(f"table {number + 1} of {total}, {perf_counter() - started:.1f} s: {_summary(table)}")
    return trials, failed


def _turns(plan: Plan) -> list[tuple[int, int]]:
    """The tables of each number of threads, counted from 0, spread evenly over the hours of the audit, so that changes
    of the machine affect all numbers of threads.
    """
    spread = {(turn, threads): (turn + 0.5) / count for threads, count in plan.tables.items() for turn in range(count)}
    return sorted(spread, key=lambda table: spread[table])


def named(names: Sequence[str]) -> list[Workload]:
    """The workloads of these names."""
    known = {workload.name: workload for workload in contract(CONTRACT).workloads()}
    return [known[name] for name in names]


def _summary(table: AuditTable) -> str:
    identical = [trial for trial in table.trials if not trial.injected]
    slower = [percent(trial.injected) for trial in table.trials if trial.injected and trial.claimed]
    rounds = max((trial.rounds for trial in table.trials), default=0)
    words = f"{table.workload.name}, threads {table.threads}, {rounds} rounds: "
    words += f"{sum(trial.claimed for trial in identical)} of {len(identical)} identical ones distinguished, "
    return words + (f"slower by {', '.join(sorted(slower))} found" if slower else "no slowdown found")


def _reported(agreements: Iterable[Agreement], progress: Progress) -> list[Agreement]:
    reported = []
    for agreement in agreements:
        callable_ = f"{agreement.implementation} on {agreement.workload}"
        progress(f"{agreement.tool}: {callable_}: our time is {agreement.ratio:.4f} of theirs")
        reported.append(agreement)
    return reported
