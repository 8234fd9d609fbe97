"""The stopwatch, the meters and the verbs of a worker: on a clock that the tests turn, and on known allocations."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.profiler import profile
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils._python_dispatch import TorchDispatchMode

import suite
from suite import measure
from suite.contracts import contract
from suite.contracts.attention.workloads.workload import Workload
from suite.measure import Escaped, Stopwatch, ceilings, kernels, memory, serving, task
from suite.measure.task import Task
from suite.records import DIRECTIONS

clock = import_module("suite.measure.clock")  # the package has a function of that name, too

SMALL = Workload("test/small", "", 16, 16, 8, 2)
LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the resident meter is Linux's")


class Time:
    """A clock that only the tests turn: `perf_counter` everywhere in the stopwatch."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[..., int]:
        """A function whose calls take so long, the last of these for ever, and return their number."""
        calls = iter(range(1_000_000_000))
        rest = list(seconds)

        def function(*_: object) -> int:
            self.now += rest.pop(0) if len(rest) > 1 else rest[0]
            return next(calls)

        return function


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    turned = Time()
    for module in (measure, clock, task):
        monkeypatch.setattr(module, "perf_counter", turned)
    return turned


# A CPU's clock


def test_time_is_that_of_the_calls_by_their_number(now: Time) -> None:
    seconds, result = clock.CpuClock("hot").time(4, None, now.takes(1.0, 2.0, 3.0, 6.0))

    assert (seconds, result) == (3.0, 3), "the mean of all, and what the last one returned"


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_what_comes_before_a_call_is_not_timed(now: Time, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "flush_bytes", lambda: 64)
    before, taken = now.takes(100.0), []

    def call(made: object) -> None:
        taken.append(made)
        now.now += 2.0

    seconds, _ = clock.CpuClock(cache).time(3, before, call)

    assert seconds == 2.0
    assert taken == [0, 1, 2], "each call takes what was made for it"


def test_a_cold_call_begins_with_a_full_cache(now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "flush_bytes", lambda: 4096)
    cold, hot = clock.CpuClock("cold"), clock.CpuClock("hot")

    cold.time(3, None, now.takes(1.0))

    assert hot._other is None
    assert cold._other.nbytes == 4096
    assert (cold._other == 3).all(), "every byte was written before each call"


