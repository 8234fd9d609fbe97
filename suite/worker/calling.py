"""Calls of an implementation and snapshots of its outputs, in the suite's process and in the implementation's own."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import torch
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.cases.layouts import JUNK
from attnsuite.cases.returned_weights import ambiguous_pair, is_pair, output_of, weights_name, weights_of
from attnsuite.judging import float32
from attnsuite.registry import preserve_process_state
from attnsuite.registry.loading import in_one_line, raised
from attnsuite.worker.messages import calls_from, storage_of
from attnsuite.worker.recording import Probe, lost, recorded
from attnsuite.worker.snapshots import (
    OUTPUT_GRADIENT,
    SUBCLASS,
    compared,
    fingerprints,
    fingerprints_of,
    kind_of,
    layout,
    overlap,
    place_of,
    placed,
    plain_tensor,
    same_bits,
    sent_with,
    snapshot_of,
    view_like,
    weight_name,
)  # fmt: skip

LOST_BEFORE = "not called: an earlier call has lost this process's CUDA context"
"""The reply in the suite's own process, which cannot be restarted."""
REPEATS = 8
"""Calls of each of several threads: a rare error shows in some of them."""
SWITCH_INTERVAL = 1e-5
"""Seconds after which Python switches threads. Its default of 5 ms is longer than most calls, which would hardly
ever overlap."""
_DISTURBED: list[bool] = []
"""Not empty within a block of `undisturbed`."""
Result = TypeVar("Result")


def run_calls(
    function: Callable[..., Any], calls: Sequence[Call], device: str = "cpu", *, alone: bool = False
) -> tuple[Reply, ...]:
    """Make the calls in order and snapshot their outputs. An exception of the function is a reply.

    A KeyboardInterrupt comes from the user and propagates, unless the function is `alone` in its process. There the
    parent compares the inputs afterwards; else this function does.
    """
    if alone:
        return Calls(function, device, alone=True).replies(calls)
    if reason := lost(device):
        return (Reply(error=f"{LOST_BEFORE}: {reason}"),) * len(calls)
    return tries(calls, device)(function)


def tries(calls: Sequence[Call], device: str = "cpu") -> Callable[[Callable[..., Any]], tuple[Reply, ...]]:
    """`run_calls` of these calls with one function after the other: their inputs are hashed once."""
    sent = fingerprints(sent_with(calls))
    return lambda function: compared(calls, Calls(function, device).replies(calls), sent)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Hide warnings, and restore after the block what calls change in this process; within such a block do nothing."""
    if _DISTURBED:
        yield
        return
    with preserve_process_state(seeds=False), float32.exact(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _DISTURBED.append(True)
        try:
            yield
        finally:
            _DISTURBED.clear()


def serve(function: Callable[..., Any], device: str, arguments: Mapping[str, Any]) -> tuple[Reply, ...]:
    """Make calls that arrived as data in the implementation's own process."""
    return run_calls(function, calls_from(arguments["calls"]), device, alone=True)


