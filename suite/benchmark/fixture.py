"""Workloads timed by pytest-benchmark's fixture, with the inputs, gate and verification of `attnsuite bench`."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from random import Random
from time import perf_counter
from typing import Any

import pytest
import torch
from msgspec import structs

from attnsuite import registry
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.failures import changed_threads, failure
from attnsuite.benchmark.measure.messages import Failed
from attnsuite.benchmark.measure.task import Task
from attnsuite.benchmark.participant import is_approximate
from attnsuite.benchmark.request import Implementation, Request, Table, declaration_of
from attnsuite.benchmark.table import takes_too_long, verified
from attnsuite.conformance.session import alone
from attnsuite.contracts import contract as contract_named
from attnsuite.model import DIRECTIONS, DTYPES, Measurement, Status, UsageError
from attnsuite.model.rows import lean
from attnsuite.registry import Broken, Loaded, Missing, undisturbed

AXES = ("implementation", "workload", "dtype", "direction")
"""The parameters of a test, for `--benchmark-group-by=param:workload`."""
VERIFIED = 1
"""The round on whose inputs an output is verified after round 0 was timed."""


@cache
def timer(device: str) -> Callable[[], float]:
    """perf_counter of the moment when a CUDA device has done all its work. The same for every test."""

    def synchronised_perf_counter() -> float:
        torch.cuda.synchronize(device)
        return perf_counter()

    return synchronised_perf_counter


@dataclass(frozen=True)
class Plan:
    """What to time, on which device. `dtypes`, if any, replace those that a workload names."""

    workloads: tuple[str, ...] = ()
    profile: str | None = None
    device: str = "cpu"
    directions: tuple[str, ...] = DIRECTIONS[:1]
    dtypes: tuple[str, ...] = ()
    _gates: dict[str, Gate] = field(default_factory=dict, repr=False, compare=False)

    @property
    def request(self) -> Request:
        """The plan as `attnsuite bench` has it: without directions and dtypes. UsageError for what does not exist."""
        return Request(self.workloads, self.profile, self.device, cache="hot")

    def tables(self, contract: str) -> list[Table]:
        """The tables, workload by workload. UsageError for what does not exist, and where there is none."""
        for what, known, named in (("direction", DIRECTIONS, self.directions), ("dtype", DTYPES, self.dtypes)):
            if unknown := [each for each in named if each not in known]:
                raise UsageError(f"unknown {what} {unknown[0]!r}; there are: {', '.join(known)}")
        request = self.request
        one = replace(request, threads=(1,) if request.kind == "cpu" else ())
        by_workload = {table.workload.name: table for table in one.tables(contract_named(contract))}
        tables = [
            replace(table, dtype=dtype, direction=direction)
            for table in by_workload.values()
            for dtype in self.dtypes or table.workload.dtypes[request.kind]
            for direction in self.directions
            if direction in table.workload.directions
        ]
        if not tables:
            raise UsageError(f"{contract} is not timed {', '.join(self.directions)} on these workloads")
        return tables

    def gate(self, contract: str) -> Gate:
        """The gate of a contract, one for all implementations that are timed by this plan."""
        if contract not in self._gates:
            self._gates[contract] = Gate(contract_named(contract), self.device, self.request.time_limit)
        return self._gates[contract]


def speed_test(implementations: Sequence[Implementation], plan: Plan, contract: str) -> Callable[..., None]:
    """A test with one parameter set per implementation and table, for pytest-benchmark's fixture.

    Raises UsageError for what does not exist, and where nothing is to be timed.
    """
    tables = plan.tables(contract)
    speeds = [Speed(each, plan.device, plan.request.slowest, plan.gate(contract)) for each in implementations]
    sets = {
        (speed.name, table.workload.name, table.dtype, table.direction): (speed, table)
        for speed in speeds
        for table in tables
    }
    unsaid = 1 if len(speeds) == 1 else 0  # of the key's parts: the test's own name names the implementation
    parameters = [
        pytest.param(*key, id="-".join(key[unsaid:]), marks=_mark(speed.row(table)))
        for key, (speed, table) in sets.items()
    ]

    @pytest.mark.parametrize(AXES, parameters)
    def test_speed(
        benchmark: Any,
        request: pytest.FixtureRequest,
        implementation: str,
        workload: str,
        dtype: str,
        direction: str,
    ) -> None:
        speed, table = sets[implementation, workload, dtype, direction]
        judge(speed.measured(table, Stage(benchmark, request)), benchmark)

    test: Callable[..., None] = test_speed
    return test


@dataclass
class Stage:
    """pytest-benchmark's fixture in one test, and the options of its command line."""

    benchmark: Any
    request: pytest.FixtureRequest

    def time(self, task: Task, expected: float) -> None:
        """Time a task: as pytest-benchmark calibrates it, or round by round where something untimed comes first.

        Rounds of the latter kind are as many as take `--benchmark-max-time`, at least `--benchmark-min-rounds`.
        """
        before = task.before
        if before is None:
            self.benchmark(task.call, None)
            return
        longest, fewest = (self.request.config.getoption(f"benchmark_{name}") for name in ("max_time", "min_rounds"))
        rounds = max(int(fewest), math.ceil(float(longest) / max(expected, 1e-9)))
        self.benchmark.pedantic(task.call, setup=lambda: ((before(),), {}), rounds=rounds)

    def waits_for(self, device: str) -> bool:
        """Whether its timer is the device's: a mark of the user's own replaces ours, timer and all."""
        mark = self.request.node.get_closest_marker("benchmark")
        waiting = mark is not None and mark.kwargs.get("timer") is timer(device)
        return waiting or torch.device(device).type == "cpu"