def test_the_flush_is_not_timed(now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    cold = clock.CpuClock("cold")
    cold._other = SimpleNamespace(add_=now.takes(50.0))

    assert cold.time(3, None, now.takes(1.0))[0] == 1.0


def test_the_flush_is_larger_than_the_largest_cache_of_a_core() -> None:
    caches = [
        int(file.read_text().strip().rstrip("KMG")) * {"K": 2**10, "M": 2**20}.get(file.read_text().strip()[-1], 1)
        for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    ]

    assert clock.flush_bytes() == min(clock.LARGEST_FLUSH, 2 * max(caches, default=2**25))
    assert clock.flush_bytes() >= 2**22


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_no_garbage_is_collected_while_time_runs(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "flush_bytes", lambda: 64)
    seen = []

    clock.CpuClock(cache).time(2, None, lambda _: seen.append(gc.isenabled()))
    with pytest.raises(ZeroDivisionError):
        clock.CpuClock(cache).time(2, None, lambda _: 1 / 0)

    assert seen == [False, False]
    assert gc.isenabled()


def test_a_real_call_takes_its_time() -> None:
    seconds, _ = clock.CpuClock("hot").time(2, None, lambda _: time.sleep(0.02))

    assert 0.02 <= seconds < 2


# The stopwatch


def test_the_first_call_is_timed_without_what_comes_before_it(now: Time) -> None:
    watch = Stopwatch(now.takes(7.0, 1.0), before=now.takes(100.0))

    assert watch.first_call() == 7.0


def test_warm_up_goes_on_while_calls_get_faster(now: Time) -> None:
    slowing_down_less = [0.1 * 0.9**step for step in range(14)]
    watch = Stopwatch(now.takes(*slowing_down_less, 0.001))

    spent, expected = watch.warm_up()

    assert expected == pytest.approx(0.001)
    assert spent == pytest.approx(sum(slowing_down_less) + 4 * 0.001), "until three are no faster than any before"


def test_warm_up_is_not_ended_by_one_slow_call(now: Time) -> None:
    watch = Stopwatch(now.takes(0.01, 0.01, 0.01, 0.5, 0.009, 0.008, 0.002))

    assert watch.warm_up()[1] == pytest.approx(0.002)


def test_warm_up_of_short_calls_lasts_as_long_as_a_sample(now: Time) -> None:
    spent, expected = Stopwatch(now.takes(1e-5)).warm_up()

    assert measure.SAMPLE < spent < measure.SAMPLE + 3e-5
    assert expected == pytest.approx(1e-5)


def test_warm_up_of_long_calls_is_one_call(now: Time) -> None:
    function = now.takes(30.0)

    assert Stopwatch(function).warm_up() == (30.0, 30.0)
    assert function() == 1, "this is the second"


def test_warm_up_ends_though_calls_get_faster_for_ever(now: Time) -> None:
    spent, _ = Stopwatch(now.takes(*(0.1 * 0.95**step for step in range(200)))).warm_up()

    assert measure.LONGEST_WARM_UP < spent < measure.LONGEST_WARM_UP + 0.1


@pytest.mark.parametrize(
    ("cache", "expected", "calls"), [("hot", 0.001, 5 + 1), ("hot", 0.5, 5), ("cold", 0.001, 5), ("hot", 0.019, 6)]
)
def test_a_short_hot_sample_begins_with_a_call_that_is_not_timed(
    now: Time, cache: str, expected: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "flush_bytes", lambda: 64)
    function = now.takes(*([9.0] if calls > 5 else []), 1.0)
    watch = Stopwatch(function, cache=cache)

    warmed, seconds = watch.warm(expected), watch.sample(5)

    assert seconds == 1.0
    assert function() == calls
    assert watch.result == calls - 1, "what the last call returned"
    assert warmed == (9.0 if calls > 5 else 0.0)
    assert watch.made == 0.0


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_what_is_made_for_calls_is_counted_apart(now: Time, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "flush_bytes", lambda: 64)
    watch = Stopwatch(now.takes(1.0), before=now.takes(5.0), cache=cache)

    assert watch.sample(3) == 1.0
    assert watch.made == 15.0


@pytest.mark.parametrize(
    ("expected", "calls"),
    [(1e-6, 5000), (1e-5, 500), (0.001, 5), (0.004, 1), (0.005, 1), (20.0, 1), (1e-12, measure.MOST_CALLS)],
)
def test_a_sample_has_as_many_calls_as_it_takes_to_last(expected: float, calls: int) -> None:
    assert measure.calls_per_sample(expected) == calls
    assert calls == measure.MOST_CALLS or calls * expected >= 0.7 * measure.SAMPLE


def test_pacing_believes_whole_samples_rather_than_the_warm_up(now: Time) -> None:
    assert Stopwatch(now.takes(0.001)).pace(0.002) == (5, pytest.approx(0.001))
    assert Stopwatch(now.takes(0.003)).pace(0.001) == (5, 0.001), "an interruption makes no longer sample"
    untouched = now.takes(0.1)
    assert Stopwatch(untouched).pace(0.1) == (1, 0.1)
    assert untouched() == 0, "one long call is a sample anyway"


def test_a_sample_lasts_as_long_as_it_is_told_to(now: Time) -> None:
    assert Stopwatch(now.takes(0.001), length=0.04).pace(0.02) == (40, pytest.approx(0.001))


def test_what_is_steady_is_sampled_until_its_interval_is_narrow(now: Time) -> None:
    found = measure.measure(now.takes(3.0, 0.001), budget=100.0)

    assert (found.stopped, found.first_call, found.calls) == ("narrow", 3.0, 5)
    assert found.seconds == pytest.approx([0.001] * 12)
    assert found.warm_up == pytest.approx(0.006, abs=0.001)


def test_what_is_unsteady_is_sampled_until_the_budget_is_spent(now: Time) -> None:
    noise = [0.001, 0.01, 0.002, 0.008, 0.003] * 1000

    found = measure.measure(now.takes(*noise, 0.001), budget=1.0)

    assert found.stopped == "budget"
    assert 1.0 < sum(found.seconds) * found.calls < 1.2


def test_a_spent_budget_still_leaves_the_fewest_samples(now: Time) -> None:
    noise = [10.0, 30.0, 20.0] * 10

    found = measure.measure(now.takes(*noise, 10.0), budget=0.01, fewest=8)

    assert (len(found.seconds), found.stopped) == (8, "budget")


def test_what_a_callable_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        measure.measure(lambda: 1 / 0)


# CUDA's clock, at its seam


class Device:
    """A CUDA device in the terms of `torch.cuda`: a main stream, and others that events do not see."""

    def __init__(self, now: Time) -> None:
        self.now, self.main, self.elsewhere, self.flushed = now, 0.0, 0.0, 0

    def synchronize(self, device: object = None) -> None:
        self.now.now = max(self.now.now, self.main, self.elsewhere)

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        return Event(self)

    @contextmanager
    def device(self, _: object) -> Iterator[None]:
        yield

    def get_device_properties(self, _: object) -> Any:
        return SimpleNamespace(L2_cache_size=1024)

    def works(self, seconds: float, elsewhere: float = 0.0) -> Callable[..., str]:
        """A call that returns at once and keeps the device busy, perhaps on another stream as well."""

        def launch(*_: object) -> str:
            self.main = max(self.main, self.now.now) + seconds
            if elsewhere:
                self.elsewhere = max(self.elsewhere, self.now.now) + elsewhere
            return "output"

        return launch

    def flush(self) -> None:
        self.flushed += 1
        self.works(10.0)()


class Event:
    def __init__(self, device: Device) -> None:
        self._device, self.at = device, 0.0

    def record(self) -> None:
        self.at = max(self._device.main, self._device.now.now)

    def synchronize(self) -> None:
        self._device.now.now = max(self._device.now.now, self.at)

    def elapsed_time(self, end: Event) -> float:
        return 1000 * (end.at - self.at)


@pytest.fixture
def device(now: Time, monkeypatch: pytest.MonkeyPatch) -> Device:
    made = Device(now)
    for name in ("synchronize", "Event", "device", "get_device_properties"):
        monkeypatch.setattr(torch.cuda, name, getattr(made, name))
    buffer = SimpleNamespace(zero_=made.flush)
    monkeypatch.setattr(torch, "empty", lambda size, **_: buffer if size == 2048 else None)
    return made


def test_events_time_what_the_device_does_and_not_its_launch(device: Device) -> None:
    seconds, result = clock.CudaClock("cuda", "hot").time(4, None, device.works(2.0))

    assert (seconds, result, device.flushed) == (2.0, "output", 0)


def test_a_cold_call_on_a_device_begins_with_its_cache_flushed_untimed(device: Device) -> None:
    seconds, _ = clock.CudaClock("cuda", "cold").time(3, None, device.works(2.0))

    assert (seconds, device.flushed) == (2.0, 3)


def test_what_comes_before_a_call_on_a_device_is_not_timed(device: Device) -> None:
    seconds, _ = clock.CudaClock("cuda", "hot").time(3, device.works(50.0), device.works(2.0))

    assert seconds == 2.0


def test_work_on_another_stream_is_found_out(device: Device) -> None:
    with pytest.raises(Escaped, match=r"the device worked for \d+ µs after the call's end, on another stream"):
        clock.CudaClock("cuda", "hot").time(4, None, device.works(0.001, elsewhere=3.0))


def test_a_little_work_elsewhere_is_no_accusation(device: Device) -> None:
    assert clock.CudaClock("cuda", "hot").time(2, None, device.works(1.0, elsewhere=1.02))[0] == 1.0


def test_one_interruption_of_this_thread_is_no_accusation(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    interruptions = iter([0.0, 0.5])  # before the first launch, and between the end and the question whether it is busy
    honest = device.synchronize

    def synchronize(_: object = None) -> None:
        honest()
        device.now.now += next(interruptions, 0.0)

    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)

    assert clock.CudaClock("cuda", "hot").time(2, None, device.works(1.0))[0] == 1.0


def test_the_first_call_on_a_device_lasts_until_it_is_idle(device: Device) -> None:
    watch = Stopwatch(device.works(3.0), before=device.works(20.0), device="cuda")

    assert watch.first_call() == 3.0


# Tasks


def a_task(function: Callable[..., Any], direction: str = "forward", workload: Workload = SMALL) -> Task:
    return Task(function, workload, "float32", direction, "cpu", "hot")


def test_samples_take_no_less_than_their_inputs_took_to_make(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[float] = []
    monkeypatch.setattr(task, "Stopwatch", lambda call, *, length, **_: lengths.append(length))

    for name in ("vit/b16", "decode/8k"):
        a_task(honest, workload=next(each for each in contract("attention").workloads() if each.name == name))

    assert lengths == [measure.SAMPLE, pytest.approx((2 * 8192 + 1) * 16 * 64 * 4 / task.LAID_OUT)]


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


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_gradients_are_recorded_where_they_are_asked_for_only(direction: str) -> None:
    seen = []

    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.append((torch.is_grad_enabled(), query.requires_grad))
        return sdpa(query, key, value)

    a_task(function, direction).stopwatch.sample(1)

    assert seen == [(False, False) if direction == "forward" else (True, True)]


def test_options_and_tensors_are_passed_as_the_contract_has_them() -> None:
    given: list[tuple[int, Mapping[str, Any]]] = []

    def function(*tensors: Tensor, **options: Any) -> Tensor:
        given.append((len(tensors), options))
        return sdpa(*tensors, **options)

    grouped = Workload("test/grouped", "", 8, 8, 4, 4, key_heads=2, causal=True)
    a_task(function, workload=grouped).stopwatch.sample(1)

    assert given == [(3, {"is_causal": True, "enable_gqa": True})]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_round_has_its_own_numbers_and_memory_in_the_same_tensors(direction: str) -> None:
    prepared = a_task(sdpa, direction)
    tensors, places = dict(prepared.inputs), set()
    call = SMALL.call("float32", direction)

    for number in (1, 5, 0, 5):
        prepared.turn(number)
        places.add(prepared.inputs["query"].data_ptr())

        for name, turned in SMALL.turned(call, number).items():
            assert torch.equal(prepared.inputs[name], turned)
    assert all(prepared.inputs[name] is tensor for name, tensor in tensors.items())
    assert len(places) > 1
    assert not torch.equal(prepared.inputs["key"], call.tensors["key"])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_proof_is_made_of_calls_on_the_numbers_that_were_loaded(direction: str) -> None:
    prepared = a_task(sdpa, direction)
    rows = {"output": [0, 17], "query": [0, 17], "key": [31, 20], "value": [5]}

    assert prepared.load([7, 2_000_005, 9]) == 3
    prepared.prove(2)
    found = prepared.proof(rows)

    for place, number in enumerate((7, 2_000_005, 9)):
        of = {name: tensor[place] for name, tensor in found.items()}
        asked = {name: rows[name] for name in of}
        assert SMALL.verdict("float32", direction, number, asked, of).status == "passed"
        assert SMALL.verdict("float32", direction, number + 1, asked, of).status == "wrong"


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
        prepared = a_task(watched)
        with Watch():
            prepared.turn(7, expected=0.0)
            prepared.stopwatch.sample(2)
            prepared.keep()
            prepared.renumber(8)
            prepared.load([9, 10])
            prepared.prove(2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)

    assert seen == {False: {1}, True: {2}}


def test_there_is_room_for_one_input_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = a_task(sdpa)
    monkeypatch.setattr("suite.measure.task.ROOM", 1)

    assert prepared.load([1, 2, 3]) == 1


def test_the_version_of_an_input_does_not_tell_that_its_numbers_are_new() -> None:
    prepared = a_task(sdpa)
    before = prepared.inputs["query"]._version

    prepared.turn(3)

    assert prepared.inputs["query"]._version == before


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_rows_found_are_those_of_the_last_timed_call(direction: str) -> None:
    prepared = a_task(sdpa, direction)
    prepared.turn(4)
    prepared.stopwatch.sample(2)
    rows = {"output": [0, 17], "query": [0, 17], "key": [31, 20], "value": [5]}

    found = prepared.found(rows)

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
    prepared.keep()

    output.fill_(9.0)

    assert (prepared.found({"output": [3]})["output"] == 1).all()


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
    prepared.keep()

    with pytest.raises(TypeError, match=complaint):
        prepared.found({"output": [0]})


@pytest.mark.parametrize(("direction", "tensors"), [("forward", 1), ("backward", 4), ("forward_backward", 4)])
def test_what_is_returned_is_counted_in_bytes(direction: str, tensors: int) -> None:
    prepared = a_task(sdpa, direction)

    prepared.once()

    assert prepared.output_bytes == tensors * SMALL.call("float32").tensors["query"].nbytes


# Remembering


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

    said = prepared.remembers(prepared.stopwatch.warm_up()[1])

    assert said == "it remembers answers: a call on new numbers takes 0.01 s, the same call again 1e-05 s"


@pytest.mark.parametrize(
    ("key", "turn"),
    [(id, Task.turn), (lambda query: (id(query), query._version), Task.turn), (Tensor.data_ptr, Task.renumber)],
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

        assert SMALL.verdict("float32", "forward", number, rows, prepared.found(rows)).status == "wrong"


def test_answers_remembered_by_place_are_computed_in_each_round_or_wrong(now: Time) -> None:
    prepared = a_task(remembering(now, lambda query: query.data_ptr(), 0.01))
    rows = {"output": list(range(32))}

    for number in range(1, 9):
        prepared.turn(number)
        seconds = prepared.stopwatch.sample(1)

        verdict = SMALL.verdict("float32", "forward", number, rows, prepared.found(rows))
        assert verdict.status == ("passed" if seconds > 0.009 else "wrong")


def test_what_warms_the_cache_answers_for_nothing(now: Time) -> None:
    prepared = a_task(remembering(now, lambda query: query.data_ptr(), 0.01))
    rows = {"output": list(range(32))}

    for number in (1, 2, 7):
        assert prepared.turn(number, expected=1e-5) > 0
        prepared.stopwatch.sample(3)

        assert SMALL.verdict("float32", "forward", number, rows, prepared.found(rows)).status == "wrong"


def test_computing_is_not_taken_for_remembering(now: Time) -> None:
    assert a_task(lambda *_: now.takes(0.001)()).remembers(0.0009) == ""
    short = remembering(now, lambda query: query.numpy().tobytes(), 5e-5)
    assert a_task(short).remembers(1e-5) == "", "too short to tell"


def test_a_machine_that_becomes_busy_is_not_taken_for_remembering(now: Time) -> None:
    slower = now.takes(*[0.01 * 2**step for step in range(20)])

    assert a_task(lambda *_: slower()).remembers(0.001) == ""


def test_a_call_that_is_a_sample_by_itself_need_not_be_tried_for_remembering(now: Time) -> None:
    calls: list[float] = []
    prepared = a_task(lambda *_: (calls.append(now.now), now.takes(0.01)())[1])

    assert prepared.remembers(0.01) == ""
    assert not calls
    assert prepared.remembers(0.001) == ""
    assert len(calls) > 1


# Memory

PROGRAM = """
import json, mmap, sys, tempfile
import torch
from suite.measure import memory

MiB = 2**20
kept = []

def scratch(size):
    return lambda: torch.empty(size, dtype=torch.uint8).fill_(1)

def in_turn(size):
    def call():
        for _ in range(4):
            torch.empty(size, dtype=torch.uint8).fill_(1)
    return call

def keeps(size):
    def call():
        if not kept:
            kept.append(torch.empty(size, dtype=torch.uint8).fill_(1))
        torch.empty(8 * MiB, dtype=torch.uint8).fill_(1)
    return call

file = tempfile.TemporaryFile(dir=".")
file.truncate(32 * MiB)
def maps():
    if not any(isinstance(each, mmap.mmap) for each in kept):
        kept.append(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        kept[-1][:]
    scratch(8 * MiB)()

def counted(kept, size=64):
    made = []
    def call():
        block = torch.empty(size * MiB, dtype=torch.uint8).fill_(1)
        made.append(torch.empty(int(kept * MiB), dtype=torch.uint8).fill_(1))
    found = memory.of_call(call, "cpu", lambda: None)
    return len(made), found["resident"], found["retained"]

calls = []
scratch(MiB)()  # the code of a first call is loaded with it
json.dump({
    "nothing": [memory.resident_peak(lambda: None) for _ in range(5)],
    "scratch": {size: [memory.resident_peak(scratch(size * MiB)) for _ in range(3)] for size in (4, 32, 128)},
    "many small": memory.resident_peak(lambda: [torch.empty(100_000, dtype=torch.uint8).fill_(1) for _ in range(320)]),
    "in turn": memory.resident_peak(in_turn(32 * MiB)),
    "untouched": memory.resident_peak(lambda: torch.empty(128 * MiB, dtype=torch.uint8)),
    "calibrated": memory.calibrated(),
    "keeps": memory.of_call(keeps(32 * MiB), "cpu", lambda: calls.append("warm")),
    "after": memory.of_call(scratch(32 * MiB), "cpu", lambda: None),
    "warm": calls,
    "maps a file": memory.of_call(maps, "cpu", lambda: None),
    "leaves nothing": counted(0),
    "leaves a block": counted(64),
    "leaves what may be nothing": counted(0.375, 8),
    "watched": memory.of_large_call(scratch(128 * MiB), lambda: None),
    "watched and kept": memory.of_large_call(lambda: kept.append(torch.ones(MiB)), lambda: None),
}, sys.stdout)
"""


@pytest.fixture(scope="session")
def weighed() -> dict[str, Any]:
    """What a process says whose memory is measured, started as such processes are."""
    home = str(Path(suite.__file__).parent.parent)
    surroundings = {**os.environ, **memory.ENVIRONMENT, "PYTHONPATH": home}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=surroundings, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


MiB = 2**20
SLACK = MiB
"""Linux counts resident pages for each thread and adds them up after some dozens (64 pages of 4 KiB, that is 256 KiB a
thread); a call also takes some pages of its own, of the stack and of Python's heap."""


@LINUX
def test_a_call_that_allocates_nothing_takes_nothing(weighed: dict[str, Any]) -> None:
    assert all(0 <= peak < SLACK for peak in weighed["nothing"])


@LINUX
@pytest.mark.parametrize("size", [4, 32, 128])
def test_a_known_allocation_is_what_the_meter_says(weighed: dict[str, Any], size: int) -> None:
    assert all(abs(peak - size * MiB) < SLACK for peak in weighed["scratch"][str(size)]), weighed


@LINUX
def test_the_meter_says_what_is_held_at_one_time(weighed: dict[str, Any]) -> None:
    assert abs(weighed["in turn"] - 32 * MiB) < SLACK, "four times 32 MiB, one after the other"
    assert abs(weighed["many small"] - 320 * 100_000) < 320 * 8192 + SLACK, "each is rounded up to whole pages"
    assert weighed["untouched"] < SLACK, "what is never written to is not there"


@LINUX
def test_the_meter_is_held_against_known_allocations(weighed: dict[str, Any]) -> None:
    constant, of_each = weighed["calibrated"]

    assert 0 <= constant < SLACK
    assert 0.9 < of_each < 1.1, "256 KiB are 6 % of the 4 MiB among them"


@LINUX
def test_what_a_function_keeps_is_told_from_what_a_call_takes(weighed: dict[str, Any]) -> None:
    found = weighed["keeps"]

    assert abs(found["retained"] - 32 * MiB) < SLACK
    assert abs(found["resident"] - 8 * MiB) < SLACK
    assert weighed["after"]["retained"] < SLACK
    assert abs(weighed["after"]["resident"] - 32 * MiB) < SLACK
    assert weighed["warm"] == ["warm"]
    assert (found["allocator"], found["driver"]) == (None, None), "those are a GPU's"


@LINUX
def test_pages_of_files_are_not_retained(weighed: dict[str, Any]) -> None:
    """As a library's code is mapped where it first runs: how much at once is the system's choice."""
    found = weighed["maps a file"]

    assert found["retained"] < SLACK
    assert abs(found["resident"] - 8 * MiB) < SLACK


@LINUX
@pytest.mark.parametrize(
    ("leaves", "calls", "taken", "kept"),
    [("nothing", 1, 64, 0), ("a block", 2, 128, 64), ("what may be nothing", 1, 8, 0.375)],
)
def test_a_call_is_made_once_more_only_where_it_leaves_something_behind(
    weighed: dict[str, Any], leaves: str, calls: int, taken: int, kept: float
) -> None:
    made, resident, retained = weighed[f"leaves {leaves}"]

    assert made == calls
    assert abs(resident - taken * MiB) < SLACK
    assert abs(retained - kept * MiB) < SLACK


@LINUX
def test_a_call_that_is_watched_is_weighed_where_next_to_nothing_stays(weighed: dict[str, Any]) -> None:
    assert abs(weighed["watched"]["resident"] - 128 * MiB) < SLACK
    assert weighed["watched"].keys() == weighed["after"].keys()
    assert weighed["watched and kept"] is None


def test_without_the_system_s_files_there_are_no_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "status")
    monkeypatch.setattr(memory, "_CLEAR", tmp_path / "no" / "clear_refs")
    memory.calibrated.cache_clear()
    calls: list[str] = []

    found = memory.of_call(lambda: calls.append("call"), "cpu", lambda: calls.append("warm"))

    assert set(found) == {"resident", "retained", "constant", "calibration", "allocator", "driver"}
    assert set(found.values()) == {None}
    assert calls == ["warm", "call"], "it is called all the same"
    assert memory.of_large_call(lambda: None, lambda: None) is None


def test_a_gpu_s_memory_is_its_allocator_s_peak_and_what_the_driver_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    used = iter([100, 170])
    for name, answer in (
        ("empty_cache", None), ("synchronize", None), ("reset_peak_memory_stats", None),
        ("memory_allocated", 30), ("max_memory_allocated", 75),
    ):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda *_, n=name, a=answer: said.append(n) or a)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="GPU-1"))
    monkeypatch.setattr(memory.nvidia, "used_memory", lambda device: {"GPU-1": next(used)}[device])

    found = memory.of_call(lambda: said.append("call"), "cuda", lambda: said.append("warm"))

    assert (found["allocator"], found["driver"], found["resident"]) == (45.0, 70.0, None)
    last = len(said) - 1 - said[::-1].index("call")
    assert said.count("call") == 2
    assert said.index("reset_peak_memory_stats") < said.index("memory_allocated") < last
    assert last < said.index("max_memory_allocated")


