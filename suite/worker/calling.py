"""Calls made and replies taken: the same code in the suite's process and in an implementation's own."""

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
from attnsuite.registry.loading import in_one_line
from attnsuite.worker.device import lost, with_memory
from attnsuite.worker.inputs import (
    OUTPUT_GRADIENT,
    UNCHANGED,
    compared,
    compared_directly,
    fingerprints_of,
    sent_with,
    weight_name,
)
from attnsuite.worker.messages import calls_from, storage_of
from attnsuite.worker.operators import recorded
from attnsuite.worker.probe import Probe
from attnsuite.worker.snapshots import (
    SUBCLASS,
    kind_of,
    layout,
    overlap,
    place_of,
    placed,
    plain_tensor,
    same_bits,
    snapshot_of,
    view_like,
)  # fmt: skip

LOST_BEFORE = "not called: an earlier call has lost this process's CUDA context"
"""The reply in the suite's own process, which no other replaces."""
REPEATS = 8
"""Times that each of several threads makes its call: one that goes wrong only now and then does so in some of them."""
SWITCH_INTERVAL = 1e-5
"""Seconds after which Python hands over from one of several threads to the next. Its own 5 ms are longer than most
calls, which would then hardly ever overlap."""
Result = TypeVar("Result")


def run_calls(
    function: Callable[..., Any], calls: Sequence[Call], device: str = "cpu", *, alone: bool = False
) -> tuple[Reply, ...]:
    """Make the calls in order and snapshot what they return. Whatever the function raises is its answer.

    A KeyboardInterrupt is the user's and passes through, except where the function is `alone` in its process. There the
    parent compares what is left of the inputs; else that is done here.
    """
    if alone:
        return Calls(function, device).replies(calls)
    if reason := lost(device):
        return (Reply(error=f"{LOST_BEFORE}: {reason}"),) * len(calls)
    sent = sent_with(calls)
    replies = Calls(function, device, sent).replies(calls)
    return compared(calls, replies, [dict.fromkeys(tensors, UNCHANGED) for tensors in sent])


def serve(function: Callable[..., Any], device: str, arguments: Mapping[str, Any]) -> tuple[Reply, ...]:
    """Answer calls that came as data to the implementation's own process."""
    return run_calls(function, calls_from(arguments["calls"]), device, alone=True)