@dataclass
class Speed:
    """One implementation, timed in this process. It is imported and tested when it is first timed.

    A call that takes longer than `slowest` seconds is not timed.
    """

    implementation: Implementation
    device: str
    slowest: float
    gate: Gate
    random: Random = field(default_factory=Random)

    @property
    def name(self) -> str:
        return declaration_of(self.implementation).full_name

    def row(self, table: Table, failed: Failed | None = None) -> Measurement:
        """The row without times, which pytest-benchmark has, or the reason why there are none."""
        return table.row(self.name, self.gate.contract.name, self.device, failed)

    def measured(self, table: Table, stage: Stage) -> Measurement:
        """Time the implementation, or return why it may not be timed."""
        loaded = self._loaded
        if not isinstance(loaded, Loaded):
            return self.row(table, Failed(loaded.status, loaded.reason))
        if failed := self._refusal(loaded, table, stage):
            return self.row(table, failed)
        with alone(self.device), undisturbed(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            threads = torch.get_num_threads()
            row = self._timed(loaded.function, table.under(loaded.declaration), stage)
            row = changed_threads(threads) or row
        return self.row(table, row) if isinstance(row, Failed) else row

    def _refusal(self, loaded: Loaded, table: Table, stage: Stage) -> Failed | None:
        """Why it may not be timed in a table; None where it may."""
        if failed := table.unsupported(loaded.declaration, self.gate.contract, torch.device(self.device).type):
            return failed
        features = table.features(self.gate.contract)
        self.gate.test([self.implementation], [(table.dtype, features)])
        if failed := self.gate.refusal(self.name, table.dtype, features):
            return failed
        if stage.waits_for(self.device):
            return None
        detail = "pytest.mark.benchmark took the place of the timer that waits for the device; use the command line"
        return Failed(Status.REFUSED, detail)

    @cached_property
    def _loaded(self) -> Loaded | Missing | Broken:
        if isinstance(self.implementation, Loaded):
            return self.implementation
        try:
            return registry.load(self.implementation)
        except UsageError as error:  # the function that was named is not there
            return Broken(self.implementation, str(error))

    def _timed(self, function: Callable[..., Any], table: Table, stage: Stage) -> Measurement | Failed:
        """The row, without the times. What the function raises is its failure."""
        row = structs.replace(self.row(table), work=dict(table.workload.work(table.dtype, table.direction)))
        try:
            task = Task(function, table.workload, table.dtype, table.direction, self.device, table.cache)
            expected = 0.0
            if stage.benchmark.enabled:
                first_call = task.stopwatch.first_call()
                warm_up, expected = task.stopwatch.warm_up()
                row = structs.replace(row, first_call=first_call, warm_up=warm_up)
            if failed := takes_too_long(expected, self.slowest):
                return failed
            stage.time(task, expected)
            ratio = self._verified(task, table)
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:
            return failure(error)
        return ratio if isinstance(ratio, Failed) else structs.replace(row, error_ratio=ratio)

    def _verified(self, task: Task, table: Table) -> float | Failed:
        """Compare rows of one more call, on other numbers in the same memory, with the oracle."""
        rows = table.workload.rows(table.direction, self.random)
        task.overwrite(VERIFIED)
        task.stopwatch.sample(1)
        approximate = is_approximate(declaration_of(self.implementation))
        return verified(table, VERIFIED, rows, task.found(rows), "after it was timed its answer was wrong", approximate)


def _mark(row: Measurement) -> pytest.MarkDecorator:
    """The group that pytest-benchmark shows it in, and its timer on a GPU."""
    own = {"timer": timer(row.device)} if torch.device(row.device).type == "cuda" else {}
    return pytest.mark.benchmark(group=row.group, disable_gc=True, **own)


def judge(row: Measurement, benchmark: Any) -> None:
    """Store the row with the times; or leave no time, and skip, fail or expect the failure with the reason."""
    if row.status == Status.MEASURED:
        benchmark.extra_info.update(lean(row), torch=torch.__version__)
        return
    _discard(benchmark)
    if row.known:
        pytest.xfail(f"known as {row.known}: {row.detail}")
    if row.fails:
        where = f"{row.implementation} {row.workload} ({row.dtype}, {row.direction})"
        pytest.fail(f"{where}: {row.status}: {row.detail}", pytrace=False)
    pytest.skip(f"{row.implementation}: {row.status}: {row.detail}")


def _discard(benchmark: Any) -> None:
    """Leave no time in tables and files, and no warning that the fixture was not used."""

    def no_time() -> None:
        raise RuntimeError

    with suppress(Exception):
        benchmark.pedantic(no_time)  # it raises also where the fixture was used before, and either is an error in files
    if benchmark.stats:
        benchmark.stats.stats.data.clear()
