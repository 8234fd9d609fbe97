"""What stands between a workload and pytest-benchmark's fixture: the timer, parameter sets, rounds, the gate."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attnsuite import registry
from attnsuite.benchmark.fixture import Plan, Speed, Stage, judge, speed_test, timer
from attnsuite.benchmark.measure.task import Task
from attnsuite.contracts import contract
from attnsuite.model import Measurement, UsageError
from attnsuite.pytest_plugin import benchmarks
from attnsuite.registry import Declaration

# The timer


def test_the_timer_waits_before_it_looks_at_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", happened.append)
    monkeypatch.setattr("attnsuite.benchmark.fixture.perf_counter", lambda: happened.append("clock") or 1.5)

    seconds = timer("cuda:1")()

    assert (seconds, happened) == (1.5, ["cuda:1", "clock"])


def test_tests_on_cuda_have_that_timer_and_others_pytest_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnsuite.benchmark.request.check_device", lambda device: None)
    plans = {device: Plan(("vit/b16",), device=device) for device in ("cpu", "cuda:0")}

    marks = {
        device: marks_of(speed_test([registry.find(["matmul"])[0]], plan, "attention"))
        for device, plan in plans.items()
    }

    assert [mark.kwargs for mark in marks["cpu"]] == [
        {"group": "vit/b16 float32 cpu 1 thread forward hot", "disable_gc": True}
    ]
    assert [mark.kwargs for mark in marks["cuda:0"]] == [
        {"group": f"vit/b16 {dtype} cuda:0 forward hot", "disable_gc": True, "timer": timer("cuda:0")}
        for dtype in ("float16", "bfloat16")
    ]


def marks_of(test: Callable[..., None]) -> list[Any]:
    """The mark of each of a test's parameter sets."""
    (parametrize,) = test.pytestmark  # type: ignore[attr-defined]
    return [mark for parameters in parametrize.args[1] for mark in parameters.marks]


@pytest.mark.parametrize(("own", "refused"), [({}, True), ({"timer": timer("cuda")}, False), (None, True)])
def test_a_mark_of_ones_own_does_not_take_the_timer_away_unseen(own: dict[str, Any] | None, refused: bool) -> None:
    mark = None if own is None else pytest.mark.benchmark(min_rounds=9, **own).mark
    node = SimpleNamespace(get_closest_marker={"benchmark": mark}.get)
    stage: Any = Stage(SimpleNamespace(enabled=False), SimpleNamespace(node=node))

    assert stage.waits_for("cuda") is not refused
    assert stage.waits_for("cpu")


# What is timed


class Recording:
    """Stands in for pytest-benchmark's fixture and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def __call__(self, *arguments: Any) -> None:
        self.asked.append(arguments)

    def pedantic(self, target: Any, *, setup: Any, rounds: int) -> None:
        self.asked.append((target, setup(), rounds))


@pytest.mark.parametrize(("expected", "rounds"), [(0.1, 5), (1.0, 3), (0.0, 500_000_000)])
def test_a_backward_is_timed_alone_in_as_many_rounds_as_the_options_say(expected: float, rounds: int) -> None:
    options = {"benchmark_max_time": "0.5", "benchmark_min_rounds": 3}
    fixture = Recording()
    stage: Any = Stage(fixture, SimpleNamespace(config=SimpleNamespace(getoption=options.get)))
    (workload, *_) = contract("attention").workloads()
    backward = Task(scaled_dot_product_attention, workload, "float32", "backward", "cpu", "hot")
    both = Task(scaled_dot_product_attention, workload, "float32", "forward_backward", "cpu", "hot")

    stage.time(backward, expected)
    stage.time(both, expected)

    (call, ((output,), named), count), whole = fixture.asked
    assert (call, named, count) == (backward.call, {}, rounds)
    assert output.grad_fn is not None
    assert whole == (both.call, None)


def names_of(test: Callable[..., None]) -> list[str]:
    """The names of a test's parameter sets."""
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    return [parameters.id for parameters in mark.args[1]]