# Kernels


def test_the_operator_that_really_ran_is_named() -> None:
    query, key, value = (torch.randn(1, 2, 256, 64) for _ in range(3))

    said = kernels.kernels(lambda: sdpa(query, key, value), "cpu")

    assert said.startswith("aten::_scaled_dot_product_flash_attention_for_cpu ")
    assert said.endswith("%")


def test_the_longest_is_named_first() -> None:
    query = torch.randn(32, 128, 128)  # a product that takes about as long as two exponentials: none of them is small

    said = kernels.kernels(lambda: (query @ query).exp().exp(), "cpu").split(", ")

    assert {"aten::bmm", "aten::exp"} <= {name.split()[0] for name in said}
    assert len(said) <= kernels.LONGEST
    shares = [int(name.split()[1].removesuffix("%")) for name in said]
    assert shares == sorted(shares, reverse=True)
    assert 80 <= sum(shares) <= 101


def test_an_operator_s_own_time_is_what_the_profiler_s_table_says() -> None:
    query = torch.randn(4, 64, 64, requires_grad=True)
    with profile() as seen:
        torch.nn.functional.layer_norm(torch.einsum("bij,bjk->bik", query, query), (64,)).softmax(-1).sum().backward()
    assert seen.kineto_results is not None

    found = kernels.own_times(seen.kineto_results.events())

    table = {event.key: event.self_cpu_time_total for event in seen.key_averages()}
    assert len(table) > 10
    assert found == pytest.approx(table, abs=1e-6)
    assert any(event.cpu_time_total > event.self_cpu_time_total > 0 for event in seen.key_averages())


