"""Tasks: a function on the inputs of a workload, which change from round to round so that none can be remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from clocks import Time
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import TorchDispatchMode

from attnsuite.benchmark import measure
from attnsuite.benchmark.measure import task
from attnsuite.benchmark.measure.received_inputs import ReceivedInputs, layout_of
from attnsuite.benchmark.measure.task import Task
from attnsuite.contracts import contract
from attnsuite.contracts.attention.workloads import Workload
from attnsuite.model import PASSES

SMALL = Workload("test/small", "", 16, 16, 8, 2)


def a_task(function: Callable[..., Any], direction: str = "forward", workload: Workload = SMALL) -> Task:
    return Task(function, workload, "float32", direction, "cpu", "hot")


def test_samples_take_no_less_than_their_inputs_took_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    monkeypatch.setattr(task, "Stopwatch", lambda call, *, length, **_: lengths.append(length))

    for name in ("vit/b16", "decode/8k"):
        a_task(sdpa, workload=next(each for each in contract("attention").workloads() if each.name == name))

    assert lengths == [measure.SAMPLE, pytest.approx((2 * 8192 + 1) * 16 * 64 * 4 / task.INPUT_RATE)]


@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_of_a_pair_the_output_is_timed(direction: str) -> None:
    def pair(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        return sdpa(query, key, value), torch.ones(())

    rows = {"output": [0, 5], "query": [0], "key": [0], "value": [0]}
    found = []
    for function in (pair, sdpa):
        timed = a_task(function, direction)
        timed.stopwatch.sample(1)
        found.append(timed.output_rows(rows))

    ours, due = found
    assert set(ours) == set(due)
    assert all(torch.equal(ours[name], due[name]) for name in due)


class Slow(torch.autograd.Function):
    """Passes through; its forward takes 5 seconds and its backward 3, by the clock of the tests."""

    @staticmethod
    def forward(context: Any, value: Tensor, now: Time) -> Tensor:
        context.now = now
        now.now += 5.0
        return value.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        context.now.now += 3.0
        return gradient, None


@pytest.mark.parametrize(("direction", "seconds"), [("forward", 5.0), ("backward", 3.0), ("forward_backward", 8.0)])
def test_each_direction_is_timed_alone(now: Time, direction: str, seconds: float) -> None:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return Slow.apply(sdpa(query, key, value), now)  # type: ignore[no-any-return]

    watch = a_task(function, direction).stopwatch

    assert watch.sample(3) == seconds
    assert watch.first_call() == seconds


@pytest.mark.parametrize("direction", PASSES)
def test_gradients_are_recorded_where_they_are_asked_for_only(direction: str) -> None:
    seen = []

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.append((torch.is_grad_enabled(), query.requires_grad))
        return sdpa(query, key, value)

    a_task(function, direction).stopwatch.sample(1)

    assert seen == [(False, False) if direction == "forward" else (True, True)]


@pytest.mark.parametrize("direction", PASSES)
def test_a_round_has_its_own_numbers_and_memory_in_the_same_tensors(direction: str) -> None:
    prepared = a_task(sdpa, direction)
    tensors, places = dict(prepared.inputs), set()
    call = SMALL.call("float32", direction)

    for number in (1, 5, 0, 5):
        prepared.enter_round(number)
        places.add(prepared.inputs["query"].data_ptr())

        for name, turned in SMALL.tensors_of_round(call, number).items():
            assert torch.equal(prepared.inputs[name], turned)
    assert all(prepared.inputs[name] is tensor for name, tensor in tensors.items())
    assert len(places) > 1
    assert not torch.equal(prepared.inputs["key"], call.tensors["key"])


def test_only_the_function_puts_pytorch_s_pool_to_work() -> None:
    """Threads that copied inputs or results for the suite would spin on, in the way of a pool of the function's own."""
    threads, inside = torch.get_num_threads(), False
    seen: dict[bool, set[int]] = {False: set(), True: set()}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen[inside].add(torch.get_num_threads())
            return func(*args, **(kwargs or {}))

    def watched(*tensors: Tensor, **options: Any) -> Tensor:
        nonlocal inside
        inside = True
        try:
            return sdpa(*tensors, **options)
        finally:
            inside = False

    torch.set_num_threads(2)
    try:
        prepared, inputs = a_task(watched), layout_of(SMALL.tensors_of_round(SMALL.call("float32"), 9))
        with Watch():
            prepared.enter_round(7, expected=0.0)
            prepared.stopwatch.sample(2)
            prepared.copy_result()
            prepared.overwrite(8)
            handed = ReceivedInputs(prepared, inputs, warm=1)
            handed.warm()
            handed.reply(called=True)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)

    assert seen == {False: {1}, True: {2}}


