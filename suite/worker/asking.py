"""Calls made and replies taken: the same code where the implementation shares our process and where it has its own."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.cases.returned_weights import ambiguous_pair, is_pair, output_of, weights_name, weights_of
from attnsuite.judging import float32
from attnsuite.registry import undisturbed
from attnsuite.registry.loading import in_one_line
from attnsuite.worker.answers import Answer, Pass, parted
from attnsuite.worker.at_once import at_once
from attnsuite.worker.context import beside, lost
from attnsuite.worker.inputs import (
    AS_SENT,
    OUTPUT_GRADIENT,
    compared,
    compared_itself,
    left_of,
    name_of_weight,
    sent_with,
)
from attnsuite.worker.messages import calls_from, storage_of
from attnsuite.worker.operators import recorded
from attnsuite.worker.probe import Probe
from attnsuite.worker.setting import setting, unwritable
from attnsuite.worker.snapshots import (
    SUBCLASS,
    kind_of,
    layout,
    placed,
    plain_tensor,
    seen_through,
    snapshot_of,
)

LOST_BEFORE = "not called: an earlier call has lost this process's CUDA context"
"""What is answered in the suite's own process, which no other replaces."""
Weights = dict[str, Tensor]
"""A model's weights, by the names that they have beside inputs."""


def ask(
    function: Callable[..., Any], calls: Sequence[Call], device: str = "cpu", *, alone: bool = False
) -> tuple[Reply, ...]:
    """Make the calls in order and snapshot what comes back. Whatever the function raises is its answer.

    A KeyboardInterrupt is the user's and passes through, except where the function is `alone` in its process. Whoever
    asks it there has to compare what is left of the inputs; else that is done here.
    """
    if alone:
        return _asked(function, calls, device, None)
    sent = sent_with(calls)
    return compared(calls, _asked(function, calls, device, sent), [dict.fromkeys(each, AS_SENT) for each in sent])


