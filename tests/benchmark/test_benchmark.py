"""Benchmarks of one contract, table by table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from builders import measured
from racers import CEILINGS
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from workers import SUBMISSIONS

import attnsuite
from attnsuite import registry
from attnsuite.benchmark import table
from attnsuite.benchmark.busy import Load
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.gate import Gate
from attnsuite.benchmark.measure.messages import Ceilings, Energy, Job, NoResult, PreparedTask
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.request import Request
from attnsuite.benchmark.series import Benchmark, with_unique_names
from attnsuite.benchmark.table import LongestCall, TimedTable, Timing
from attnsuite.contracts import contract
from attnsuite.model import EVERY_CASE, Outcome, Status, UsageError
from attnsuite.registry import Declaration, from_function

CONTRACT = contract("attention")
TINY = "documents/one-sentence"
CAUSAL = "flash-small/512-e64-causal"


def closure(name: str = "kernel") -> Callable[..., Tensor]:
    """An honest attention that no other process can import."""

    def kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return sdpa(query, key, value)

    kernel.__name__ = name
    return kernel


def test_a_closure_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^kernel cannot be timed: no other process can import it; write it to a"):
        attnsuite.bench(closure(), workloads=TINY)


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
    reached = iter([1e3] * busy + [1e18])
    monkeypatch.setattr(Participant, "ceilings", lambda self, dtype: Ceilings({"flops": next(reached), "bytes": 1e9}))
    known = {name: passed(name) for name in ("attention/matmul", "attention/chunked")}
    of = Benchmark(CONTRACT, registry.find(list(known)), Request((TINY,), budget=0.005), known)
    rows = [row for _, news in of.run() for row in news]

    assert {row.status for row in rows} == {status}


def test_functions_of_one_name_are_told_apart() -> None:
    named = with_unique_names([from_function(closure()) for _ in range(3)])

    assert [each.declaration.name for each in named] == ["kernel", "kernel-2", "kernel-3"]


@pytest.mark.slow
@pytest.mark.parametrize(("others", "beside"), [((), "attention/matmul (not shown)"), (("matmul",), None)])
def test_a_reference_is_timed_without_a_shipped_baseline(
    monkeypatch: pytest.MonkeyPatch, passed: Callable[..., list[Outcome]], others: Sequence[str], beside: str | None
) -> None:
    raced, real = [], table.race

    def watched(entries: Any, *more: Any) -> int:
        found = real(entries, *more)
        *_, reference, _ = more
        of = reference and reference.participant
        raced.append(of and (of.name, of.shipped, len(reference.seconds) > 1))
        return found

    monkeypatch.setattr(table, "race", watched)
    known = {name: passed(name) for name in ("attention/honest", "attention/matmul")}
    named = registry.find([str(SUBMISSIONS / "honest.py"), *others])
    of = Benchmark(CONTRACT, named, Request((TINY,), budget=0.005), known, ceilings=CEILINGS)
    rows = [row.implementation for _, news in of.run() for row in news]

    assert raced == [beside and (beside, True, True)]
    assert rows == ["attention/honest", *(f"attention/{name}" for name in others)]


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

    order = ("ladder/2k", "ladder/4k", "ladder/1k")
    of = Benchmark(CONTRACT, [], Request(order))
    timing = Timing(CONTRACT, of.request, Gate(CONTRACT, "cpu", 60.0).refusal, Random(0))
    tables = {table.workload.name: table for table in of.tables()}
    hangs: Any = Hangs()
    said: list[Any] = [timing._prepared(hangs, tables[name]) for name in order]

    assert prepared == ["ladder/2k", "ladder/1k"], "and of less work it is asked again"
    says = "too slow to time here: 4 times the work of ladder/2k forward, which takes 60 s a call"
    assert (said[1].status, said[1].detail) == ("unsupported", says)


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


SDPA = "from torch.nn.functional import scaled_dot_product_attention as sdpa\n\n\n"


def test_what_fails_the_contract_is_refused_where_that_matters(write: Callable[[str, str], Path]) -> None:
    head = f"{SDPA}def attention(query, key, value{{}}):\n    return sdpa(query, key, value{{}})\n"
    files = [
        write("unscaled.py", head.format("", ", scale=1.0")),
        write("never_causal.py", head.format(", *, is_causal=False", "")),
    ]
    of = Benchmark(CONTRACT, registry.find(list(map(str, files))), Request((TINY, CAUSAL), budget=0.005))
    rows = {(row.implementation, row.workload): row for _, found in of.run() for row in found}

    assert {key: row.status for key, row in rows.items()} == {
        ("attention/unscaled", TINY): "refused", ("attention/unscaled", CAUSAL): "unsupported",
        ("attention/never_causal", TINY): "measured", ("attention/never_causal", CAUSAL): "refused",
    }  # fmt: skip
    assert "the scores are not divided by √d" in rows["attention/unscaled", TINY].detail
    assert rows["attention/unscaled", CAUSAL].detail == "takes no is_causal"
    assert rows["attention/never_causal", CAUSAL].detail.startswith("it fails causal/")
    assert all(not row.seconds for row in rows.values() if row.status != "measured")


@pytest.mark.parametrize("given", [3, [], [sdpa, 3]])
def test_only_functions_are_benchmarked(given: Any) -> None:
    with pytest.raises(UsageError, match=r"attnsuite\.bench takes a function or several, not (int|none at all|list)"):
        attnsuite.bench(given)


# Again


@pytest.mark.slow
def test_what_is_done_is_not_measured_again(passed: Callable[..., list[Outcome]]) -> None:
    known = {name: passed(name) for name in ("attention/matmul", "attention/chunked")}
    request = Request((TINY, "documents/encoder-block"), budget=0.005)
    of = Benchmark(CONTRACT, registry.find(list(known)), request, known, ceilings=CEILINGS)
    whole = [row for _, rows in of.run() for row in rows]
    keys = {row.key for row in whole}

    assert list(of.run(keys)) == []
    assert of.keys_to_measure(keys) == set()

    half = [row.key for row in whole if row.workload == TINY] + [whole[-1].key]
    again = list(of.run(half))

    assert [(table and table.workload.name, len(rows)) for table, rows in again] == [("documents/encoder-block", 2)]
    assert of.keys_to_measure(half) == {row.key for _, rows in again for row in rows}, "a table is measured as a whole"


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
