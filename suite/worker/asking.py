"""Calls made and replies taken: the same code where the implementation shares our process and where it has its own."""

from __future__ import annotations

import threading
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

from suite.asking import Call, Reply
from suite.registry import undisturbed
from suite.registry.loading import in_one_line
from suite.worker.at_once import at_once
from suite.worker.probe import probe
from suite.worker.setting import setting, unwritable
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
    shared = _Shared(function, device, alone, frozenset(call.backward_of for call in calls[1:]))
    with undisturbed(seeds=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for together, group in groupby(enumerate(calls), lambda numbered: numbered[1].at_once):
            if together:
                answers += at_once([partial(_answer, shared, *numbered) for numbered in group])
            else:
                answers += [_made(shared, *numbered) for numbered in group]
    return tuple(a.reply if len(calls) == 1 else a.looked_at_again() for a in answers)


def serve(function: Callable[..., Any], device: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Answer calls that came as data to the implementation's own process."""
    calls = [Call(**call) for call in arguments["calls"]]
    return [as_data(reply) for reply in ask(function, calls, device, alone=True)]


class _NoModel(Exception):
    """A factory returned nothing that can be called; the message says what."""


@dataclass(frozen=True)
class _Answer:
    """A reply beside the output and the gradients themselves, which a later call may still change."""

    reply: Reply
    output: Tensor | None = None
    gradients: Mapping[str, Tensor] = field(default_factory=dict)

    def looked_at_again(self) -> Reply:
        """The reply, saying what later calls have changed."""
        reply = self.reply
        changed = tuple(name for name, now in self.gradients.items() if _differs(now, reply.gradients[name]))
        overwritten = self.output is not None and _differs(self.output, reply.output)
        return replace(reply, overwritten=overwritten, gradients_overwritten=changed)


def _differs(now: Tensor, snapshot: Tensor | None) -> bool:
    try:
        return snapshot is not None and not same_bits(now, snapshot)
    except Exception:  # it was resized, freed or moved
        return True


@dataclass(frozen=True)
class _Pass:
    """A forward pass: what was given, how it was before, and what was returned."""

    inputs: dict[str, Tensor]
    before: Mapping[str, bytes]
    output: Any

    def changed(self) -> set[str]:
        """The inputs that are not what they were."""
        return {name for name, tensor in self.inputs.items() if fingerprint(tensor) != self.before[name]}

    def shared_with(self, output: Tensor) -> tuple[str, ...]:
        """The inputs whose storage an output shares."""
        place = place_of(output)
        return tuple(name for name, tensor in self.inputs.items() if overlap(place, place_of(tensor)))


@dataclass
class _Shared:
    """What the calls of a question share: the function, the storages of inputs, and models that were built."""

    function: Callable[..., Any]
    device: str
    alone: bool
    again: frozenset[int | None] = frozenset()
    """The calls whose backward pass a later call runs."""
    passes: dict[int, _Pass] = field(default_factory=dict)
    """Their forward passes."""
    preparing: threading.Lock = field(default_factory=threading.Lock)
    """Calls that are made at once are prepared one after the other."""
    given: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """The storage of each input, and the input itself."""
    weights: Weights = field(default_factory=dict)
    models: list[tuple[Callable[..., Any], Weights] | None] = field(default_factory=list)
    """The model that each call has built, with its weights; None for a call that built none."""

    def callee(self, call: Call) -> Callable[..., Any]:
        """What the inputs are given to: the function, or the model that it makes of config and weights."""
        self.models.append(None)
        if call.model_of is not None:
            built = self.models[call.model_of]
            if built is None:
                raise RuntimeError("there is no model, for it could not be built")
            self.weights = built[1]
            return built[0]
        plug = {"attention": probe(call)} if call.probed else {}
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


def _made(shared: _Shared, number: int, call: Call) -> _Answer:
    work = partial(_answer, shared, number, call)
    return at_once([work])[0] if call.own_thread else work()


def _answer(shared: _Shared, number: int, call: Call) -> _Answer:
    try:
        return _taken(shared, number, call)
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


def _taken(shared: _Shared, number: int, call: Call) -> _Answer:
    started = time.perf_counter()
    with setting(call):
        done = _forward(shared, call) if call.backward_of is None else _gone_forward(shared, call.backward_of)
        if number in shared.again:
            shared.passes[number] = done
        kind, snapshot = _looked_at(done.output)
        spoilt: set[str] = set()
        retain = number in shared.again or call.backward_of is not None
        gradients = _gradients(done, call, spoilt, retain) if snapshot is not None else {}
    seconds = time.perf_counter() - started
    changed = tuple(sorted(spoilt | done.changed() | shared.spoilt()))
    if snapshot is None:
        where = done.output.device.type if isinstance(done.output, Tensor) else "cpu"
        return _Answer(Reply(kind=kind, device=where, changed=changed, seconds=seconds))
    output = plain_tensor(done.output)
    reply = Reply(
        output=snapshot,
        kind=kind,
        device=output.device.type,
        gradients={name: None if each is None else snapshot_of(each) for name, each in gradients.items()},
        changed=changed,
        aliased=done.shared_with(output),
        seconds=seconds,
    )
    if call.written:
        return _Answer(replace(reply, raised=unwritable(output)))
    return _Answer(reply, output, {name: each for name, each in gradients.items() if each is not None})


def _forward(shared: _Shared, call: Call) -> _Pass:
    with shared.preparing:
        function, inputs = shared.callee(call), shared.inputs(call)
    before = {name: fingerprint(tensor) for name, tensor in inputs.items()}
    for name in (*call.gradient_of, *call.requires_gradient):
        inputs[name].requires_grad_(True)
    if call.seed is not None:
        _seed(call.seed)
    with torch.set_grad_enabled(call.grad_mode), torch.inference_mode(call.inference):
        output = function(
            *(inputs[name] for name in call.positional if name in inputs),
            **{name: tensor for name, tensor in inputs.items() if name not in call.positional},
            **call.options,
        )
    return _Pass(inputs, before, output)


def _gone_forward(shared: _Shared, number: int) -> _Pass:
    if number not in shared.passes:
        raise RuntimeError(f"there is no way back, for call {number + 1} gave no output")
    return shared.passes[number]


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


def _gradients(done: _Pass, call: Call, changed: set[str], retain: bool) -> dict[str, Tensor | None]:
    """The gradient of each input; none where the output needs none, or has another shape than its gradient.

    If the backward pass writes to the output gradient, that is added to `changed`. `retain`: it may be run again.
    """
    if not call.gradient_of:
        return {}
    output, inputs = done.output, done.inputs
    assert call.output_gradient is not None
    if not output.requires_grad or output.shape != call.output_gradient.shape:
        return dict.fromkeys(call.gradient_of)
    given = placed(call.output_gradient, str(output.device)).to(output.dtype)
    before = fingerprint(given)
    found: tuple[Tensor | None, ...] = torch.autograd.grad(
        output, [inputs[name] for name in call.gradient_of], given, retain_graph=retain, allow_unused=True
    )
    if fingerprint(given) != before:
        changed.add("output_gradient")
    return {
        name: gradient if gradient is not None and kind_of(gradient) is None else None
        for name, gradient in zip(call.gradient_of, found, strict=True)
    }