@dataclass
class Calls:
    """The calls of one request, and their shared state: the function, storages of inputs, and built models."""

    function: Callable[..., Any]
    device: str
    alone: bool = False
    """Whether the function is alone in its process."""
    passes: dict[int, ForwardPass] = field(default_factory=dict)
    """Forward passes whose backward pass a later call runs."""
    inputs: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """The storage of each input, and the input itself."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """The weights of the current model, under their names next to inputs."""
    models: list[tuple[Callable[..., Any], dict[str, Tensor]] | None] = field(default_factory=list)
    """The model that each call has built, with its weights; None for a call that built none."""
    probe: Probe = field(default_factory=Probe)
    """The backend that records its calls, for calls that need that."""

    def replies(self, calls: Sequence[Call]) -> tuple[Reply, ...]:
        """The reply to each call."""
        self.reused_passes = {call.backward_of for call in calls[1:]}
        replies: list[LiveReply] = []
        with undisturbed():
            for together, group in groupby(enumerate(calls), lambda numbered: numbered[1].at_once):
                if together:
                    prepared = [(number, call, self._callee(call), self._inputs(call)) for number, call in group]
                    for repeats in at_once([partial(self._reply, *arguments) for arguments in prepared], REPEATS):
                        replies.append(next((r for r in repeats if r.differs_from(repeats[0])), repeats[0]))
                else:
                    for number, call in group:
                        work = partial(self._reply, number, call)
                        replies.append(at_once([work])[0][0] if call.own_thread else work())
        return tuple(live.reply if len(calls) == 1 else live.after_later_calls() for live in replies)

    def _reply(self, number: int, call: Call, *prepared: Any) -> LiveReply:
        self.probe.lines.clear()
        try:
            live = self._result(number, call, *prepared)
            # copies of the caller's storages, whatever the function did to its views
            views = {name: view_like(self.inputs[name][0], call.tensors[name]) for name in call.state}
            left = {name: placed(view, "cpu") for name, view in views.items()}
            return replace(live, reply=replace(live.reply, state=left)) if left else live
        except _NoModel as error:
            return LiveReply(Reply(kind=str(error), no_model=True))
        except NotImplementedError as error:
            reason = in_one_line(error).partition(": ")[2]
            return LiveReply(Reply(unsupported=reason or "NotImplementedError without a reason"))
        except KeyboardInterrupt as error:
            if not self.alone:
                raise
            return LiveReply(Reply(error=in_one_line(error)))
        except BaseException as error:  # any exception of a submission is its result
            return LiveReply(Reply(error=raised(error)))

    def _result(self, number: int, call: Call, *prepared: Any) -> LiveReply:
        started = time.perf_counter()
        with setting(call):
            if call.backward_of is None:
                function, inputs = prepared or (self._callee(call), self._inputs(call))
                with recorded(call.operators) as operators:
                    done = _forward(call, function, inputs)
            elif call.backward_of in self.passes:
                done, operators = self.passes[call.backward_of], []
            else:
                earlier = call.backward_of + 1
                raise RuntimeError(f"no backward pass is possible, because call {earlier} returned no output")
            if number in self.reused_passes:
                self.passes[number] = done
            kind, output = _described(done.output)
            weights = _described(done.weights)[1]
            upstream: dict[str, Tensor] = {}
            retain = number in self.reused_passes or call.backward_of is not None
            gradients = _gradients(done, call, upstream, retain) if output is not None else {}
        seconds = time.perf_counter() - started
        tensors = {**done.inputs, **self.weights, **upstream}
        reply = Reply(
            kind=kind,
            device=done.output.device.type if isinstance(done.output, Tensor) else "cpu",
            left=fingerprints_of(tensors),
            attended=tuple(self.probe.lines),
            operators=tuple(operators),
            seconds=seconds,
        )
        if output is None:
            return LiveReply(reply)
        plain = plain_tensor(done.output)
        weighed = {name: tensor for name, tensor in done.attentions.items() if kind_of(tensor) is None}
        reply = replace(
            reply,
            output=output,
            pair=done.pair,
            weights=weights,
            weights_name=done.name,
            gradients={name: None if tensor is None else snapshot_of(tensor) for name, tensor in gradients.items()},
            aliased=done.inputs_sharing(plain),
            attention_weights=dict.fromkeys(done.attentions) | {name: snapshot_of(w) for name, w in weighed.items()},
        )
        if call.written:
            return LiveReply(replace(reply, error=unwritable(plain)))
        attentions = {name: plain_tensor(tensor) for name, tensor in weighed.items()}
        return LiveReply(reply, plain, {name: g for name, g in gradients.items() if g is not None}, attentions)

    def _callee(self, call: Call) -> Callable[..., Any]:
        """The callable for the inputs: the function, or the model that it builds from config and weights."""
        self.models.append(None)
        if call.model_of is not None:
            built = self.models[call.model_of]
            if built is None:
                raise RuntimeError("the model could not be built")
            self.weights = built[1]
            return built[0]
        backend = {"attention": self.probe} if call.probed else {}
        self.weights = {}
        if call.config is None:
            return partial(self.function, **backend)
        weights = {name: placed(tensor, self.device) for name, tensor in call.weights.items()}
        self.weights = {weight_name(name): tensor for name, tensor in weights.items()}
        model: Callable[..., Any] = self.function(dict(call.config), weights, **call.factory_options, **backend)
        if not callable(model):
            raise _NoModel(kind_of(model) or "a Tensor")
        self.models[-1] = model, self.weights
        return model

    def _inputs(self, call: Call) -> dict[str, Tensor]:
        """The tensors for one call: new ones, or those of the previous call with other numbers."""
        for name, tensor in call.tensors.items():
            storage, seen = self.inputs.get(name, (None, None))
            fits = storage is not None and storage.numel() == storage_of(tensor).numel()
            if call.same_storage and storage is not None and seen is not None and fits:
                storage.copy_(storage_of(tensor))
                if layout(seen) == layout(tensor) and not seen.requires_grad:
                    continue
            else:
                storage = storage_of(tensor).to(self.device, copy=True)
            self.inputs[name] = storage, view_like(storage, tensor)
        for name in call.same_tensor:
            self.inputs[name] = self.inputs[call.same_tensor[0]]
        return {name: self.inputs[name][1] for name in call.tensors}


@dataclass(frozen=True)
class ForwardPass:
    """A forward pass: its inputs and its outputs."""

    inputs: dict[str, Tensor]
    output: Any
    weights: Tensor | None = None
    """Attention weights that were returned next to the output."""
    pair: bool = False
    name: str = ""
    """The name of the weights in a dictionary."""
    attentions: Mapping[str, Any] = field(default_factory=dict)
    """Attention weights by name, if the call requests them."""

    def inputs_sharing(self, output: Tensor) -> tuple[str, ...]:
        """The inputs whose storage an output shares."""
        place = place_of(output)
        return tuple(name for name, tensor in self.inputs.items() if overlap(place, place_of(tensor)))


@dataclass(frozen=True)
class LiveReply:
    """A reply with the tensors of the implementation, which a later call may still change."""

    reply: Reply
    output: Tensor | None = None
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """The attention weights next to the output."""

    def differs_from(self, other: LiveReply) -> bool:
        """Whether the same call has another result."""
        mine, theirs = self.reply, other.reply
        if mine.output is None or theirs.output is None:
            return (mine.output, mine.error, mine.unsupported) != (theirs.output, theirs.error, theirs.unsupported)
        return not same_bits(mine.output, theirs.output)

    def after_later_calls(self) -> Reply:
        """The reply, with the tensors that later calls have changed."""
        reply = self.reply
        changed = [name for name, tensor in self.gradients.items() if _differs(tensor, reply.gradients[name])]
        weights = [name for name, tensor in self.weights.items() if _differs(tensor, reply.attention_weights[name])]
        overwritten = self.output is not None and _differs(self.output, reply.output)
        return replace(
            reply, overwritten=overwritten, gradients_overwritten=tuple(changed), weights_overwritten=tuple(weights)
        )


def _differs(tensor: Tensor, snapshot: Tensor | None) -> bool:
    try:
        return snapshot is not None and not same_bits(tensor, snapshot)
    except Exception:  # it was resized, freed or moved
        return True


class _NoModel(Exception):
    """A factory returned an uncallable object; the message names its kind."""


def at_once(works: Sequence[Callable[[], Result]], times: int = 1) -> list[list[Result]]:
    """The results of each piece of work, repeated `times` times in a thread of its own; an exception propagates.

    Threads do not start together, so each repeats its work until all are done.
    """
    results: list[list[Result]] = [[] for _ in works]
    raised: list[BaseException] = []

    def do(number: int) -> None:
        try:
            while not raised and (len(results[number]) < times or any(len(other) < times for other in results)):
                results[number].append(works[number]())
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=do, args=(number,), daemon=True) for number in range(len(works))]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL if len(works) > 1 else usual)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    if raised:
        raise raised[0]
    return results


@contextmanager
def setting(call: Call) -> Iterator[None]:
    """Apply PyTorch's global settings of the call within the block."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    if call.threads is not None:
        torch.set_num_threads(call.threads)
    if call.default_dtype is not None:
        torch.set_default_dtype(getattr(torch, call.default_dtype))
    try:
        yield
    finally:
        if call.threads is not None:
            torch.set_num_threads(threads)
        if call.default_dtype is not None:
            torch.set_default_dtype(dtype)


