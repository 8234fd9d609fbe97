"""Calls of a task on inputs that are handed over as bytes, one at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from attnsuite.benchmark.measure.clock import one_thread
from attnsuite.benchmark.measure.messages import Layout
from attnsuite.benchmark.measure.task import Task
from attnsuite.worker.messages import DTYPES, buffer
from attnsuite.worker.turns import CALL, Taken, Turn


class Handed:
    """Inputs in memory of their own, into which bytes are written, and the results of calls on them.

    Before inputs come the task is called on its own `warm` times, so that what a call needs lies in the caches, as it
    does in samples.
    """

    def __init__(self, task: Task, inputs: Layout, warm: int) -> None:
        self._task, self._warm = task, warm
        with one_thread():
            self._received = {name: torch.zeros(shape, dtype=DTYPES[dtype]) for name, dtype, shape in inputs}
            self._room = [buffer(tensor.flatten()) for tensor in self._received.values()]
            self._inputs = task.laid(self._received)
            self._moved = [name for name, tensor in self._received.items() if not _shared(tensor, self._inputs[name])]
            """Those that lie elsewhere for the call."""
            self._call, self._before = task.on_others(self._inputs)
        self._found: Mapping[str, Tensor] = {}
        self._result: Any = None

    @property
    def layout(self) -> Layout:
        """How the tensors of the last answer lie in its bytes."""
        return layout_of(self._found)

    def warm(self) -> None:
        """Call the task on its own inputs."""
        for _ in range(self._warm):
            self._task.call(self._task.before() if self._task.before else None)

    def room(self) -> Sequence[memoryview]:
        """Where the bytes of the inputs belong."""
        return self._room

    def answer(self, called: bool) -> Sequence[memoryview]:
        """The bytes of all rows of what a call on the inputs returns; of what the last call did if not `called`."""
        if self._moved:
            with one_thread():
                laid = self._task.laid(self._received)
                for name in self._moved:
                    self._inputs[name].data.copy_(laid[name])  # .data: a cache may look at the version
        if called:
            self._result = self._call(self._before() if self._before else None)
        with one_thread():
            self._found = self._task.rows_of(self._result)
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
    """How these tensors lie one after the other."""
    return [(name, str(each.dtype).removeprefix("torch."), list(each.shape)) for name, each in tensors.items()]


def tensors_in(data: bytearray, layout: Layout) -> dict[str, Tensor] | None:
    """The tensors that lie in these bytes; None where there are more or fewer bytes than they have."""
    tensors, at = {}, 0
    for name, dtype, shape in layout:
        size = math.prod(shape) * DTYPES[dtype].itemsize
        if at + size > len(data):
            return None
        flat = torch.frombuffer(data, dtype=torch.uint8, count=size, offset=at) if size else torch.empty(0).byte()
        tensors[name] = flat.clone().view(DTYPES[dtype]).reshape(shape)
        at += size
    return tensors if at == len(data) else None
