"""What a bench answers to each verb: times, rows, memory, energy, and why there are none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from msgspec.structs import asdict, replace
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from workers import LINUX

from attnsuite.benchmark.measure import EscapedWork, bench
from attnsuite.benchmark.measure.bench import Bench
from attnsuite.benchmark.measure.failures import DishonestTiming
from attnsuite.benchmark.measure.messages import (
    Acknowledgement,
    AnyReply,
    CallMemory,
    Energy,
    Job,
    NoResult,
    OutputRows,
    PreparedTask,
    RoundInputs,
    SampleTime,
    decode,
)
from attnsuite.model import PASSES, Status

JOB = Job("attention", "documents/one-sentence", "float32", "forward")
Function = Callable[..., Any]


def bench_of(function: Function, threads: int = 0) -> Bench:
    """A bench in this process."""
    bench = Bench(function, "cpu")
    bench._threads = threads
    return bench


def ask(bench: Bench | Function, kind: type[AnyReply], verb: str, **arguments: Any) -> AnyReply | NoResult:
    """What a bench, or a new one of the function, answers to a verb."""
    bench = bench if isinstance(bench, Bench) else bench_of(bench)
    return decode(kind, bench(verb, arguments))


def prepare(bench: Bench | Function, **unusual: Any) -> PreparedTask | NoResult:
    return ask(bench, PreparedTask, "prepare", job=asdict(replace(JOB, **unusual)))


def measure_memory(function: Function, **unusual: Any) -> CallMemory | NoResult:
    return ask(function, CallMemory, "measure_memory", job=asdict(replace(JOB, **unusual)))


def honest(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return sdpa(query, key, value)


@pytest.mark.parametrize("direction", PASSES)
def test_a_task_is_prepared_sampled_and_let_go(direction: str) -> None:
    bench, rows = bench_of(honest), {"output": [1], "query": [0, 2]}
    names = {"forward": {"output"}, "backward": {"query"}}.get(direction, {"output", "query"})

    prepared = prepare(bench, direction=direction)
    assert isinstance(prepared, PreparedTask)
    assert prepared.making == {}
    assert min(prepared.first_call, prepared.warm_up, prepared.expected, prepared.calls) > 0
    assert isinstance(ask(bench, RoundInputs, "enter", number=3), RoundInputs)
    sampled = ask(bench, SampleTime, "sample", calls=prepared.calls)
    assert isinstance(sampled, SampleTime)
    assert 0 < sampled.seconds < 1
    assert ask(bench, Acknowledgement, "idle") == Acknowledgement()
    found = ask(bench, OutputRows, "output_rows", rows=rows)
    assert isinstance(found, OutputRows)
    assert set(found.rows) == names
    assert ask(bench, Acknowledgement, "release") == Acknowledgement()
    assert ask(bench, OutputRows, "output_rows", rows=rows) == NoResult(
        Status.ERROR, "RuntimeError: no task is prepared"
    )


def raises(error: BaseException) -> Callable[..., Any]:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        raise error

    return function


@pytest.mark.parametrize(
    ("error", "status", "detail"),
    [
        (ValueError("no"), "error", "ValueError: no"),
        (SystemExit(3), "error", "SystemExit: 3"),
        (NotImplementedError("not so wide"), "unsupported", "not so wide"),
        (NotImplementedError(), "unsupported", "NotImplementedError without a reason"),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (torch.OutOfMemoryError("CUDA"), "out_of_memory", "OutOfMemoryError: CUDA"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "out_of_memory", None),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying"), "out_of_memory", None),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            "out_of_memory",
            None,
        ),
        (RuntimeError("std::bad_alloc"), "out_of_memory", None),
        (EscapedWork("elsewhere"), "refused", "elsewhere"),
        (DishonestTiming("it caches outputs"), "refused", "it caches outputs"),
    ],
)
@pytest.mark.parametrize("act", [prepare, measure_memory])
def test_what_a_function_raises_is_the_answer(
    act: Callable[..., Any], error: BaseException, status: str, detail: str | None
) -> None:
    failed = act(raises(error))

    assert isinstance(failed, NoResult)
    assert failed.status == status
    assert detail is None or failed.detail == detail


def test_what_fails_while_a_process_is_configured_is_not_the_function_s_failure() -> None:
    with pytest.raises(RuntimeError, match="positive"):
        ask(honest, Acknowledgement, "configure", threads=-1, memory_limit=0)


THREADS = torch.get_num_threads()


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda: torch.set_num_threads(THREADS + 1), f"number of threads from {THREADS} to {THREADS + 1}"),
        (lambda: torch.set_default_dtype(torch.float64), "default dtype to torch.float64"),
    ],
)
def test_a_function_that_changes_a_global_setting_is_refused(change: Callable[[], None], detail: str) -> None:
    def function(*tensors: Tensor) -> Tensor:
        change()
        return sdpa(*tensors)

    answer = prepare(bench_of(function, THREADS))

    assert answer == NoResult(Status.REFUSED, f"it changed the {detail}")
    assert (torch.get_num_threads(), torch.get_default_dtype()) == (THREADS, torch.float32)


@LINUX
def test_memory_comes_with_the_kernels() -> None:
    answer = measure_memory(honest, workload="ladder/1k")

    assert isinstance(answer, CallMemory)
    assert answer.memory["output"] == 1024 * 64 * 4
    assert answer.memory["resident"] is not None
    assert answer.kernel.startswith("aten::_scaled_dot_product_flash_attention_for_cpu")


@LINUX
def test_a_function_that_refuses_the_small_call_first_made_is_weighed_all_the_same() -> None:
    def function(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if query.shape[-1] < 16:
            raise NotImplementedError("widths of 16 and more")
        return sdpa(query, key, value)

    answer = measure_memory(function, workload="decode/1k")

    assert isinstance(answer, CallMemory)


@LINUX
def test_a_model_is_made_once_to_be_weighed_and_first_given_one_item() -> None:
    made, batches = [], []

    def factory(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Callable[..., Tensor]:
        made.append(config)

        def model(images: Tensor) -> Tensor:
            batches.append(len(images))
            return images.new_zeros(len(images), config["classes"])

        return model

    answer = measure_memory(factory, contract="vision_transformer", workload="vit/fashion")

    assert isinstance(answer, CallMemory)
    assert answer.memory["output"] == 16 * 10 * 4
    assert len(made) == 1
    assert batches[0] == 1
    assert set(batches[1:]) == {16}


def test_joules_are_those_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def meter(device: str) -> Iterator[Any]:
        yield SimpleNamespace(telemetry={"joules": 1000.0, "sm_clock": {"median": 1500}})

    monkeypatch.setattr(bench, "Meter", meter)
    monkeypatch.setattr(bench, "ENERGY_SECONDS", 0.01)
    calls = 0

    def function(*tensors: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return sdpa(*tensors)

    of = bench_of(function)
    prepare(of)
    calls = 0
    answer = ask(of, Energy, "energy", calls=1, seconds=1.0)

    assert isinstance(answer, Energy)
    assert answer.telemetry == {"joules": 1000.0 / calls, "sm_clock": {"median": 1500}}


def test_the_energy_of_a_flush_is_not_a_call_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the cache is flushed before each call, as it is on a GPU, the calls that are metered have no flush."""
    monkeypatch.setattr(bench, "ENERGY_SECONDS", 0.01)
    of = bench_of(honest)
    ask(of, PreparedTask, "prepare", job=asdict(replace(JOB, cache="cold")))
    caches = []
    stopwatch = bench.Stopwatch
    monkeypatch.setattr(
        bench, "Stopwatch", lambda *given, **how: caches.append(how["cache"]) or stopwatch(*given, **how)
    )

    assert isinstance(ask(of, Energy, "energy", calls=1, seconds=1.0), Energy)
    assert caches == ["hot"]


@pytest.mark.parametrize(
    ("busy", "alone", "reason"),
    [
        (1.2, True, ""),
        (0.91, True, ""),
        (0.25, True, "the device was idle for 75% of the time of these calls: launching one takes longer"),
        (1.2, False, "a forward precedes each backward: see forward and backward together"),
    ],
)
def test_the_energy_of_a_device_that_waits_or_does_something_else_is_not_a_call_s(
    busy: float, alone: bool, reason: str
) -> None:
    found = bench.telemetry_of_one_call({"joules": 30.0, "power": {"median": 300.0}}, 10, busy, alone)

    due = {"joules": None, "joules_absent": reason} if reason else {"joules": 3.0}
    assert found == {"power": {"median": 300.0}, **due}


def test_a_reason_of_the_meter_s_own_is_kept() -> None:
    told = {"joules": None, "joules_absent": "no NVML"}

    assert bench.telemetry_of_one_call(told, 10, 0.1, alone=False) == told