@dataclass
class Calls:
    """The calls of one request, and what they share: the function, storages of inputs, and models that were built."""

    function: Callable[..., Any]
    device: str
    sent: Sequence[Mapping[str, Tensor]] | None = None
    """The inputs and weights of each call as they were; None where the function is alone in its process."""
    passes: dict[int, ForwardPass] = field(default_factory=dict)
    """Forward passes whose backward pass a later call runs."""
    inputs: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """The storage of each input, and the input itself."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Those of the model of the moment, by the names that they have next to inputs."""
    models: list[tuple[Callable[..., Any], dict[str, Tensor]] | None] = field(default_factory=list)
    """The model that each call has built, with its weights; None for a call that built none."""
    probe: Probe = field(default_factory=Probe)
    """The backend where a call wants to know how it is called; it has a record of each call's own."""

    def replies(self, calls: Sequence[Call]) -> tuple[Reply, ...]:
        """The reply to each call."""
        self.again = {call.backward_of for call in calls[1:]}
        answers: list[LiveReply] = []
        with preserve_process_state(seeds=False), float32.exact(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for together, group in groupby(enumerate(calls), lambda numbered: numbered[1].at_once):
                if together:
                    prepared = [(number, call, self._callee(call), self._inputs(call)) for number, call in group]
                    several = at_once([partial(self._answer, *arguments) for arguments in prepared], REPEATS)
                    answers += [
                        next((other for other in made if other.differs_from(made[0])), made[0]) for made in several
                    ]
                else:
                    answers += [self._in_its_thread(*numbered) for numbered in group]
        return tuple(answer.reply if len(calls) == 1 else answer.after_later_calls() for answer in answers)

    def _in_its_thread(self, number: int, call: Call) -> LiveReply:
        work = partial(self._answer, number, call)
        return at_once([work])[0][0] if call.own_thread else work()

    def _answer(self, number: int, call: Call, *prepared: Any) -> LiveReply:
        self.probe.lines.clear()
        try:
            return self._taken(number, call, *prepared)
        except _NoModel as error:
            return LiveReply(Reply(kind=str(error), no_model=True))
        except NotImplementedError as error:
            reason = in_one_line(error).partition(": ")[2]
            return LiveReply(Reply(unsupported=reason or "NotImplementedError without a reason"))
        except KeyboardInterrupt as error:
            if self.sent is not None:
                raise
            return LiveReply(Reply(error=in_one_line(error)))
        except BaseException as error:  # whatever a submission raises is its answer
            return LiveReply(Reply(error=with_memory(in_one_line(error), self.device)))

    def _taken(self, number: int, call: Call, *prepared: Any) -> LiveReply:
        started = time.perf_counter()
        with setting(call):
            if call.backward_of is None:
                function, inputs = prepared or (self._callee(call), self._inputs(call))
                with recorded(call.operators) as operators:
                    done = _forward(call, function, inputs)
            else:
                done, operators = self._earlier(call.backward_of), []
            if number in self.again:
                self.passes[number] = done
            kind, output = _described(done.output)
            weights = _described(done.weights)[1]
            given: dict[str, Tensor] = {}
            retain = number in self.again or call.backward_of is not None
            gradients = _gradients(done, call, given, retain) if output is not None else {}
        seconds = time.perf_counter() - started
        tensors = {**done.inputs, **self.weights, **given}
        left = fingerprints_of(tensors) if self.sent is None else compared_directly(tensors, self.sent[number])
        reply = Reply(
            kind=kind,
            device=done.output.device.type if isinstance(done.output, Tensor) else "cpu",
            left=left,
            attended=tuple(self.probe.lines),
            operators=tuple(operators),
            seconds=seconds,
        )
        if output is None:
            return LiveReply(reply)
        plain = plain_tensor(done.output)
        reply = replace(
            reply,
            output=output,
            pair=done.pair,
            weights=weights,
            weights_name=done.name,
            gradients={name: None if tensor is None else snapshot_of(tensor) for name, tensor in gradients.items()},
            aliased=done.inputs_sharing(plain),
            attention_weights={name: _snapshot(tensor) for name, tensor in done.attentions.items()},
        )
        if call.written:
            return LiveReply(replace(reply, error=unwritable(plain)))
        attentions = {
            name: plain_tensor(done.attentions[name])
            for name, tensor in reply.attention_weights.items()
            if tensor is not None
        }
        return LiveReply(reply, plain, {name: each for name, each in gradients.items() if each is not None}, attentions)

    def _earlier(self, number: int) -> ForwardPass:
        if number not in self.passes:
            raise RuntimeError(f"there is no way back, for call {number + 1} gave no output")
        return self.passes[number]

    def _callee(self, call: Call) -> Callable[..., Any]:
        """What the inputs are given to: the function, or the model that it makes of config and weights."""
        self.models.append(None)
        if call.model_of is not None:
            built = self.models[call.model_of]
            if built is None:
                raise RuntimeError("there is no model, for it could not be built")
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
        """The tensors for one call: fresh ones, or those of the call before with other numbers in them."""
        for name, tensor in call.tensors.items():
            storage, seen = self.inputs.get(name, (None, None))
            if call.same_storage and storage is not None and seen is not None:
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
    """A forward pass: what was given, and what was returned."""

    inputs: dict[str, Tensor]
    output: Any
    weights: Tensor | None = None
    """What was returned next to the output."""
    pair: bool = False
    name: str = ""
    """That of the weights, where they came in a dictionary."""
    attentions: Mapping[str, Any] = field(default_factory=dict)
    """The same by name, where attention weights were asked for."""

    def inputs_sharing(self, output: Tensor) -> tuple[str, ...]:
        """The inputs whose storage an output shares."""
        place = place_of(output)
        return tuple(name for name, tensor in self.inputs.items() if overlap(place, place_of(tensor)))


@dataclass(frozen=True)
class LiveReply:
    """A reply with the output and the gradients themselves, which a later call may still change."""

    reply: Reply
    output: Tensor | None = None
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """The attention weights that came with the output."""

    def differs_from(self, other: LiveReply) -> bool:
        """Whether the same call has another result."""
        one, two = self.reply, other.reply
        if one.output is None or two.output is None:
            return (one.output, one.error, one.unsupported) != (two.output, two.error, two.unsupported)
        return not same_bits(one.output, two.output)

    def after_later_calls(self) -> Reply:
        """The reply, with what later calls have changed."""
        reply = self.reply
        changed = [name for name, now in self.gradients.items() if _differs(now, reply.gradients[name])]
        weights = [name for name, now in self.weights.items() if _differs(now, reply.attention_weights[name])]
        overwritten = self.output is not None and _differs(self.output, reply.output)
        return replace(
            reply, overwritten=overwritten, gradients_overwritten=tuple(changed), weights_overwritten=tuple(weights)
        )


def _differs(now: Tensor, snapshot: Tensor | None) -> bool:
    try:
        return snapshot is not None and not same_bits(now, snapshot)
    except Exception:  # it was resized, freed or moved
        return True


class _NoModel(Exception):
    """A factory returned nothing that can be called; the message says what."""


def at_once(works: Sequence[Callable[[], Result]], times: int = 1) -> list[list[Result]]:
    """The results of each piece of work, done so often, each in a thread of its own; what it raises is raised here.

    Threads do not start together. So each goes on until all have done their work.
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
    """What the call wants of PyTorch as a whole, forward and backward; restored afterwards."""
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
    """Write to the output, as its owner may: what is raised then, as where numbers share a place, or empty."""
    try:
        output.mul_(0).add_(JUNK)
    except RuntimeError as error:
        return f"the output cannot be written to: {in_one_line(error)}"
    return ""


def split_weights(returned: Any) -> tuple[Any, Mapping[str, Any]]:
    """An output and its attention weights by name, of a pair of them; of anything else that itself, and none."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        return returned, {}
    output, weights = returned
    return output, {str(name): weights[name] for name in weights} if isinstance(weights, dict) else {"": weights}


def _forward(call: Call, function: Callable[..., Any], inputs: dict[str, Tensor]) -> ForwardPass:
    for name in (*call.gradient_of, *call.requires_gradient):
        inputs[name].requires_grad_(True)
    if call.seed is not None:  # without a CUDA device torch.manual_seed takes a millisecond to prepare for one
        (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(call.seed)
    with torch.inference_mode() if call.inference else torch.set_grad_enabled(call.grad_mode):
        returned = function(
            *(inputs[name] for name in call.positional if name in inputs),
            **{name: tensor for name, tensor in inputs.items() if name not in call.positional},
            **call.options,
        )
    if call.need_weights:
        output, attentions = split_weights(returned)
        return ForwardPass(inputs, output, attentions=attentions)
    return ForwardPass(inputs, output_of(returned), weights_of(returned), is_pair(returned), weights_name(returned))


def _described(output: Any) -> tuple[str, Tensor | None]:
    """What was returned, in words, and a snapshot where it has numbers of its own."""
    kind = ambiguous_pair(output) or kind_of(output)
    if kind is None:
        return "Tensor", snapshot_of(output)
    if kind.startswith(SUBCLASS):
        with suppress(Exception):  # one that holds no numbers of its own stays a kind
            return kind, snapshot_of(output)
    return kind, None


def _snapshot(weights: Any) -> Tensor | None:
    """A snapshot of attention weights; None where they are no tensor."""
    return snapshot_of(weights) if kind_of(weights) is None else None


class _End(torch.autograd.Function):
    """A number at the end of a graph, whose backward pass begins with the output's gradient, that very tensor.

    PyTorch checks a gradient that is given to `torch.autograd.grad` with sympy, which takes each process half a second
    to import.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, gradient: Tensor) -> Tensor:
        ctx.gradient = gradient
        return torch.zeros((), dtype=torch.float32, device=gradient.device)  # of complex numbers, too

    @staticmethod
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient, None


def _gradients(done: ForwardPass, call: Call, given: dict[str, Tensor], retain: bool) -> dict[str, Tensor | None]:
    """The gradient of each input; none where the output needs none, or has another shape than its gradient.

    The output's gradient, which the backward pass may write to, is added to what was `given`. `retain`: it may be run
    again.
    """
    if not call.gradient_of:
        return {}
    output, inputs = done.output, done.inputs
    assert call.output_gradient is not None
    if not output.requires_grad or output.shape != call.output_gradient.shape:
        return dict.fromkeys(call.gradient_of)
    given[OUTPUT_GRADIENT] = placed(call.output_gradient, str(output.device)).to(output.dtype)
    with torch.enable_grad():
        end: Tensor = _End.apply(output, given[OUTPUT_GRADIENT])  # type: ignore[no-untyped-call]
    wanted = [inputs[name] for name in call.gradient_of]
    gradients: tuple[Tensor | None, ...] = torch.autograd.grad(end, wanted, retain_graph=retain, allow_unused=True)
    named = zip(call.gradient_of, gradients, strict=True)
    return {name: gradient if gradient is not None and kind_of(gradient) is None else None for name, gradient in named}