def test_the_quick_workloads_are_timed_unless_others_are_named() -> None:
    quick = [workload.name for workload in contract("attention").workloads() if "quick" in workload.profiles]

    assert names_of(benchmarks(scaled_dot_product_attention)) == [f"{name}-float32-forward" for name in quick]
    assert names_of(
        benchmarks(
            scaled_dot_product_attention, workloads="vit", directions=["forward", "backward"], dtypes=["float64"]
        )
    ) == [f"vit/{name}-float64-{way}" for name in ("b16", "b16-batch8") for way in ("forward", "backward")]
    assert names_of(benchmarks(scaled_dot_product_attention, workloads="vit/b16-batch8")) == [
        "vit/b16-batch8-float32-forward",
        "vit/b16-batch8-bfloat16-forward",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"contract": "attn"}, "unknown contract 'attn'"),
        ({"workloads": "nosuch"}, "no workload of attention matches 'nosuch'"),
        ({"workloads": "flash"}, "not timed on cpu"),
        ({"profile": "fast"}, "unknown profile 'fast'"),
        ({"dtypes": ["float31"]}, "unknown dtype 'float31'"),
        ({"directions": "up"}, "unknown direction 'up'"),
        ({"device": "tpu"}, "unknown device 'tpu'"),
    ],
)
def test_a_benchmark_of_what_does_not_exist_cannot_be_made(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        benchmarks(scaled_dot_product_attention, **arguments)


def test_what_is_missing_too_slow_or_out_of_memory_is_no_failure() -> None:
    plan = Plan(("documents/one-sentence",))
    (table,) = plan.tables("attention")

    def exhausted(query: Any, key: Any, value: Any) -> Any:
        if key.shape[-3:] == (1, 6, 2):
            raise MemoryError("it asks for 8 EiB")
        return scaled_dot_product_attention(query, key, value)

    absent = Declaration("attention", "absent", "attention", requires=("nosuchlibrary",))
    node = SimpleNamespace(get_closest_marker=lambda _: None)
    stage: Any = Stage(SimpleNamespace(enabled=True), SimpleNamespace(node=node))
    gate = plan.gate("attention")

    missing = Speed(absent, "cpu", 1.0, gate).measured(table, stage)
    slow = Speed(registry.from_function(scaled_dot_product_attention), "cpu", 0.0, gate).measured(table, stage)
    short = Speed(registry.from_function(exhausted), "cpu", 1.0, gate).measured(table, stage)

    assert (missing.status, missing.detail) == ("missing", "No module named 'nosuchlibrary'")
    assert slow.status == "unsupported"
    assert slow.detail.endswith("s, more than 0 s")
    assert (short.status, short.detail) == ("out_of_memory", "MemoryError: it asks for 8 EiB")
    assert not any(row.fails for row in (missing, slow, short))


@pytest.mark.parametrize(
    ("status", "known", "raised", "says"),
    [
        ("refused", "", pytest.fail, "attention/mine vit/b16 (float32, forward): refused: it fails plain/small"),
        ("refused", "rounds-halves", pytest.xfail, "known as rounds-halves: it fails plain/small"),
        ("error", "", pytest.fail, "attention/mine vit/b16 (float32, forward): error: it fails plain/small"),
        ("unsupported", "", pytest.skip, "attention/mine: unsupported: it fails plain/small"),
        ("missing", "", pytest.skip, "attention/mine: missing: it fails plain/small"),
    ],
)
def test_what_has_no_time_fails_is_expected_to_or_is_skipped(status: str, known: str, raised: Any, says: str) -> None:
    asked = ("attention/mine", "attention", "vit/b16", "float32", "cpu", 1, "forward", "hot")
    fixture: Any = SimpleNamespace(stats=SimpleNamespace(stats=SimpleNamespace(data=[0.5])))

    with pytest.raises(raised.Exception) as error:
        judge(Measurement(*asked, status, "it fails plain/small", known=known), fixture)

    assert (type(error.value), error.value.msg) == (raised.Exception, says)
    assert fixture.stats.stats.data == []