def test_what_the_profiler_does_not_see_is_not_named() -> None:
    assert kernels.kernels(lambda: time.sleep(0.05), "cpu") == ""


# Ceilings


def test_ceilings_are_the_best_of_all_samples(now: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SIDES", {"cpu": 8})
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 64})
    seen = iter([(2.0, 0.5, 3.0), (4.0, 8.0)])
    monkeypatch.setattr(ceilings, "measure", lambda *_, **__: SimpleNamespace(seconds=next(seen)))

    assert ceilings.ceilings("float32", "cpu") == {"flops": 2 * 8**3 / 0.5, "bytes": 2 * 64 / 4}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_ceilings_are_measured(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SIDES", {"cpu": 128})
    monkeypatch.setattr(ceilings, "COPIED", {"cpu": 2**24})
    monkeypatch.setattr(ceilings, "BUDGET", 0.01)

    found = ceilings.ceilings(dtype, "cpu")

    assert found.keys() == {"flops", "bytes"}
    assert all(1e7 < value < 1e15 for value in found.values())


# A worker's verbs

ASKED = {
    "contract": "attention", "workload": "documents/one-sentence", "dtype": "float32", "direction": "forward",
    "cache": "hot", "threads": 0, "memory_limit": 0,
}  # fmt: skip


def ask(verb: str, function: Callable[..., Any], **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = getattr(serving, verb)(function, "cpu", {**ASKED, **more})
    return answer


def honest(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return sdpa(query, key, value)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_task_is_prepared_sampled_and_let_go(direction: str) -> None:
    prepared = ask("prepare", honest, direction=direction)

    assert prepared.pop("making") == {}
    assert prepared.keys() == {"first_call", "warm_up", "expected", "calls"}
    assert all(value > 0 for value in prepared.values())
    sampled = ask("sample", honest, direction=direction, **prepared, number=3)
    assert 0 < sampled["seconds"] < 1
    rows = ask("rows", honest, rows={"output": [1], "query": [0, 2]})["rows"]
    assert set(rows) == {"forward": {"output"}, "backward": {"query"}}.get(direction, {"output", "query"})
    assert ask("load", honest, numbers=[5, 6]) == {"loaded": 2}
    assert ask("prove", honest, passes=3) == {}
    assert len(ask("proof", honest, rows={"output": [1], "query": [0]})["found"].popitem()[1]) == 2
    assert ask("release", honest) == {}
    assert ask("rows", honest, rows={"output": [1]})["status"] == "raised", "there is no task any more"


def test_functions_in_one_process_have_tasks_of_their_own() -> None:
    def zeros(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch.zeros_like(query)

    prepared = {function: ask("prepare", function) for function in (honest, zeros)}
    for function, of in prepared.items():
        ask("sample", function, **of, number=1)
    found = {function: ask("rows", function, rows={"output": [0]})["rows"]["output"] for function in prepared}

    assert (found[zeros] == 0).all()
    assert (found[honest] != 0).any()
    assert ask("release", zeros) == {}
    assert "rows" in ask("rows", honest, rows={"output": [0]}), "that of the other is still there"


def raises(error: BaseException) -> Callable[..., Any]:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (ValueError("no"), "raised", "ValueError: no"),
        (SystemExit(3), "raised", "SystemExit: 3"),
        (NotImplementedError("not so wide"), "declined", "not so wide"),
        (NotImplementedError(), "declined", "NotImplementedError without a reason"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (torch.OutOfMemoryError("CUDA"), "out_of_memory", "OutOfMemoryError: CUDA"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "out_of_memory", None),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying"), "out_of_memory", None),
        (RuntimeError("std::bad_alloc"), "out_of_memory", None),
        (Escaped("elsewhere"), "refused", "elsewhere"),
    ],
)
@pytest.mark.parametrize("verb", ["prepare", "memory"])
def test_what_a_function_raises_is_the_answer(verb: str, error: BaseException, status: str, detail: str | None) -> None:
    answer = ask(verb, raises(error))

    assert answer == {"status": status, "detail": answer["detail"]}
    assert detail is None or answer["detail"] == detail


def test_a_user_s_interrupt_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        ask("prepare", raises(KeyboardInterrupt()))
    monkeypatch.setattr(serving._Process, "alone", True)
    assert ask("prepare", raises(KeyboardInterrupt()))["status"] == "raised", "in a process of its own it is its own"


def test_a_function_that_changes_the_thread_count_is_refused_and_nothing_else_is_said() -> None:
    threads = torch.get_num_threads()

    def function(*tensors: Tensor) -> Tensor:
        torch.set_num_threads(threads + 1)
        return sdpa(*tensors)

    answer = ask("prepare", function, threads=threads)

    detail = f"it changed the number of threads from {threads} to {threads + 1}"
    assert answer == {"status": "refused", "detail": detail}
    assert torch.get_num_threads() == threads


def test_a_function_that_changes_the_default_dtype_is_refused_and_nothing_else_is_said() -> None:
    def function(*tensors: Tensor) -> Tensor:
        torch.set_default_dtype(torch.float64)
        return sdpa(*tensors)

    answer = ask("prepare", function)

    assert answer == {"status": "refused", "detail": "it changed the default dtype to torch.float64"}
    assert torch.get_default_dtype() == torch.float32


def test_a_function_that_remembers_is_refused() -> None:
    seen: dict[bytes, Tensor] = {}

    def function(query: Tensor, *others: Tensor) -> Tensor:
        numbers = query.numpy().tobytes()
        if numbers not in seen:
            time.sleep(0.002)
            seen[numbers] = sdpa(query, *others)
        return seen[numbers].clone()

    answer = ask("prepare", function, workload="documents/encoder-block")

    assert answer["status"] == "refused"
    assert answer["detail"].startswith("it remembers answers: a call on new numbers takes 0.00")


def test_a_clock_that_stands_still_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "perf_counter", lambda: 7.0)

    assert ask("prepare", honest) == {"status": "refused", "detail": "no time passes while it is called"}


@LINUX
def test_memory_comes_with_the_kernels() -> None:
    answer = ask("memory", honest, workload="ladder/1k")

    assert answer["memory"]["output"] == 1024 * 64 * 4
    assert answer["memory"]["resident"] >= 0
    assert answer["kernel"].startswith("aten::_scaled_dot_product_flash_attention_for_cpu")


@LINUX
def test_what_the_profiler_keeps_of_many_operators_is_not_the_call_s() -> None:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        small = query[0, 0, 0] * 0
        for _ in range(20_000 if len(query[0, 0]) == 1024 else 1):
            small += 1
        return sdpa(query, key, value)

    found = ask("memory", function, workload="ladder/1k", expected=2.0)["memory"]

    assert found["retained"] + found["resident"] < 2**23


@LINUX
def test_a_function_that_refuses_the_small_call_first_made_is_weighed_all_the_same() -> None:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if query.shape[-1] < 16:
            raise NotImplementedError("widths of 16 and more")
        return sdpa(query, key, value)

    assert ask("memory", function, workload="decode/1k").keys() == {"memory", "kernel", "spent"}


@LINUX
def test_a_model_is_made_once_to_be_weighed_and_first_given_one_item() -> None:
    made, batches = [], []

    def factory(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        made.append(config)

        def model(images: Tensor) -> Tensor:
            batches.append(len(images))
            return images.new_zeros(len(images), config["classes"])

        return model

    answer = ask("memory", factory, contract="vision_transformer", workload="vit/fashion")

    assert answer["memory"]["output"] == 16 * 10 * 4
    assert len(made) == 1
    assert batches[0] == 1
    assert set(batches[1:]) == {16}


def test_without_a_device_that_counts_there_are_no_joules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "SOAK", 0.01)
    prepared = ask("prepare", honest)

    telemetry = ask("energy", honest, **prepared)["telemetry"]

    assert telemetry["joules"] is None
    assert telemetry["joules_absent"]


def test_joules_are_those_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def meter(device: str) -> Iterator[Any]:
        yield SimpleNamespace(telemetry={"joules": 1000.0, "sm_clock": {"median": 1500}})

    monkeypatch.setattr(serving.nvidia, "meter", meter)
    monkeypatch.setattr(serving, "SOAK", 0.01)
    calls = 0

    def function(*tensors: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return sdpa(*tensors)

    prepared = ask("prepare", function)
    calls = 0
    telemetry = ask("energy", function, **prepared)["telemetry"]

    assert telemetry["sm_clock"] == {"median": 1500}
    assert math.isclose(telemetry["joules"], 1000.0 / calls, rel_tol=0.01), "the calls that warm a cache count as well"
