"""Benchmarks, of functions in this process."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from statistics import median
from typing import Any

import pytest
import torch
from builders import measured
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from workers import SUBMISSIONS

import attnsuite
from attnsuite import registry
from attnsuite.benchmark import Benchmark, Request, table
from attnsuite.benchmark.busy import Load
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import Ceilings, Energy, Job, NoResult, PreparedTask
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.series import with_unique_names
from attnsuite.benchmark.table import LongestCall, TimedTable, Timing
from attnsuite.contracts import contract
from attnsuite.model import EVERY_CASE, Measurement, Outcome, Status, UsageError
from attnsuite.registry import Declaration, from_function

CONTRACT = contract("attention")
TINY = "documents/one-sentence"
CAUSAL = "flash-small/512-e64-causal"


# In this process


CEILINGS = {("float32", 1): {"flops": 1e18, "bytes": 1e9}}
"""Those of no machine: to measure real ones takes seconds."""


def bench(*functions: Callable[..., Any], workloads: Sequence[str] = (TINY,), **more: Any) -> list[Measurement]:
    """The measurements of functions that no other process can import."""
    named = [from_function(function) for function in functions]
    assert not any(each.declaration.file or each.declaration.module for each in named)
    request = Request(tuple(workloads), budget=0.005, **more)
    of = Benchmark(CONTRACT, with_unique_names(named), request, ceilings=CEILINGS)
    return [row for _, rows in of.run() for row in rows]


def closure(name: str = "kernel") -> Callable[..., Tensor]:
    """An honest attention that no other process can import."""

    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return sdpa(query, key, value)

    kernel.__name__ = name
    return kernel


@pytest.fixture
def many_threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


@pytest.mark.slow
def test_a_closure_is_timed_here_and_its_row_says_so(many_threads: int) -> None:
    kernel = closure()

    random = torch.get_rng_state()
    (row,) = attnsuite.bench(kernel, workloads=TINY)

    assert (row.implementation, row.status, row.threads) == ("attention/kernel", "measured", 1)
    assert row.detail == "timed in the suite's process, because no other can import it; its memory is not measured"
    assert (row.memory, row.peak) == ({}, None)
    assert len(row.seconds) >= 12
    assert row.error_ratio is not None
    assert 0 < row.error_ratio < 2
    assert row.work["attended"] == 288
    assert row.ceilings == {}, "to measure them takes seconds, and there is one function"
    assert torch.get_num_threads() == many_threads, "what it needs for itself it puts back"
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.slow
def test_no_rate_exceeds_that_of_a_matrix_product_by_far(passed: Callable[..., list[Outcome]]) -> None:
    def refused(ceiling: float) -> str:
        known = {"attention/kernel": passed("attention/kernel")}
        ceilings = {("float32", 1): {"flops": ceiling, "bytes": 1e9}}
        of = Benchmark(CONTRACT, [from_function(closure())], Request((TINY,), budget=0.005), known, ceilings=ceilings)
        (row,) = (row for _, news in of.run() for row in news)
        assert (row.status, row.seconds == ()) in (("measured", False), ("refused", True))
        return row.detail if row.status == "refused" else ""

    assert re.fullmatch(r"it claims \S+ FLOPs per second; a matrix product reaches 1e\+03", refused(1e3))
    assert not refused(1e18)


@pytest.mark.parametrize(
    ("rate", "share", "status"),
    [(3.1, 0.0, "refused"), (3.1, 0.9, "unsupported"), (14.0, 0.9, "unsupported"), (16.0, 0.9, "refused")],
)
def test_a_low_ceiling_on_a_busy_machine_is_no_refusal(rate: float, share: float, status: str) -> None:
    """A tenth of two cores is free, so the ceiling may be five times too low, in addition to its slack."""
    of = Benchmark(CONTRACT, [], Request((TINY,)))
    flops = {"attended": 1e9 * rate}
    row = measured("a", TINY, seconds=1.0, work=flops, ceilings={"flops": 1e9, "bytes": 1e9})

    found = of._believed(of.tables()[0], row, Load(share, 2, 14.0))

    says = f"it claims {1e9 * rate:.3g} FLOPs per second; a matrix product reaches 1e+09"
    busy = "not bounded: the machine was busy (load 14 on 2 cores): " if status == "unsupported" else ""
    assert (found.status, found.detail, found.seconds) == (status, busy + says, ())


@pytest.mark.parametrize(("busy", "status"), [(1, "measured"), (2, "measured"), (3, "refused")])
def test_ceilings_below_a_row_are_measured_again(
    busy: int, status: str, passed: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = closure()

    reached = iter([1e3] * busy + [1e18])
    monkeypatch.setattr(Participant, "ceilings", lambda self, dtype: Ceilings({"flops": next(reached), "bytes": 1e9}))
    known = {"attention/kernel": passed("attention/kernel")}
    known["attention/other"] = passed("attention/other")
    both = with_unique_names([from_function(kernel), from_function(kernel)])
    both[1] = replace(both[1], declaration=replace(both[1].declaration, name="other"))
    of = Benchmark(CONTRACT, both, Request((TINY,), budget=0.005), known)
    rows = [row for _, news in of.run() for row in news]

    assert {row.status for row in rows} == {status}


@pytest.mark.slow
def test_functions_of_one_name_are_told_apart_and_timed_for_themselves() -> None:
    def made(wait: float) -> Callable[..., Tensor]:
        def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            time.sleep(wait)
            return sdpa(query, key, value)

        return kernel

    found = {row.implementation: row for row in bench(made(0.001), made(0.004), made(0.0))}

    assert list(found) == ["attention/kernel", "attention/kernel-2", "attention/kernel-3"]
    times = {name: median(row.seconds) for name, row in found.items()}
    assert times["attention/kernel-2"] >= 0.004
    assert 0.001 <= times["attention/kernel"] < times["attention/kernel-2"]
    assert times["attention/kernel-3"] < times["attention/kernel"]


@pytest.mark.slow
@pytest.mark.parametrize(("others", "beside"), [((), "attention/matmul (not shown)"), (("matmul",), None)])
def test_a_reference_is_timed_without_a_shipped_baseline(
    monkeypatch: pytest.MonkeyPatch, passed: Callable[..., list[Outcome]], others: Sequence[str], beside: str | None
) -> None:
    kernel = closure()

    raced, real = [], table.race

    def watched(entries: Any, *more: Any) -> int:
        found = real(entries, *more)
        *_, reference, _ = more
        of = reference and reference.participant
        raced.append(of and (of.name, of.shipped, of.function is not None, len(reference.seconds) > 1))
        return found

    monkeypatch.setattr(table, "race", watched)
    known = {name: passed(name) for name in ("attention/kernel", "attention/matmul")}
    named = [from_function(kernel), *(registry.find(others) if others else [])]
    of = Benchmark(CONTRACT, named, Request((TINY,), budget=0.005), known, ceilings=CEILINGS)
    rows = [row.implementation for _, news in of.run() for row in news]

    assert raced == [beside and (beside, True, True, True)], "in this process, as the other one"
    assert rows == ["attention/kernel", *(f"attention/{name}" for name in others)]


@pytest.mark.parametrize(
    ("status", "shipped", "ended"), [("error", False, True), ("unsupported", False, False), ("error", True, False)]
)
def test_processes_of_a_failed_submission_are_restarted(status: str, shipped: bool, ended: bool) -> None:
    class Raises:
        name, declaration, ends = "attention/raises", Declaration("attention", "raises", "attention", ""), 0

        def prepare(self, job: Job) -> NoResult:
            return NoResult(Status(status), "not today")

        def restart(self) -> None:
            self.ends += 1

    raises: Any = Raises()
    raises.shipped = shipped
    of = Benchmark(CONTRACT, [], Request((TINY,)))
    timing = Timing(CONTRACT, of.request, Gate(CONTRACT, "cpu", 60.0).refusal, Random(0))

    timed = timing._raced(next(iter(of.tables())), [raises], None)

    assert list(timed.failed) == ["attention/raises"]
    assert raises.ends == int(ended)


def test_after_a_timeout_no_larger_call_is_tried() -> None:
    """Each time would take the time limit: an hour for the tables of a GPU's profile."""
    prepared: list[str] = []

    class Hangs:
        name, declaration = "attention/hangs", Declaration("attention", "hangs", "attention", "")

        def prepare(self, job: Job) -> NoResult:
            prepared.append(job.workload)
            return NoResult(Status.TIMEOUT, "timeout: no answer within 60 s")

    order = ("ladder/2k", "ladder/4k", TINY, "documents/encoder-block")
    of = Benchmark(CONTRACT, [], Request(order))
    timing = Timing(CONTRACT, of.request, Gate(CONTRACT, "cpu", 60.0).refusal, Random(0))
    tables = {table.workload.name: table for table in of.tables()}
    hangs: Any = Hangs()
    said: list[Any] = [timing._prepared(hangs, tables[name]) for name in order]

    assert prepared == ["ladder/2k", TINY], "and of less work it is asked again"
    says = "too slow to time here: at least the work of ladder/2k forward, "
    says += "which gave no result within the time limit"
    assert (said[1].status, said[1].detail) == ("unsupported", says)
    assert said[3].status == "unsupported"