@pytest.mark.parametrize("direction", PASSES)
def test_the_rows_found_are_those_of_the_last_timed_call(direction: str) -> None:
    prepared = a_task(sdpa, direction)
    prepared.enter_round(4)
    prepared.stopwatch.sample(2)
    rows = {"output": [0, 17], "query": [0, 17], "key": [31, 20], "value": [5]}

    found = prepared.output_rows(rows)

    assert set(found) == {
        "forward": {"output"}, "backward": {"query", "key", "value"}, "forward_backward": set(rows)
    }[direction]  # fmt: skip
    assert all(tensor.shape == (len(rows[name]), 8) for name, tensor in found.items())
    verdict = SMALL.verdict("float32", direction, 4, {name: rows[name] for name in found}, found)
    assert (verdict.status, verdict.detail) == ("passed", "")


def test_rows_do_not_change_with_a_result_that_is_still_written_to() -> None:
    output = torch.ones(1, 2, 16, 8)
    prepared = a_task(lambda query, key, value: output)
    prepared.stopwatch.sample(1)
    prepared.copy_result()

    output.fill_(9.0)

    assert (prepared.output_rows({"output": [3]})["output"] == 1).all()


@pytest.mark.parametrize(
    ("result", "complaint"),
    [
        (lambda value: None, "output is a NoneType, should be a Tensor"),
        (lambda value: value.tolist(), "output is a list, should be a Tensor"),
        (lambda value: value.to_sparse(), "output is a Tensor, should be a Tensor"),
        (lambda value: value.as_subclass(type("Lazy", (Tensor,), {})), "output is a Lazy, should be a Tensor"),
    ],
    ids=["nothing", "a list", "sparse", "a subclass"],
)
def test_what_is_no_plain_tensor_has_no_rows(result: Callable[[Tensor], Any], complaint: str) -> None:
    prepared = a_task(lambda query, key, value: result(value))
    prepared.stopwatch.sample(1)
    prepared.copy_result()

    with pytest.raises(TypeError, match=complaint):
        prepared.output_rows({"output": [0]})


@pytest.mark.parametrize(("direction", "tensors"), [("forward", 1), ("backward", 4), ("forward_backward", 4)])
def test_what_is_returned_is_counted_in_bytes(direction: str, tensors: int) -> None:
    prepared = a_task(sdpa, direction)

    prepared.whole_call()

    assert prepared.output_bytes == tensors * SMALL.call("float32").tensors["query"].nbytes


def remembering(now: Time, key: Callable[[Tensor], Any], seconds: float) -> Callable[..., Tensor]:
    """Computes what it has not seen in so many seconds, and what it has in none to speak of."""
    seen: dict[Any, Tensor] = {}

    def function(query: Tensor, *others: Tensor) -> Tensor:
        now.now += 1e-5
        if key(query) not in seen:
            now.now += seconds
            seen[key(query)] = sdpa(query, *others)
        return seen[key(query)].clone()

    return function


def test_answers_remembered_by_their_numbers_are_found_out(now: Time) -> None:
    prepared = a_task(remembering(now, lambda query: query.numpy().tobytes(), 0.01))

    said = prepared.caches_outputs(prepared.stopwatch.warm_up()[1])

    assert said == "it caches outputs: a call on new inputs takes 0.01 s, the same call again 1e-05 s"


@pytest.mark.parametrize(
    ("key", "turn"),
    [
        (id, Task.enter_round),
        (lambda query: (id(query), query._version), Task.enter_round),
        (Tensor.data_ptr, Task.overwrite),
    ],
    ids=["tensor", "version", "place"],
)
def test_remembered_answers_are_those_of_another_round(
    now: Time, key: Callable[[Tensor], Any], turn: Callable[[Task, int], None]
) -> None:
    prepared = a_task(remembering(now, key, 0.01))
    prepared.stopwatch.warm_up()
    rows = {"output": list(range(32))}

    for number in (1, 2, 7):
        turn(prepared, number)
        prepared.stopwatch.sample(3)

        assert SMALL.verdict("float32", "forward", number, rows, prepared.output_rows(rows)).status == "failed"


def test_computing_is_not_taken_for_remembering(now: Time) -> None:
    assert a_task(lambda *_: now.takes(0.001)()).caches_outputs(0.0009) == ""
    short = remembering(now, lambda query: query.numpy().tobytes(), 5e-5)
    assert a_task(short).caches_outputs(1e-5) == "", "too short to measure"
    slower = now.takes(*[0.01 * 2**step for step in range(20)])
    assert a_task(lambda *_: slower()).caches_outputs(0.001) == "", "a machine that becomes busy"


def test_a_call_that_is_a_sample_by_itself_need_not_be_tried_for_remembering(now: Time) -> None:
    calls: list[float] = []
    prepared = a_task(lambda *_: (calls.append(now.now), now.takes(0.01)())[1])

    assert prepared.caches_outputs(0.01) == ""
    assert not calls
    assert prepared.caches_outputs(0.001) == ""
    assert len(calls) > 1
