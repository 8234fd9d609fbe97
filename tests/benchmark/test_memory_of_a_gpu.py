"""Participants share one GPU: who is suspended keeps no memory from the others, and who fails keeps nothing."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from msgspec.structs import asdict
from torch import Tensor

from attnsuite.benchmark.connection import RemoteBench
from attnsuite.benchmark.measure.bench import Bench
from attnsuite.benchmark.measure.messages import Acknowledgement, CallMemory, Job, NoResult, SampleTime
from attnsuite.benchmark.participant import Participant
from attnsuite.model import Status
from attnsuite.model.rows import METERS
from attnsuite.registry import Declaration
from attnsuite.worker.worker import Crash, Ready


@dataclass
class Card:
    """A GPU's memory: bytes in all, and what each process holds of it."""

    size: int
    held: dict[int, int] = field(default_factory=dict)

    def take(self, pid: int, peak: int) -> bool:
        """Let a process hold its peak, as a caching allocator does after a call, where there is room."""
        if sum(held for other, held in self.held.items() if other != pid) + peak > self.size:
            return False
        self.held[pid] = peak
        return True


@dataclass
class Process:
    """A worker's process on that card, as far as a connection is concerned: each sample takes memory and keeps it."""

    card: Card
    pid: int
    peak: int
    device: str = "cuda"
    log: list[str] = field(default_factory=list)

    def ready(self) -> Ready:
        return Ready(Declaration("attention", "mine", "attention", ""))

    def request(self, verb: str, arguments: Mapping[str, Any]) -> Any:
        self.log.append(verb)
        if verb == "sample" and self.peak < 0:
            return Crash("SIGSEGV")
        if verb == "sample" and not self.card.take(self.pid, self.peak):
            return {"status": Status.OUT_OF_MEMORY, "detail": "CUDA out of memory"}
        if verb == "rest":
            self.card.held[self.pid] = 0
        return {"seconds": 0.1, "made": 0.0} if verb == "sample" else {}

    def suspend(self) -> None:
        self.log.append("suspend")

    def resume(self) -> None: ...

    def move(self, cores: object) -> None: ...


def rounds(*processes: Process, resting: bool = True) -> list[SampleTime | NoResult]:
    """Two rounds of samples, each followed by what the suite asks last, by one process after the other."""
    connections = [RemoteBench(process, 0, 0) for process in processes]  # type: ignore[arg-type]
    answers = []
    for connection in connections * 2:
        connection._releases_memory &= resting
        answers.append(connection.request(SampleTime, "sample", stay=True, calls=1))
        connection.request(Acknowledgement, "idle")
    return answers


def test_one_process_after_the_other_may_take_most_of_a_gpu() -> None:
    card = Card(80)
    found = rounds(Process(card, 1, 69), Process(card, 2, 30), Process(card, 3, 75))

    assert [type(answer) for answer in found] == [SampleTime] * 6


def test_memory_is_given_back_once_before_a_process_is_suspended_and_on_gpus_alone() -> None:
    on_gpu, on_cpu = Process(Card(80), 1, 5), Process(Card(80), 2, 5, device="cpu")
    rounds(on_gpu)
    rounds(on_cpu)

    turn = ["sample", "idle", "rest", "suspend"]
    assert on_gpu.log == ["configure", *turn, *turn]
    assert "rest" not in on_cpu.log


def test_nothing_is_asked_of_a_process_that_died() -> None:
    process = Process(Card(80), 1, -1)
    connection = RemoteBench(process, 0, 0)  # type: ignore[arg-type]
    honest = process.request

    def request(verb: str, arguments: Mapping[str, Any]) -> Any:
        found = honest(verb, arguments)
        if verb == "sample":
            process.pid = None  # type: ignore[assignment]
        return found

    process.request = request  # type: ignore[method-assign]

    assert isinstance(connection.request(SampleTime, "sample", calls=1), NoResult)
    assert process.log == ["configure", "sample", "suspend"]


def test_a_bench_gives_back_what_pytorch_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    emptied: list[None] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(None))

    assert Bench(torch.nn.functional.scaled_dot_product_attention, "cuda")("rest", {}) == {}
    assert Bench(torch.nn.functional.scaled_dot_product_attention, "cpu")("rest", {}) == {}

    assert len(emptied) == 1


def test_a_task_that_cannot_be_prepared_keeps_no_tensor() -> None:
    seen: list[weakref.ref[Tensor]] = []

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        seen.extend(map(weakref.ref, (query, key, value)))
        error = RuntimeError("CUDA out of memory")
        error.circle = [error, query]  # type: ignore[attr-defined]
        raise error

    job = Job("attention", "documents/one-sentence", "float32", "forward")
    answer = Bench(attention, "cpu")("prepare", {"job": asdict(job)})

    assert answer["status"] == "out_of_memory"
    assert len(seen) == 3
    assert all(reference() is None for reference in seen)


class Timed:
    """The process that is timed, which answers what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def request(self, kind: object, verb: str, stay: bool = False, **arguments: Any) -> CallMemory:
        self.asked.append(verb)
        return CallMemory(dict.fromkeys(METERS, 0.0), "kernel")


def test_on_a_gpu_a_call_is_weighed_by_the_process_that_is_timed() -> None:
    """Another process would take a context's memory of its own, and make the task once more."""
    participant, timed = Participant(Declaration("attention", "x", "x"), device="cuda"), Timed()
    participant._timing = [timed]  # type: ignore[assignment]

    found = participant.measure_memory(Job("attention", "ladder/1k", "bfloat16", "forward"))

    assert (found, timed.asked) == (CallMemory(dict.fromkeys(METERS, 0.0), "kernel"), ["measure_memory"])
