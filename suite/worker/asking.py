"""Calls made and replies taken: the same code where the implementation shares our process and where it has its own."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from suite.asking import Call, Reply
from suite.registry import undisturbed
from suite.registry.loading import in_one_line
from suite.worker.probe import Probe
from suite.worker.snapshots import (
    SUBCLASS,
    fingerprint,
    kind_of,
    layout,
    overlap,
    place_of,
    placed,
    plain_tensor,
    same_bits,
    seen_through,
    snapshot_of,
)
from suite.worker.wire import as_data, storage_of

Weights = dict[str, tuple[Tensor, bytes]]
"""A model's weights by name, each with its fingerprint from before the model was built."""


def ask(
    function: Callable[..., Any], calls: Sequence[Call], device: str = "cpu", *, alone: bool = False
) -> tuple[Reply, ...]:
    """Make the calls in order and snapshot what comes back. Whatever the function raises is its answer.

    A KeyboardInterrupt is the user's and passes through, except where the function is `alone` in its process.
    """
    answers: list[_Answer] = []
    shared = _Shared(function, device, alone)
    with undisturbed(seeds=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            answers.append(_made(shared, call))
    return tuple(
        replace(a.reply, overwritten=True) if len(calls) > 1 and a.changed_since() else a.reply for a in answers
    )


def serve(function: Callable[..., Any], device: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Answer calls that came as data to the implementation's own process."""
    calls = [Call(**call) for call in arguments["calls"]]
    return [as_data(reply) for reply in ask(function, calls, device, alone=True)]


class _NoModel(Exception):
    """A factory returned nothing that can be called; the message says what."""


@dataclass(frozen=True)
class _Answer:
    """A reply beside the output itself, which a later call may still change."""

    reply: Reply
    output: Tensor | None = None

    def changed_since(self) -> bool:
        if self.output is None or self.reply.output is None:
            return False
        try:
            return not same_bits(self.output, self.reply.output)
        except Exception:  # it was resized, freed or moved
            return True


@dataclass
class _Shared:
    """What the calls of a question share: the function, the storages of inputs, and models that were built."""

    function: Callable[..., Any]
    device: str
    alone: bool
    given: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """The storage of each input, and the input itself."""
    weights: Weights = field(default_factory=dict)
    models: list[tuple[Callable[..., Any], Weights] | None] = field(default_factory=list)
    """The model that each call has built, with its weights; None for a call that built none."""
    probe: Probe = field(default_factory=Probe)
    """What is plugged in where a call asks for it; it has a record of each call's own."""

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
        self.weights = {f"weights[{name!r}]": (tensor, fingerprint(tensor)) for name, tensor in weights.items()}
        model: Callable[..., Any] = self.function(dict(call.config), weights, **plug)
        if not callable(model):
            raise _NoModel(kind_of(model) or "a Tensor")
        self.models[-1] = model, self.weights
        return model

    def spoilt(self) -> set[str]:
        """The weights that are not what they were."""
        return {name for name, (tensor, before) in self.weights.items() if fingerprint(tensor) != before}

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


def _made(shared: _Shared, call: Call) -> _Answer:
    if not call.own_thread:
        return _answer(shared, call)
    answers: list[_Answer] = []
    interrupts: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(_answer(shared, call))
        except BaseException as error:
            interrupts.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if interrupts:
        raise interrupts[0]
    return answers[0]


def _answer(shared: _Shared, call: Call) -> _Answer:
    shared.probe.lines.clear()
    try:
        return _taken(shared, call)
    except _NoModel as error:
        return _Answer(Reply(kind=str(error), no_model=True))
    except NotImplementedError as error:
        said = in_one_line(error).partition(": ")[2]
        return _Answer(Reply(declined=said or "NotImplementedError without a reason"))
    except KeyboardInterrupt as error:
        if not shared.alone:
            raise
        return _Answer(Reply(raised=in_one_line(error)))
    except BaseException as error:  # whatever a submission raises is its answer
        return _Answer(Reply(raised=in_one_line(error)))


def _taken(shared: _Shared, call: Call) -> _Answer:
    function, inputs = shared.callee(call), shared.inputs(call)
    before = {name: fingerprint(tensor) for name, tensor in inputs.items()}
    places = {name: place_of(tensor) for name, tensor in inputs.items()}
    for name in call.gradient_of:
        inputs[name].requires_grad_(True)
    if call.seed is not None:
        _seed(call.seed)
    started = time.perf_counter()
    with torch.set_grad_enabled(call.grad_mode):
        output = function(
            *(inputs[name] for name in call.positional if name in inputs),
            **{name: tensor for name, tensor in inputs.items() if name not in call.positional},
            **call.options,
        )
    kind, snapshot = _looked_at(output)
    spoilt: set[str] = set()
    gradients = _gradients(output, call, inputs, spoilt) if snapshot is not None else {}
    seconds = time.perf_counter() - started
    spoilt |= {name for name, tensor in inputs.items() if fingerprint(tensor) != before[name]}
    changed = tuple(sorted(spoilt | shared.spoilt()))
    if snapshot is None:
        where = output.device.type if isinstance(output, Tensor) else "cpu"
        return _Answer(
            Reply(kind=kind, device=where, changed=changed, attended=tuple(shared.probe.lines), seconds=seconds)
        )
    output = plain_tensor(output)
    reply = Reply(
        output=snapshot,
        kind=kind,
        device=output.device.type,
        gradients=gradients,
        changed=changed,
        aliased=tuple(name for name, place in places.items() if overlap(place_of(output), place)),
        attended=tuple(shared.probe.lines),
        seconds=seconds,
    )
    return _Answer(reply, output)


def _looked_at(output: Any) -> tuple[str, Tensor | None]:
    """What was returned, in words, and a snapshot where it has numbers of its own."""
    kind = kind_of(output)
    if kind is None:
        return "Tensor", snapshot_of(output)
    if kind.startswith(SUBCLASS):
        with suppress(Exception):  # one that holds no numbers of its own stays a kind
            return kind, snapshot_of(output)
    return kind, None


def _seed(seed: int) -> None:
    """Seed as torch.manual_seed does, but without a CUDA device do not spend a millisecond on preparing for one."""
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def _gradients(output: Tensor, call: Call, inputs: dict[str, Tensor], changed: set[str]) -> dict[str, Tensor | None]:
    """The gradient of each input; none where the output needs none, or has another shape than its gradient.

    If the backward pass writes to the output gradient, that is added to `changed`.
    """
    if not call.gradient_of:
        return {}
    assert call.output_gradient is not None
    if not output.requires_grad or output.shape != call.output_gradient.shape:
        return dict.fromkeys(call.gradient_of)
    given = placed(call.output_gradient, str(output.device)).to(output.dtype)
    before = fingerprint(given)
    found: tuple[Tensor | None, ...] = torch.autograd.grad(
        output, [inputs[name] for name in call.gradient_of], given, allow_unused=True
    )
    if fingerprint(given) != before:
        changed.add("output_gradient")
    return {
        name: snapshot_of(gradient) if gradient is not None and kind_of(gradient) is None else None
        for name, gradient in zip(call.gradient_of, found, strict=True)
    }
