"""Calls made and replies taken: the same code where the implementation shares our process and where it has its own."""

from __future__ import annotations

import hashlib
import math
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from suite.asking import Call, Reply
from suite.registry import undisturbed
from suite.registry.loading import in_one_line
from suite.worker.probe import probe
from suite.worker.wire import DTYPES, Garbage, as_data, buffer, storage_of

SUBCLASS = "a subclass of Tensor"
Weights = dict[str, tuple[Tensor, bytes]]
"""A model's, each beside what it was before the model was built."""


def placed(tensor: Tensor, device: str) -> Tensor:
    """A copy on `device` with the same strides and storage offset, padding included."""
    return _seen_through(storage_of(tensor).to(device, copy=True), tensor)


def fingerprint(tensor: Tensor) -> bytes:
    """A hash of every bit of the tensor's storage, and of how the tensor lies in it."""
    hashed = hashlib.sha256(_layout(tensor).encode())  # processors have instructions for it
    hashed.update(buffer(storage_of(tensor).cpu()))
    return hashed.digest()


def ask(
    function: Callable[..., Any], calls: Sequence[Call], device: str = "cpu", *, alone: bool = False
) -> tuple[Reply, ...]:
    """Make the calls in order and snapshot what comes back. Whatever the function raises is its answer.

    A KeyboardInterrupt is the user's and passes through, except where the function is `alone` in its process.
    """
    answers: list[_Answer] = []
    asked = _Asked(function, device, alone)
    with undisturbed(seeds=False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in calls:
            answers.append(_made(asked, call))
    return tuple(
        replace(a.reply, overwritten=True) if len(calls) > 1 and a.changed_since() else a.reply for a in answers
    )


def serve(function: Callable[..., Any], device: str, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Answer the verb `ask` in the implementation's own process."""
    calls = [Call(**call) for call in arguments["calls"]]
    return [as_data(reply) for reply in ask(function, calls, device, alone=True)]


def replies_from(answer: Any, calls: Sequence[Call]) -> tuple[Reply, ...]:
    """The replies in an answer that came from another process. Raises `Garbage` for anything else."""
    if not isinstance(answer, list) or len(answer) != len(calls):
        raise Garbage(f"not {len(calls)} replies")
    return tuple(_reply(reply) for reply in answer)


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
            return not _same_bits(self.output, self.reply.output)
        except Exception:  # it was resized, freed or moved
            return True


@dataclass
class _Asked:
    """What is asked, and what calls in a row share: the storages of their inputs, and a model once it is built."""

    function: Callable[..., Any]
    device: str
    alone: bool
    given: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    """The storage of each input, and the input itself."""
    weights: Weights = field(default_factory=dict)
    models: list[tuple[Callable[..., Any], Weights] | None] = field(default_factory=list)
    """What each call has built, with its weights."""

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
            raise _NoModel(_kind(model) or "a Tensor")
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
                if _layout(seen) == _layout(tensor) and not seen.requires_grad:
                    continue
            else:
                storage = storage_of(tensor).to(self.device, copy=True)
            self.given[name] = storage, _seen_through(storage, tensor)
        for name in call.same_tensor:
            self.given[name] = self.given[call.same_tensor[0]]
        return {name: self.given[name][1] for name in call.tensors}


def _made(asked: _Asked, call: Call) -> _Answer:
    if not call.own_thread:
        return _answer(asked, call)
    answers: list[_Answer] = []
    interrupts: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(_answer(asked, call))
        except BaseException as error:
            interrupts.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join()
    if interrupts:
        raise interrupts[0]
    return answers[0]


def _answer(asked: _Asked, call: Call) -> _Answer:
    try:
        return _taken(asked, call)
    except _NoModel as error:
        return _Answer(Reply(kind=str(error), no_model=True))
    except NotImplementedError as error:
        said = in_one_line(error).partition(": ")[2]
        return _Answer(Reply(declined=said or "NotImplementedError without a reason"))
    except KeyboardInterrupt as error:
        if not asked.alone:
            raise
        return _Answer(Reply(raised=in_one_line(error)))
    except BaseException as error:  # whatever a submission raises is its answer
        return _Answer(Reply(raised=in_one_line(error)))


def _layout(tensor: Tensor) -> str:
    return repr((tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()))


def _seen_through(storage: Tensor, tensor: Tensor) -> Tensor:
    return torch.as_strided(storage.detach(), tensor.shape, tensor.stride(), tensor.storage_offset())


def _taken(asked: _Asked, call: Call) -> _Answer:
    function, inputs = asked.callee(call), asked.inputs(call)
    before = {name: fingerprint(tensor) for name, tensor in inputs.items()}
    places = {name: _place(tensor) for name, tensor in inputs.items()}
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
    kind = _kind(output)
    snapshot = None
    if kind is None:
        snapshot = _snapshot(output)
    elif kind.startswith(SUBCLASS):
        with suppress(Exception):  # one that holds no numbers of its own stays a kind
            snapshot = _snapshot(output)
    spoilt: set[str] = set()
    gradients = _gradients(output, call, inputs, spoilt) if snapshot is not None else {}
    seconds = time.perf_counter() - started
    spoilt |= {name for name, tensor in inputs.items() if fingerprint(tensor) != before[name]}
    changed = tuple(sorted(spoilt | asked.spoilt()))
    if snapshot is None:
        where = output.device.type if isinstance(output, Tensor) else "cpu"
        return _Answer(Reply(kind=kind or "Tensor", device=where, changed=changed, seconds=seconds))
    output = _plain(output)
    reply = Reply(
        output=snapshot,
        kind=kind or "Tensor",
        device=output.device.type,
        gradients=gradients,
        changed=changed,
        aliased=tuple(name for name, place in places.items() if _overlap(_place(output), place)),
        seconds=seconds,
    )
    return _Answer(reply, output)


def _seed(seed: int) -> None:
    """As torch.manual_seed does; but where no CUDA device is, not by its millisecond of notes for one that may come."""
    if torch.cuda.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def _kind(output: Any) -> str | None:
    """What was returned, in words, or None where it is a plain dense tensor."""
    if not isinstance(output, Tensor):
        of = type(output)
        return "None" if output is None else f"a {of.__module__}.{of.__qualname__}".replace("builtins.", "")
    if output.is_nested:
        return "a nested tensor"
    if output.is_quantized:
        return f"a quantised tensor ({output.dtype})"
    if output.layout != torch.strided:
        return f"a tensor of layout {output.layout}".replace("torch.", "")
    if output.device.type == "meta":
        return "a tensor without data (device meta)"
    if str(output.dtype).removeprefix("torch.") not in DTYPES:
        return f"a tensor of {output.dtype}"
    if type(output) not in (Tensor, torch.nn.Parameter):
        return f"{SUBCLASS}, {type(output).__module__}.{type(output).__qualname__}"
    return None


def _plain(output: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        plain = output.detach()
        return plain if type(plain) is Tensor else plain.as_subclass(Tensor)


def _snapshot(output: Tensor) -> Tensor:
    return _plain(output).to("cpu", copy=True).resolve_conj().resolve_neg()


def _gradients(output: Tensor, call: Call, inputs: dict[str, Tensor], changed: set[str]) -> dict[str, Tensor | None]:
    """The gradients as they come. All None where none flow or where the output has not the shape to ask for them.

    An output gradient that the backward pass writes to is added to `changed`.
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
        name: _snapshot(gradient) if gradient is not None and _kind(gradient) is None else None
        for name, gradient in zip(call.gradient_of, found, strict=True)
    }


def _same_bits(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(_bits(one), _bits(other))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)


def _place(tensor: Tensor) -> tuple[str, int, int]:
    """Where the tensor's storage lies: device, first byte, last byte and one."""
    storage = tensor.untyped_storage()
    return tensor.device.type, storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _overlap(one: tuple[str, int, int], other: tuple[str, int, int]) -> bool:
    return one[0] == other[0] and max(one[1], other[1]) < min(one[2], other[2])


def is_names(value: Any) -> bool:
    """Whether this is a tuple of strings, as honest data has it."""
    return isinstance(value, tuple) and all(isinstance(name, str) for name in value)


_REPLY_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "output": lambda value: value is None or isinstance(value, Tensor),
    "kind": lambda value: isinstance(value, str),
    "no_model": lambda value: isinstance(value, bool),
    "device": lambda value: isinstance(value, str),
    "gradients": lambda value: (
        isinstance(value, dict) and all(item is None or isinstance(item, Tensor) for item in value.values())
    ),
    "raised": lambda value: isinstance(value, str),
    "declined": lambda value: isinstance(value, str),
    "changed": is_names,
    "aliased": is_names,
    "overwritten": lambda value: isinstance(value, bool),
    "seconds": lambda value: isinstance(value, float) and math.isfinite(value) and value >= 0,
}
assert set(_REPLY_FIELDS) == {field.name for field in fields(Reply)}, "every field of Reply is checked as it arrives"


def _reply(value: Any) -> Reply:
    if not isinstance(value, dict) or set(value) != set(_REPLY_FIELDS):
        raise Garbage("a reply that is none")
    for name, holds in _REPLY_FIELDS.items():
        if not holds(value[name]):
            raise Garbage(f"a reply whose {name} is none")
    return Reply(**value)
