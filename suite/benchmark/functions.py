"""`attnsuite.bench`: functions as they are, without names, files or a command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch

from attnsuite import registry
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Measurement, UsageError
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.registry import Loaded


def bench(
    function: Callable[..., Any] | Iterable[Callable[..., Any]],
    contract: str = "attention",
    workloads: str | Iterable[str] | None = None,
    device: str | torch.device = "cpu",
    *,
    profile: str | None = None,
    backward: bool = False,
    cache: str | None = None,
    threads: int | Iterable[int] = (),
    budget: float | None = None,
    time_limit: float = TIME_LIMIT,
    step: bool = False,
) -> list[Measurement]:
    """Time a function, or several against each other, on a contract's workloads and return a Measurement for each.

    `workloads` are names, groups or patterns (`"ladder"`), by default those of the profile `quick`. Each function
    is timed in a process of its own; one that no other process can import (a lambda, a closure) is timed in this one,
    and its rows say so. `cache` is hot or cold, `threads` are thread counts on a CPU, `budget` is in seconds of timed
    calls for each in each table, `time_limit` in seconds for an answer. `backward` times gradients too, `step`
    training steps, of models and blocks that have one. A function that fails the contract there is `refused`. Functions
    of one name get numbers: `attention`, `attention-2`. Raises UsageError for an unknown contract, workload, profile or
    device.
    """
    given: object = function
    functions = [function] if callable(function) else list(given) if isinstance(given, Iterable) else []
    if not functions or not all(map(callable, functions)):
        came = type(function).__name__ if functions or not isinstance(given, Iterable) else "none at all"
        raise UsageError(f"attnsuite.bench takes a function or several, not {came}")
    patterns = (workloads,) if isinstance(workloads, str) else tuple(workloads or ())
    counts = (threads,) if isinstance(threads, int) else tuple(threads)
    request = Request(patterns, profile, str(device), backward, cache, counts, time_limit, budget, step)
    implementations = with_unique_names([registry.from_function(each, contract) for each in functions])
    benchmark = Benchmark(contract_named(contract), implementations, request)
    return [row for _, rows in benchmark.run() for row in rows]


def with_unique_names(implementations: Iterable[Loaded]) -> list[Loaded]:
    """The implementations, those after the first of a name under the name and a number."""
    seen: Counter[str] = Counter()
    found = []
    for each in implementations:
        of = each.declaration
        seen[of.name] += 1
        name = of.name if seen[of.name] == 1 else f"{of.name}-{seen[of.name]}"
        found.append(replace(each, declaration=replace(of, name=name)))
    return found
