"""A timed task: one function on one workload, with inputs on the device and a call in one direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from random import Random
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from attnsuite.benchmark.measure import SAMPLE, Stopwatch, calls_per_sample
from attnsuite.benchmark.measure.clock import Before, Call, one_thread
from attnsuite.cases import Workload
from attnsuite.cases.returned_weights import output_of
from attnsuite.cases.training import LOSS, Loss
from attnsuite.model import STEP
from attnsuite.registry.signatures import Adapter
from attnsuite.worker.snapshots import METHODS, as_it_lies, plain_tensor

NEW_NUMBERS = 0.2
"""Seconds of calls on new inputs, one call at least, that show whether the function remembers outputs."""
SAME = 3
"""Calls on the same inputs; the shortest counts, because a delay may exceed the time of a cached output."""
CACHED_ABOVE = 2.0
"""A function remembers outputs if a call on new inputs takes more than this many times as long as the same call
again (and `TOO_SHORT` more)."""
TOO_SHORT = 1e-4
"""Seconds: smaller differences are no sign of cached outputs, because new inputs are not in the processor's cache."""
FIRST_NEW_NUMBER = 1_000_003
"""The first round number of these inputs; rounds use others, from `ROUND_NUMBERS`."""
MAKING = ("export", "session", "file")
"""The entries that a model may report about its construction, in an attribute `making`: seconds, seconds, bytes."""
INPUT_RATE = 1.5e9
"""Bytes of inputs that a CPU makes in a second, about. The calls of a sample take at least the time of making its
inputs, so that no run spends most of its time on inputs."""
COPIED = 2**22
"""Bytes: an output up to this size is copied right after its timing. A larger one takes so long that a thread still
computing it would not finish before its rows are read."""
BLOCKS, LARGEST_BLOCK = 4, 2**22
"""Number and largest size in bytes of random blocks that are allocated before each round, to shift later
allocations. Addresses of inputs and buffers determine how they share caches: identical processes differed by up to 8
%. Mytkowicz and others, "Producing wrong data without doing anything obviously wrong" (2009); Curtsinger and Berger,
"Stabilizer" (2013)."""
LEARNING_RATE = 1e-3
"""Adam's default in torch.optim: its value makes no difference to the time of a step."""
EPSILON = 1e-8
"""Adam's ε, as in torch.optim; in float16 its smallest normal number, because this would be 0 there."""


