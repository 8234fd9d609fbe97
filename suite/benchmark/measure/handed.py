"""Calls of a task on inputs that are handed over as bytes, one at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from attnsuite.benchmark.measure.one_thread import one_thread
from attnsuite.benchmark.measure.protocol import Layout
from attnsuite.benchmark.measure.task import Task
from attnsuite.worker.messages import DTYPES, buffer
from attnsuite.worker.turns import CALL, Taken, Turn


class Handed:
    """Inputs in memory of their own, into which the bytes are written that come, and what the calls on them return.

    Before inputs come the task is called on its own `warm` times, so that what a call needs lies in the caches, as it
    does in samples.
    """

    def __init__(self, task: Task, inputs: Layout, warm: int) -> None:
        self._task, self._warm = task, warm
        with one_thread():
            self._came = {name: torch.zeros(shape, dtype=DTYPES[dtype]) for name, dtype, shape in inputs}
            self._room = [buffer(tensor.flatten()) for tensor in self._came.values()]
            self._inputs = task.laid(self._came)
            self._moved = [name for name, came in self._came.items() if not _shared(came, self._inputs[name])]
            """Those that lie elsewhere for the call."""
            self._call, self._before = task.on_others(self._inputs)
        self._found: Mapping[str, Tensor] = {}
        self._result: Any = None

    @property
    def layout(self) -> Layout:
        """How the last answer lies in its bytes."""
        return layout_of(self._found)

    def warm(self) -> None:
        """Call the task on its own inputs."""
        for _ in range(self._warm):
            self._task.call(self._task.before() if self._task.before else None)

    def room(self) -> Sequence[memoryview]:
        """Where the bytes of the inputs belong."""
        return self._room

    def answer(self, called: bool) -> Sequence[memoryview]:
        """The bytes of all rows of what a call on the inputs that have come returns, of what the last one did where it
        is not `called`.
        """
        if self._moved:
            with one_thread():
                laid = self._task.laid(self._came)
                for name in self._moved:
                    self._inputs[name].data.copy_(laid[name])  # .data: a cache may look at the version
        if called:
            self._result = self._call(self._before() if self._before else None)
        with one_thread():
            self._found = self._task.all_of(self._result)
            return [buffer(tensor.flatten()) for tensor in self._found.values()]

    def take(self, turns: Sequence[Turn]) -> list[Taken]:
        """Answer in turns in this very process."""
        return [self._taken(*turn) for turn in turns]

    def _taken(self, turn: bytes, inputs: Sequence[memoryview]) -> Taken:
        self.warm()
        began = perf_counter()
        for place, part in zip(self._room, inputs, strict=True):
            place[:] = part
        answer = bytearray().join(self.answer(turn == CALL))
        return perf_counter() - began, answer


def _shared(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()


def layout_of(tensors: Mapping[str, Tensor]) -> Layout:
    """How these tensors lie behind each other."""
    return [[name, str(each.dtype).removeprefix("torch."), list(each.shape)] for name, each in tensors.items()]


def tensors_in(data: bytearray, layout: Layout) -> dict[str, Tensor] | None:
    """The tensors that lie in these bytes; None where the bytes are not as many as that takes."""
    sizes = [math.prod(shape) * DTYPES[dtype].itemsize for _, dtype, shape in layout]
    if sum(sizes) != len(data):
        return None
    found, at = {}, 0
    for (name, dtype, shape), size in zip(layout, sizes, strict=True):
        there = (
            torch.frombuffer(data, dtype=torch.uint8, count=size, offset=at)
            if size
            else torch.empty(0, dtype=torch.uint8)
        )
        found[name] = there.clone().view(DTYPES[dtype]).reshape(shape)
        at += size
    return found