@pytest.mark.parametrize(
    ("seconds", "work", "slowest", "says"),
    [
        (3.8, 4e9, 5.5, "4 times the work of ladder/8k forward, which takes 3.8 s a call"),
        (3.8, 2.8e9, 5.5, ""),  # 10.6 s, which may be 5 s as well
        (6.0, 1e9, 5.5, "as much work of ladder/8k forward, which takes 6 s a call"),
        (6.0, 0.9e9, 5.5, ""),
        (0.1, 1e12, 5.5, ""),  # it may be what a call costs without any work
    ],
)
def test_what_would_take_far_too_long_is_not_tried(seconds: float, work: float, slowest: float, says: str) -> None:
    assert LongestCall("ladder/8k forward", seconds, 1e9).forbids(work, slowest) == says


def test_what_fails_the_contract_is_refused_where_that_matters() -> None:
    def unscaled(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return sdpa(query, key, value, scale=1.0)

    def never_causal(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool = False) -> Tensor:
        return sdpa(query, key, value)

    rows = {(row.implementation, row.workload): row for row in bench(unscaled, never_causal, workloads=(TINY, CAUSAL))}

    assert {key: row.status for key, row in rows.items()} == {
        ("attention/unscaled", TINY): "refused", ("attention/unscaled", CAUSAL): "unsupported",
        ("attention/never_causal", TINY): "measured", ("attention/never_causal", CAUSAL): "refused",
    }  # fmt: skip
    assert "the scores are not divided by √d" in rows["attention/unscaled", TINY].detail
    assert rows["attention/unscaled", CAUSAL].detail == "takes no is_causal"
    assert rows["attention/never_causal", CAUSAL].detail.startswith("it fails causal/")
    assert all(not row.seconds for row in rows.values() if row.status != "measured")


def test_a_user_s_interrupt_ends_a_benchmark_in_this_process(passed: Callable[..., list[Outcome]]) -> None:
    calls = 0

    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        if calls > 50:
            raise KeyboardInterrupt
        return sdpa(query, key, value)

    of = Benchmark(
        CONTRACT, [from_function(kernel)], Request((TINY,)), {"attention/kernel": passed("attention/kernel")}
    )
    with pytest.raises(KeyboardInterrupt):
        list(of.run())
    assert calls == 51


@pytest.mark.parametrize("given", [3, [], [sdpa, 3]])
def test_only_functions_are_benchmarked(given: Any) -> None:
    with pytest.raises(UsageError, match=r"attnsuite\.bench takes a function or several, not (int|none at all|list)"):
        attnsuite.bench(given)


# Again


@pytest.mark.slow
def test_what_is_done_is_not_measured_again(passed: Callable[..., list[Outcome]]) -> None:
    calls: Counter[int] = Counter()

    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        calls[query.shape[-2]] += 1
        return sdpa(query, key, value)

    both = [from_function(kernel), from_function(closure("other"))]
    of = Benchmark(
        CONTRACT, both, Request((TINY, "documents/encoder-block"), budget=0.005),
        {name: passed(name) for name in ("attention/kernel", "attention/other")}, ceilings=CEILINGS,
    )  # fmt: skip
    whole = [row for _, rows in of.run() for row in rows]
    keys = {row.key for row in whole}
    calls.clear()

    assert list(of.run(keys)) == []
    assert of.keys_to_measure(keys) == set()
    assert not calls, "not even the contract is asked again"

    half = [row.key for row in whole if row.workload == TINY] + [whole[-1].key]
    again = list(of.run(half))

    assert [(table and table.workload.name, len(rows)) for table, rows in again] == [("documents/encoder-block", 2)]
    assert of.keys_to_measure(half) == {row.key for _, rows in again for row in rows}, "a table is measured as a whole"
    assert 6 not in calls


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_whole_call_is_weighed_once_for_all_directions_but_forward(
    passed: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    declarations = registry.find([str(SUBMISSIONS / "honest.py")])
    asked: list[tuple[str, str]] = []
    measure_memory = Participant.measure_memory

    def watched(self: Participant, job: Job, *arguments: Any, **named: Any) -> Any:
        asked.append((job.workload, job.direction))
        return measure_memory(self, job, *arguments, **named)

    monkeypatch.setattr(Participant, "measure_memory", watched)
    workloads = TINY, "documents/encoder-block"
    request = Request(workloads, backward=True, budget=0.005)
    earlier = {declarations[0].full_name: passed(declarations[0].full_name)}

    of = Benchmark(CONTRACT, declarations, request, earlier, ceilings=CEILINGS)
    rows = [row for _, rows in of.run() for row in rows]

    assert [row.detail for row in rows if row.status != "measured"] == []
    found = {(row.workload, row.direction): row.memory for row in rows}
    assert len(found) == 6
    for workload in workloads:
        assert found[workload, "backward"] == found[workload, "forward_backward"]
        assert found[workload, "backward"]["output"] == 4 * (found[workload, "forward"]["output"] or 0) > 0
    assert sorted(asked) == [(w, d) for w in sorted(workloads) for d in ("backward", "forward")]


def test_what_is_missing_is_one_row_and_holds_nobody_up() -> None:
    missing_library = Declaration("attention", "absent", "f", file="/nowhere.py", requires=("nosuchlibrary",))
    broken = Declaration("attention", "broken", "f", file="/nowhere.py", broken="SyntaxError: invalid syntax")
    of = Benchmark(CONTRACT, [missing_library, broken], Request((TINY, "documents/encoder-block"), budget=0.005))

    found = list(of.run())

    assert [table and table.workload.name for table, _ in found] == [None, TINY, "documents/encoder-block"]
    assert found[1][1] == found[2][1] == []
    missing, raised = found[0][1]
    assert (missing.workload, missing.status, missing.detail) == (
        EVERY_CASE, "missing", "No module named 'nosuchlibrary'",
    )  # fmt: skip
    assert (raised.workload, raised.status, raised.detail) == (EVERY_CASE, "error", "SyntaxError: invalid syntax")
    assert list(of.run({missing.key, raised.key})) == [], "their rows are all that there is to find"


class OnAGpu:
    """Stands in for a participant whose device says what it does."""

    name = "attention/a"
    prepared = PreparedTask({}, 1.0, 0.1, 0.005, 7)

    def __init__(self, energy: Energy | NoResult) -> None:
        self.answer, self.asked = energy, list[Any]()

    def energy(self, calls: int, seconds: float) -> Energy | NoResult:
        self.asked.append((calls, seconds))
        return self.answer


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Energy({"joules": 0.5}), {"joules": 0.5}),
        (NoResult(Status.TIMEOUT, "no answer"), {"joules": None, "joules_absent": "timeout: no answer"}),
    ],
)
def test_what_a_device_says_of_calls_in_a_row_stands_beside_what_it_said_in_all_rounds(
    answer: Energy | NoResult, says: dict[str, Any]
) -> None:
    of = Benchmark(CONTRACT, [], Request((TINY,)))
    participant: Any = OnAGpu(answer)
    entry = Entry(participant, participant.prepared, "forward", "cold", seconds=[0.1, 0.2, 0.4])
    in_rounds = TimedTable([entry], {}, {"sm_clock": {"median": 1500}, "throttle_absent": "no NVML"})

    found = of._telemetry(entry, in_rounds)

    assert found == {
        **says,
        "sm_clock_in_rounds": {"median": 1500},
        "throttle_in_rounds": None,
        "throttle_in_rounds_absent": "no NVML",
    }
    assert participant.asked == [(7, 0.2)], "of the task that was timed, which is still prepared"