def _asked(function: Callable[..., Any], calls: Sequence[Call], device: str, sent: Sent | None) -> tuple[Reply, ...]:
    if said := "" if sent is None else lost(device):
        return (Reply(raised=f"{LOST_BEFORE}: {said}"),) * len(calls)
    answers: list[Answer] = []
    shared = _Shared(function, device, sent, frozenset(call.backward_of for call in calls[1:]))
    with undisturbed(seeds=False), float32.exact(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for together, group in groupby(enumerate(calls), lambda numbered: numbered[1].at_once):
            if together:
                ready = [(number, call, shared.prepared(call)) for number, call in group]
                several = at_once([partial(_answer, shared, *each) for each in ready], AGAIN)
                answers += [next((one for one in each if one.unlike(each[0])), each[0]) for each in several]
            else:
                answers += [_made(shared, *numbered) for numbered in group]
    return tuple(a.reply if len(calls) == 1 else a.looked_at_again() for a in answers)


def serve(function: Callable[..., Any], device: str, arguments: Mapping[str, Any]) -> tuple[Reply, ...]:
    """Answer calls that came as data to the implementation's own process."""
    return ask(function, calls_from(arguments["calls"]), device, alone=True)


AGAIN = 8
"""How often each of several threads makes its call: one that goes wrong only now and then is met in some of them."""
Prepared = tuple[Callable[..., Any], dict[str, Tensor]]
"""What is called, and its inputs by name."""
Sent = Sequence[Mapping[str, Tensor]]
"""What inputs and weights of each call have to be afterwards."""


class _NoModel(Exception):
    """A factory returned nothing that can be called; the message says what."""


@dataclass
class _Shared:
    """What the calls of a question share: the function, the storages of inputs, and models that were built."""

    function: Callable[..., Any]
    device: str
    sent: Sent | None
    """None where it is elsewhere: the function is alone in its process."""
    again: frozenset[int | None] = frozenset()
    """The calls whose backward pass a later call runs."""
    passes: dict[int, Pass] = field(default_factory=dict)
    """Their forward passes."""
    given: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """The storage of each input, and the input itself."""
    weights: Weights = field(default_factory=dict)
    models: list[tuple[Callable[..., Any], Weights] | None] = field(default_factory=list)
    """The model that each call has built, with its weights; None for a call that built none."""
    probe: Probe = field(default_factory=Probe)
    """What is plugged in where a call asks for it; it has a record of each call's own."""

    def left(self, number: int, tensors: Mapping[str, Tensor]) -> dict[str, str]:
        """What is left of the tensors of a call."""
        return left_of(tensors) if self.sent is None else compared_itself(tensors, self.sent[number])

    def callee(self, call: Call) -> Callable[..., Any]:
        """What the inputs are given to: the function, or the model that it makes of config and weights."""
        self.models.append(None)
        if call.model_of is not None:
            built = self.models[call.model_of]
            if built is None:
                raise RuntimeError("there is no model, for it could not be built")
            self.weights = built[1]
            return built[0]
        plug = {"attention": self.probe} if call.probed else {}
        self.weights = {}
        if call.config is None:
            return partial(self.function, **plug)
        weights = {name: placed(tensor, self.device) for name, tensor in call.weights.items()}
        self.weights = {name_of_weight(name): tensor for name, tensor in weights.items()}
        model: Callable[..., Any] = self.function(dict(call.config), weights, **call.making, **plug)
        if not callable(model):
            raise _NoModel(kind_of(model) or "a Tensor")
        self.models[-1] = model, self.weights
        return model

    def prepared(self, call: Call) -> Prepared:
        """What is called, and with which tensors."""
        return self.callee(call), self.inputs(call)

    def inputs(self, call: Call) -> dict[str, Tensor]:
        """The tensors for one call: fresh ones, or those of the call before with other numbers in them."""
        for name, tensor in call.tensors.items():
            storage, seen = self.given.get(name, (None, None))
            if call.same_storage and storage is not None and seen is not None:
                storage.copy_(storage_of(tensor))
                if layout(seen) == layout(tensor) and not seen.requires_grad:
                    continue
            else:
                storage = storage_of(tensor).to(self.device, copy=True)
            self.given[name] = storage, seen_through(storage, tensor)
        for name in call.same_tensor:
            self.given[name] = self.given[call.same_tensor[0]]
        return {name: self.given[name][1] for name in call.tensors}


def _made(shared: _Shared, number: int, call: Call) -> Answer:
    work = partial(_answer, shared, number, call)
    return at_once([work])[0][0] if call.own_thread else work()


def _answer(shared: _Shared, number: int, call: Call, prepared: Prepared | None = None) -> Answer:
    shared.probe.lines.clear()
    try:
        return _taken(shared, number, call, prepared)
    except _NoModel as error:
        return Answer(Reply(kind=str(error), no_model=True))
    except NotImplementedError as error:
        said = in_one_line(error).partition(": ")[2]
        return Answer(Reply(declined=said or "NotImplementedError without a reason"))
    except KeyboardInterrupt as error:
        if shared.sent is not None:
            raise
        return Answer(Reply(raised=in_one_line(error)))
    except BaseException as error:  # whatever a submission raises is its answer
        said = in_one_line(error)
        return Answer(Reply(raised=said + beside(said, shared.device)))


def _taken(shared: _Shared, number: int, call: Call, prepared: Prepared | None) -> Answer:
    started = time.perf_counter()
    with setting(call):
        if call.backward_of is None:
            function, inputs = prepared or shared.prepared(call)
            with recorded(call.operators) as ran:
                done = _forward(call, function, inputs)
        else:
            done, ran = _gone_forward(shared, call.backward_of), []
        if number in shared.again:
            shared.passes[number] = done
        kind, snapshot = _looked_at(done.output)
        weights = _looked_at(done.weights)[1]
        given: dict[str, Tensor] = {}
        retain = number in shared.again or call.backward_of is not None
        gradients = _gradients(done, call, given, retain) if snapshot is not None else {}
    seconds = time.perf_counter() - started
    left = shared.left(number, {**done.inputs, **shared.weights, **given})
    if snapshot is None:
        where = done.output.device.type if isinstance(done.output, Tensor) else "cpu"
        attended = tuple(shared.probe.lines)
        reply = Reply(kind=kind, device=where, left=left, attended=attended, operators=tuple(ran), seconds=seconds)
        return Answer(reply)
    output = plain_tensor(done.output)
    reply = Reply(
        output=snapshot,
        kind=kind,
        pair=done.pair,
        weights=weights,
        weights_name=done.name,
        device=output.device.type,
        gradients={name: None if each is None else snapshot_of(each) for name, each in gradients.items()},
        left=left,
        aliased=done.shared_with(output),
        attention_weights={name: _snapshot(each) for name, each in done.attentions.items()},
        attended=tuple(shared.probe.lines),
        operators=tuple(ran),
        seconds=seconds,
    )
    if call.written:
        return Answer(replace(reply, raised=unwritable(output)))
    kept = {
        name: plain_tensor(done.attentions[name]) for name, each in reply.attention_weights.items() if each is not None
    }
    return Answer(reply, output, {name: each for name, each in gradients.items() if each is not None}, kept)


def _forward(call: Call, function: Callable[..., Any], inputs: dict[str, Tensor]) -> Pass:
    for name in (*call.gradient_of, *call.requires_gradient):
        inputs[name].requires_grad_(True)
    if call.seed is not None:
        _seed(call.seed)
    with torch.inference_mode() if call.inference else torch.set_grad_enabled(call.grad_mode):
        returned = function(
            *(inputs[name] for name in call.positional if name in inputs),
            **{name: tensor for name, tensor in inputs.items() if name not in call.positional},
            **call.options,
        )
    if call.need_weights:
        output, attentions = parted(returned)
        return Pass(inputs, output, attentions=attentions)
    return Pass(inputs, output_of(returned), weights_of(returned), is_pair(returned), weights_name(returned))


def _gone_forward(shared: _Shared, number: int) -> Pass:
    if number not in shared.passes:
        raise RuntimeError(f"there is no way back, for call {number + 1} gave no output")
    return shared.passes[number]


def _looked_at(output: Any) -> tuple[str, Tensor | None]:
    """What was returned, in words, and a snapshot where it has numbers of its own."""
    kind = ambiguous_pair(output) or kind_of(output)
    if kind is None:
        return "Tensor", snapshot_of(output)
    if kind.startswith(SUBCLASS):
        with suppress(Exception):  # one that holds no numbers of its own stays a kind
            return kind, snapshot_of(output)
    return kind, None


def _snapshot(weights: Any) -> Tensor | None:
    """A snapshot of attention weights; None of what is no tensor."""
    return snapshot_of(weights) if kind_of(weights) is None else None


def _seed(seed: int) -> None:
    """Seed as torch.manual_seed does, but without a CUDA device do not spend a millisecond on preparing for one."""
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class _End(torch.autograd.Function):
    """A number at the end of a graph, whose way back begins with the output's gradient, that very tensor.

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


def _gradients(done: Pass, call: Call, given: dict[str, Tensor], retain: bool) -> dict[str, Tensor | None]:
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
    found: tuple[Tensor | None, ...] = torch.autograd.grad(end, wanted, retain_graph=retain, allow_unused=True)
    return {
        name: gradient if gradient is not None and kind_of(gradient) is None else None
        for name, gradient in zip(call.gradient_of, found, strict=True)
    }