class Task:
    """One function on one workload, dtype and direction.

    Inputs stay the same tensors, but their memory and some of their numbers change from round to round (`enter_round`),
    so that an output cached by tensor is wrong. `call` is timed. Its argument is the result of `before`, which is
    untimed; None without `before`.
    """

    def __init__(
        self, function: Callable[..., Any], workload: Workload, dtype: str, direction: str, device: str, cache: str
    ) -> None:
        call = workload.call(dtype, direction)
        self._lay_out = function.with_layout if isinstance(function, Adapter) else dict
        """Arranges inputs in memory as the function's own signature requires."""
        turned = frozenset(workload.tensors_of_round(call, 0))
        self._workload, self._direction, self.is_model = workload, direction, workload.is_model
        self._device = device
        self.making: dict[str, float | None] = {}
        weights = {name: weight.to(device) for name, weight in call.weights.items()}
        base = self.laid(call.tensors)
        self._base = call.__class__(base, call.options)
        self.inputs = {name: tensor.clone() if name in turned else tensor for name, tensor in base.items()}
        self._names, self._positional, self._options = call.gradient_of, call.positional, call.options
        self._step: Step | None = None
        if direction == STEP:
            trained = {**self.inputs, **weights}
            self._step = Step({name: trained[name] for name in self._names}, workload.loss)
        if call.config is not None:
            function = self._made(function, call.config, weights)
        self._upstream = None if call.output_gradient is None else call.output_gradient.to(device)
        self._function = function
        self.call, self.before, self._both = self._bound(self.inputs)
        size = sum(self.inputs[name].nbytes for name in turned) if torch.device(device).type == "cpu" else 0
        self._length = max(SAMPLE, size / INPUT_RATE)  # not measured, so that identical functions get identical samples
        self.stopwatch = Stopwatch(self.call, before=self.before, device=device, cache=cache, length=self._length)
        self.output_bytes = 0
        self._random = Random()
        self._blocks: list[Tensor] = []
        self._new_numbers = count(FIRST_NEW_NUMBER)

    def _made(
        self, factory: Callable[..., Any], config: Mapping[str, Any], weights: Mapping[str, Tensor]
    ) -> Callable[..., Any]:
        """The model from the factory; `making` gets the seconds, and the model's own report."""
        started = perf_counter()
        model: Callable[..., Any] = factory(dict(config), dict(weights))
        self.making["factory"] = perf_counter() - started
        reported = getattr(model, "making", {})
        for name in MAKING:
            if isinstance(reported, Mapping) and isinstance(reported.get(name), float | int):
                self.making[name] = float(reported[name])
        return model

    def enter_round(self, number: int, expected: float = math.inf) -> float:
        """Give the inputs the numbers of that round, in newly allocated memory, and drop the last result.

        Then a call fills the cache, if one of `expected` seconds needs that. During this call the first input has other
        numbers than in the round, so that the function cannot cache the round's output. Returns its seconds.
        """
        self.stopwatch.result = None
        self._blocks.clear()
        with one_thread():
            for _ in range(BLOCKS):  # each fills a gap of the heap and shifts later allocations
                self._blocks.append(torch.empty(self._random.randrange(LARGEST_BLOCK), dtype=torch.uint8))
            turned = dict(self._lay_out(self._workload.tensors_of_round(self._base, number)))
            for name, tensor in turned.items():
                self.inputs[name].data = tensor  # .data leaves the version unchanged, which a cache may inspect
            first = next(iter(turned.values()))
            _swap_numbers(first)
        warmed = self.stopwatch.warm(expected)
        with one_thread():
            _swap_numbers(first)
        return warmed

    def overwrite(self, number: int) -> None:
        """Write the numbers of that round into the inputs, in their present memory."""
        with one_thread():
            for name, tensor in self._workload.tensors_of_round(self._base, number).items():
                self.inputs[name].data.copy_(tensor)

    def whole_call(self) -> None:
        """Make one call with its untimed parts; sets `output_bytes` to the size of its output and gradients."""
        result = self.call(None) if self._direction == "forward" else self._both(None)
        tensors = [result] if self._direction == "forward" else list(self._of_gradients(result).values())
        self.output_bytes = sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    def call_on_one_item(self) -> None:
        """Call a model on the first item of its batch."""
        self._bound({name: tensor.detach()[:1] for name, tensor in self.inputs.items()})[0](None)

    def caches_outputs(self, expected: float) -> str:
        """Evidence that outputs are cached rather than computed, or empty. A call takes `expected` seconds.

        A call that is a sample by itself cannot gain from a cache: each sample has new numbers.
        """
        times = ""
        for _ in range(3 if calls_per_sample(expected, self._length) > 1 else 0):
            new = self._time_on_new_inputs(expected)
            repeated = max(expected, min(self.stopwatch.time_once() for _ in range(SAME)))
            times = f"a call on new inputs takes {new:.3g} s, the same call again {repeated:.3g} s"
            if new <= CACHED_ABOVE * repeated + TOO_SHORT:
                return ""
        return times and f"it caches outputs: {times}"

    def _time_on_new_inputs(self, expected: float) -> float:
        """The shortest time of a call on inputs that the function has not seen."""
        times: list[float] = []
        ends = perf_counter() + NEW_NUMBERS
        while not times or (len(times) < 8 and perf_counter() + expected < ends):
            self.overwrite(next(self._new_numbers))
            times.append(self.stopwatch.time_once())
        return min(times)

    def copy_result(self) -> None:
        """Copy the output of the last timed call, so that a thread of the function cannot complete it later."""
        self.stopwatch.result = _copied(self.stopwatch.result)

    def laid(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Inputs in the memory layout of the function's own signature, on its device."""
        return {name: tensor.to(self._device) for name, tensor in self._lay_out(tensors).items()}

    def on_others(self, tensors: Mapping[str, Tensor]) -> tuple[Call, Before | None]:
        """The call on these inputs, already in its layout, and its `before`. Other inputs are the task's own."""
        kept = {n: t if self._step and n in self._names else t.detach() for n, t in self.inputs.items()}
        return self._bound({**kept, **tensors})[:2]

    def output_rows(self, rows: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """Rows of the output of the last timed call; see `rows_of`."""
        return self.rows_of(self.stopwatch.result, rows)

    def rows_of(self, result: Any, rows: Mapping[str, Sequence[int]] | None = None) -> dict[str, Tensor]:
        """These rows of a call's result, or all, flattened to two axes, on the CPU, without a copy if possible.

        Raises TypeError for anything but plain tensors.
        """
        tensors = {"output": result} if self._direction == "forward" else self._of_gradients(result)
        if rows is None:
            return {name: _rows(name, tensor) for name, tensor in tensors.items()}
        return {name: _rows(name, tensor, rows[name]) for name, tensor in tensors.items() if name in rows}

    def _of_gradients(self, result: Any) -> dict[str, Any]:
        output, gradients = result
        named = dict(zip(self._names, gradients, strict=True))
        return {**named} if output is None else {LOSS if self._step else "output": output.detach(), **named}

    def _bound(self, inputs: Mapping[str, Tensor]) -> tuple[Call, Before | None, Call]:
        """The call in its direction on these inputs, its untimed preparation if any, and both together."""
        positional = [inputs[name] for name in self._positional if name in inputs]
        by_name = {name: tensor for name, tensor in inputs.items() if name not in self._positional}
        forward = partial(self._function, *positional, **by_name, **self._options)
        if self._step:
            take = partial(self._step.take, forward, inputs)
            return lambda _: take(), self._step.restore, lambda _: take()
        wanted = [inputs[name].requires_grad_(True) for name in self._names]

        def without_gradients(_: Any) -> Any:
            with torch.no_grad():
                return output_of(forward())

        def backward(output: Any) -> tuple[None, Any]:
            return None, torch.autograd.grad(output_of(output), wanted, self._upstream)

        def both(_: Any) -> tuple[Any, Any]:
            output = output_of(forward())
            return output, torch.autograd.grad(output, wanted, self._upstream)

        calls: dict[str, Call] = {"forward": without_gradients, "backward": backward, "forward_backward": both}
        return calls[self._direction], forward if self._direction == "backward" else None, both


class Step:
    """Training steps of Adam on some weights, which are reset before each step.

    Each step therefore starts from the oracle's weights. The optimiser's moments exist before the first step, as in all
    later steps of a training.
    """

    def __init__(self, trained: Mapping[str, Tensor], loss: Loss) -> None:
        self._weights = {name: weight.requires_grad_(True) for name, weight in trained.items()}
        self._loss = loss
        smallest = max(torch.finfo(weight.dtype).tiny for weight in trained.values())
        self._optimiser = torch.optim.Adam(trained.values(), lr=LEARNING_RATE, eps=max(EPSILON, smallest))
        self._first = [weight.detach().clone() for weight in trained.values()]
        for weight in trained.values():
            weight.grad = torch.zeros_like(weight)
        self._optimiser.step()
        self.restore()

    def restore(self) -> None:
        """Reset the weights to their initial numbers."""
        with torch.no_grad():
            torch._foreach_copy_(list(self._weights.values()), self._first)

    def take(self, forward: Callable[[], Any], inputs: Mapping[str, Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The loss and the gradients of the weights, in order, of one step on these inputs.

        Raises NotImplementedError if a weight gets no gradient.
        """
        self._optimiser.zero_grad()
        output = forward()
        if isinstance(output, Tensor) and not output.requires_grad:
            raise NotImplementedError("no gradient reaches its weights: it is built for inference")
        loss = self._loss(output, inputs)
        loss.backward()
        self._optimiser.step()
        gradients = tuple(weight.grad for weight in self._weights.values() if weight.grad is not None)
        if len(gradients) < len(self._weights):
            first, *others = (name for name, weight in self._weights.items() if weight.grad is None)
            more = f" and {len(others)} more of its weights" if others else ""
            raise NotImplementedError(f"no gradient reaches {first}{more}: it is built for inference")
        return loss.detach(), gradients


def _swap_numbers(tensor: Tensor) -> None:
    """Change a tensor's numbers in the same memory; a second call restores them."""
    if tensor.is_floating_point():
        tensor.neg_()
    else:
        tensor.copy_(tensor.flip(-1))


def _copied(result: Any) -> Any:
    """The result, with tensors up to `COPIED` bytes replaced by copies."""
    if isinstance(result, tuple):
        return tuple(map(_copied, result))
    if type(result) is Tensor and result.numel() * result.element_size() <= COPIED:
        with one_thread(), as_it_lies():
            return METHODS.clone(METHODS.detach(result))
    return result


def _rows(name: str, tensor: Any, rows: Sequence[int] | None = None) -> Tensor:
    if type(tensor) not in (Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
        raise TypeError(f"{name} is a {type(tensor).__name__}, should be a Tensor")
    plain = plain_tensor(tensor)
    with as_it_lies():
        flat: Tensor = METHODS.reshape(plain, (-1, plain.shape[-1] if plain.dim() else 1))
        return (flat if rows is None else flat[list(rows)]).cpu()
