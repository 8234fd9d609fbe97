"""A workload and a function, made into something to time: inputs on the device, and a call in one direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from suite.asking import Workload
from suite.measure import SAMPLE, Stopwatch, calls_per_sample
from suite.measure.clock import Before, Call

FRESH = 0.2
"""Seconds for calls on numbers that have not been seen, but one call at least."""
REMEMBERED, REMEMBERING = 2.0, 1e-4
"""A call on new numbers may take so many times as long as the same call again, and so many seconds more."""
UNSEEN = 1_000_003
"""The first of the numbers by which inputs are turned to what no round asks."""
MAKING = ("export", "session", "file")
"""What a model may say of its making, in an attribute of that name: seconds, seconds, bytes."""
LAID_OUT = 1.5e9
"""Bytes of inputs that a CPU makes anew in a second, about. Calls of a sample take no less time than its inputs did."""
ROOM = 2**26
"""Bytes of inputs that are made beforehand, so that calls on them can be timed by themselves."""
KEPT = 2**22
"""Bytes of an output that are copied as soon as it has been timed."""
BALLAST, LARGEST_BALLAST = 4, 2**22
"""So many blocks, each of up to so many bytes, lay out memory otherwise from round to round. Where a process's inputs
and buffers happen to lie decides how they share the caches, all its life: identical processes differed by up to 8 %.
Mytkowicz and others, "Producing wrong data without doing anything obviously wrong" (2009); Curtsinger and Berger,
"Stabilizer" (2013)."""


class Task:
    """One function on one workload, dtype and direction.

    Inputs are the same tensors all the time, but their memory and some of their numbers change from round to round
    (`turn`), so that an answer remembered by tensor is a wrong one. `call` is what is timed; it takes what `before`,
    untimed, makes where there is one, and else None.
    """

    def __init__(
        self, function: Callable[..., Any], workload: Workload, dtype: str, direction: str, device: str, cache: str
    ) -> None:
        call = workload.call(dtype, direction)
        turned = frozenset(workload.turned(call, 0))
        self._workload, self._direction, self.is_model = workload, direction, workload.is_model
        self.making: dict[str, float] = {}
        if call.config is not None:
            function = self._made(function, call.config, {n: w.to(device) for n, w in call.weights.items()})
        base = {name: tensor.to(device) for name, tensor in call.tensors.items()}
        self._base = call.__class__(base, call.options)
        self.inputs = {name: tensor.clone() if name in turned else tensor for name, tensor in base.items()}
        self._names, self._positional, self._options = call.gradient_of, call.positional, call.options
        self._upstream = None if call.output_gradient is None else call.output_gradient.to(device)
        self._function = function
        self.call, self.before, self._both = self._bound(self.inputs)
        self._loaded: list[tuple[Call, Before | None]] = []
        self._proof: list[Any] = []
        size = sum(self.inputs[name].nbytes for name in turned) if torch.device(device).type == "cpu" else 0
        self._length = max(SAMPLE, size / LAID_OUT)  # not by a clock: identical functions get identical samples
        self.stopwatch = Stopwatch(self.call, before=self.before, device=device, cache=cache, length=self._length)
        self.output_bytes = 0
        self._random = Random()
        self._ballast: list[Tensor] = []
        self._unseen = count(UNSEEN)

    def _made(
        self, factory: Callable[..., Any], config: Mapping[str, Any], weights: Mapping[str, Tensor]
    ) -> Callable[..., Any]:
        """The model; `making` says what its factory took, and what it says itself of that."""
        started = perf_counter()
        model: Callable[..., Any] = factory(dict(config), dict(weights))
        self.making["factory"] = perf_counter() - started
        said = getattr(model, "making", {})
        for name in MAKING:
            if isinstance(said, Mapping) and isinstance(said.get(name), float | int):
                self.making[name] = float(said[name])
        return model

    def turn(self, number: int, expected: float = math.inf) -> float:
        """Give the inputs the numbers of that round in memory that is laid out anew, and let go of a proof's.

        Then the cache is filled, where a call of `expected` seconds needs that: while the first input has other numbers
        than the round's, so that nothing is left behind which would answer for it. Returns the seconds of that.
        """
        self._loaded, self._proof, self.stopwatch.result = [], [], None
        self._ballast.clear()
        with _one_thread():
            for _ in range(BALLAST):  # each fills another gap, so that what follows finds others
                self._ballast.append(torch.empty(self._random.randrange(LARGEST_BALLAST), dtype=torch.uint8))
            turned = self._workload.turned(self._base, number)
            for name, tensor in turned.items():
                self.inputs[name].data = tensor  # .data: the version that a cache may look at stays as it was
            first = next(iter(turned.values()))
            _turn_over(first)
        warmed = self.stopwatch.warm(expected)
        with _one_thread():
            _turn_over(first)
        return warmed

    def renumber(self, number: int) -> None:
        """Give the inputs the numbers of that round where they lie."""
        with _one_thread():
            for name, tensor in self._workload.turned(self._base, number).items():
                self.inputs[name].data.copy_(tensor)

    def once(self) -> None:
        """One whole call, untimed parts included. `output_bytes` says how large its output and gradients are."""
        result = self.call(None) if self._direction == "forward" else self._both(None)
        tensors = [result] if self._direction == "forward" else list(self._of_gradients(result).values())
        self.output_bytes = sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    def on_one_item(self) -> None:
        """A model's call on the first item of its batch."""
        self._bound({name: tensor.detach()[:1] for name, tensor in self.inputs.items()})[0](None)

    def remembers(self, expected: float) -> str:
        """What shows that answers are remembered rather than computed, or empty. A call takes `expected` seconds.

        Where so long a call is a sample by itself, there is nothing to remember: each has numbers of its own.
        """
        said = ""
        for _ in range(3 if calls_per_sample(expected, self._length) > 1 else 0):
            fresh, again = self._fresh(expected), max(expected, self.stopwatch.time_once())
            said = f"a call on new numbers takes {fresh:.3g} s, the same call again {again:.3g} s"
            if fresh <= REMEMBERED * again + REMEMBERING:
                return ""
        return said and f"it remembers answers: {said}"

    def _fresh(self, expected: float) -> float:
        """The least time that a call takes on numbers that it has not seen."""
        times: list[float] = []
        ends = perf_counter() + FRESH
        while not times or (len(times) < 8 and perf_counter() + expected < ends):
            self.renumber(next(self._unseen))
            times.append(self.stopwatch.time_once())
        return min(times)

    def keep(self) -> None:
        """Copy what the last timed call returned: a thread of the function's own may still be at work on it.

        Nothing is copied that took so long to compute that the thread could not end in time.
        """
        self.stopwatch.result = self._copied(self.stopwatch.result)

    def load(self, numbers: Sequence[int]) -> int:
        """Make inputs of their own for some of these numbers, one at least; how many."""
        self._loaded, self._proof = [], []
        with _one_thread():
            turned = self._workload.turned(self._base, 0)
            size = sum(tensor.numel() * tensor.element_size() for tensor in turned.values())
            for number in numbers[: max(1, ROOM // max(1, size))]:
                changed = {name: tensor.clone() for name, tensor in self._workload.turned(self._base, number).items()}
                kept = {name: tensor.detach() for name, tensor in self.inputs.items()}
                self._loaded.append(self._bound(kept | changed)[:2])
        return len(self._loaded)

    def prove(self, passes: int) -> None:
        """Give each of those inputs to one call, so many times over, and copy each result at once."""
        for _ in range(passes):
            self._proof = []
            for call, before in self._loaded:
                self._proof.append(self._copied(call(before() if before else None)))
        self.stopwatch.wait()

    def proof(self, rows: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """Rows of what each of those calls returned, stacked."""
        found = [self._found_in(result, rows) for result in self._proof]
        return {name: torch.stack([each[name] for each in found]) for name in found[0]}

    def found(self, rows: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """Rows of what the last timed call returned, flattened to two axes. Raises TypeError for what is no tensor."""
        return self._found_in(self.stopwatch.result, rows)

    def _found_in(self, result: Any, rows: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        tensors = {"output": result} if self._direction == "forward" else self._of_gradients(result)
        return {name: _rows(name, tensor, rows[name]) for name, tensor in tensors.items() if name in rows}

    def _copied(self, result: Any) -> Any:
        """A result whose tensors are copies, where they are not too large for that."""
        if isinstance(result, tuple):
            return tuple(map(self._copied, result))
        if type(result) is Tensor and result.numel() * result.element_size() <= KEPT:
            with _one_thread():
                return result.detach().clone()
        return result

    def _of_gradients(self, result: Any) -> dict[str, Any]:
        output, gradients = result
        named = dict(zip(self._names, gradients, strict=True))
        return {**named} if output is None else {"output": output.detach(), **named}

    def _bound(self, inputs: Mapping[str, Tensor]) -> tuple[Call, Before | None, Call]:
        """The call in its direction on these inputs, what has to be made before it, if anything, and both together."""
        wanted = [inputs[name].requires_grad_(True) for name in self._names]
        positional = [inputs[name] for name in self._positional if name in inputs]
        by_name = {name: tensor for name, tensor in inputs.items() if name not in self._positional}
        forward = partial(self._function, *positional, **by_name, **self._options)

        def without_gradients(_: Any) -> Any:
            with torch.no_grad():
                return forward()

        def backward(output: Any) -> tuple[None, Any]:
            return None, torch.autograd.grad(output, wanted, self._upstream)

        def both(_: Any) -> tuple[Any, Any]:
            output = forward()
            return output, torch.autograd.grad(output, wanted, self._upstream)

        calls: dict[str, Call] = {"forward": without_gradients, "backward": backward, "forward_backward": both}
        return calls[self._direction], forward if self._direction == "backward" else None, both


@contextmanager
def _one_thread() -> Iterator[None]:
    """Work for the suite's own purposes is done without PyTorch's pool of threads.

    Those spin for some 5 ms after each task, in the way of any other pool that the function has: the calls of an
    onnxruntime session on both of two cores took 8 ms each for 0.6 where their results were copied by PyTorch's pool.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _turn_over(tensor: Tensor) -> None:
    """Give a tensor other numbers where it lies; twice, and it has its own again."""
    if tensor.is_floating_point():
        tensor.neg_()
    else:
        tensor.copy_(tensor.flip(-1))


def _rows(name: str, tensor: Any, rows: Sequence[int]) -> Tensor:
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        raise TypeError(f"{name} is a {type(tensor).__name__}, should be a Tensor")
    found: Tensor = tensor.detach().flatten(0, -2)[list(rows)].cpu()
    return found