def unwritable(output: Tensor) -> str:
    """Write to the output, as a caller may: the error, such as for overlapping memory, or empty."""
    try:
        output.mul_(0).add_(JUNK)
    except RuntimeError as error:
        return f"the output cannot be written to: {in_one_line(error)}"
    return ""


def split_weights(returned: Any, second: str = "") -> tuple[Any, Mapping[str, Any]]:
    """An output and its attention weights by name, if `returned` is such a pair; else `returned` without weights.

    `second` is the name of a second output that is no attention weights.
    """
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        return returned, {}
    output, weights = returned
    named = isinstance(weights, dict) and not second
    return output, {str(name): weights[name] for name in weights} if named else {second: weights}


def _forward(call: Call, function: Callable[..., Any], inputs: dict[str, Tensor]) -> ForwardPass:
    for name in (*call.gradient_of, *call.requires_gradient):
        inputs[name].requires_grad_(True)
    for name in call.parameters:
        inputs[name] = torch.nn.Parameter(inputs[name], inputs[name].requires_grad)
    if call.seed is not None:  # without a CUDA device torch.manual_seed takes a millisecond to prepare for one
        (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(call.seed)
    with torch.inference_mode() if call.inference else torch.set_grad_enabled(call.grad_mode):
        returned = function(
            *(inputs[name] for name in call.positional if name in inputs),
            **{name: tensor for name, tensor in inputs.items() if name not in call.positional},
            **call.options,
        )
    if call.need_weights or call.second:
        output, attentions = split_weights(returned, call.second)
        return ForwardPass(inputs, output, attentions=attentions)
    return ForwardPass(inputs, output_of(returned), weights_of(returned), is_pair(returned), weights_name(returned))


def _described(output: Any) -> tuple[str, Tensor | None]:
    """The kind of an output in words, and a snapshot if it holds numbers."""
    kind = ambiguous_pair(output) or kind_of(output)
    if kind is None:
        return "Tensor", snapshot_of(output)
    if kind.startswith(SUBCLASS):
        with suppress(Exception):  # a subclass that holds no numbers
            return kind, snapshot_of(output)
    return kind, None


class _End(torch.autograd.Function):
    """A number at the end of a graph, whose backward pass begins with exactly the given gradient tensor.

    `torch.autograd.grad` would validate a gradient with sympy, whose import takes each process half a second.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return torch.zeros((), dtype=torch.float32, device=gradient.device)  # of complex numbers, too

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient, None


def _gradients(done: ForwardPass, call: Call, upstream: dict[str, Tensor], retain: bool) -> dict[str, Tensor | None]:
    """The gradient of each input; None if the output has no graph or another shape than its gradient.

    Adds the output's gradient, which the backward pass may write to, to `upstream`. With `retain` the backward pass may
    run again.
    """
    if not call.gradient_of:
        return {}
    output, inputs = done.output, done.inputs
    assert call.output_gradient is not None
    if not output.requires_grad or output.shape != call.output_gradient.shape:
        return dict.fromkeys(call.gradient_of)
    upstream[OUTPUT_GRADIENT] = placed(call.output_gradient, str(output.device)).to(output.dtype)
    with torch.enable_grad():
        end: Tensor = _End.apply(output, upstream[OUTPUT_GRADIENT])  # type: ignore[no-untyped-call]
        second = done.attentions.get(call.second)
        if call.second_gradient is not None and isinstance(second, Tensor) and second.requires_grad:
            if second.shape != call.second_gradient.shape:
                return dict.fromkeys(call.gradient_of)
            end = end + _End.apply(second, placed(call.second_gradient, str(second.device)).to(second.dtype))  # type: ignore[no-untyped-call]
    wanted = [inputs[name] for name in call.gradient_of]
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(end, wanted, retain_graph=retain, allow_unused=True)
    named = zip(call.gradient_of, gradients, strict=True)
    return {name: gradient if gradient is not None and kind_of(gradient) is None else None for name, gradient in named}
