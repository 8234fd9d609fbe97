"""Calls of a task on inputs that arrive as bytes, one set at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from attnsuite.benchmark.measure.clock import one_thread
from attnsuite.benchmark.measure.messages import Layout
from attnsuite.benchmark.measure.task import Task
from attnsuite.worker.messages import DTYPES, buffer


class ReceivedInputs:
    """Inputs in memory of their own, into which bytes are written, and the outputs of calls on them.

    Before inputs arrive the task is called `warm` times on its own inputs, so that its code is in the caches, as in
    samples.
    """

    def __init__(self, task: Task, inputs: Layout, warm: int) -> None:
        self._task, self._warm = task, warm
        with one_thread():
            self._received = {name: torch.zeros(shape, dtype=DTYPES[dtype]) for name, dtype, shape in inputs}
            self.input_buffers = [buffer(tensor.flatten()) for tensor in self._received.values()]
            self._inputs = task.laid(self._received)
            self._moved = [name for name, tensor in self._received.items() if not _shared(tensor, self._inputs[name])]
            """The inputs that the call reads from other memory."""
            self._call, self._before = task.on_others(self._inputs)
        self._output: Mapping[str, Tensor] = {}
        self._result: Any = None

    @property
    def layout(self) -> Layout:
        """The layout of the tensors in the bytes of the last reply."""
        return layout_of(self._output)

    def warm(self) -> None:
        """Call the task on its own inputs."""
        for _ in range(self._warm):
            self._task.call(self._task.before() if self._task.before else None)

    def reply(self, called: bool) -> Sequence[memoryview]:
        """The bytes of all rows of the output of a call on the inputs; of the last call if not `called`."""
        if self._moved:
            with one_thread():
                laid = self._task.laid(self._received)
                for name in self._moved:
                    self._inputs[name].data.copy_(
                        laid[name]
                    )  # .data leaves the tensor's version unchanged, which a cache may inspect
        if called:
            self._result = self._call(self._before() if self._before else None)
        with one_thread():
            self._output = self._task.rows_of(self._result)
            return [buffer(tensor.flatten()) for tensor in self._output.values()]


def _shared(first: Tensor, second: Tensor) -> bool:
    return first.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def layout_of(tensors: Mapping[str, Tensor]) -> Layout:
    """The layout of these tensors, one after the other."""
    return [(name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape)) for name, tensor in tensors.items()]


def tensors_in(data: bytearray, layout: Layout) -> dict[str, Tensor] | None:
    """The tensors in these bytes; None if the number of bytes is not theirs."""
    tensors, at = {}, 0
    for name, dtype, shape in layout:
        size = math.prod(shape) * DTYPES[dtype].itemsize
        if at + size > len(data):
            return None
        flat = torch.frombuffer(data, dtype=torch.uint8, count=size, offset=at) if size else torch.empty(0).byte()
        tensors[name] = flat.clone().view(DTYPES[dtype]).reshape(shape)
        at += size
    return tensors if at == len(data) else None
