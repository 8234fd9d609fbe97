"""The attention backend of a task, refused before training if it lacks a feature that the task needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.documents.learning.engine import Attention, Task
from attnsuite.model import UsageError
from attnsuite.registry import Declaration, Loaded
from attnsuite.registry.backends import gaps
from attnsuite.registry.loading import as_backend, as_usage_error
from attnsuite.registry.side_effects import preserve_process_state

DEFAULT = "attention/matmul"
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bool_mask": {"attn_mask": torch.ones(1, 1, 1, 2, dtype=torch.bool)},
    "causal": {"is_causal": True},
    "dropout": {"dropout_p": 0.5},
}
"""The arguments of a small call that uses a feature."""


@dataclass(frozen=True)
class Backend:
    """An attention for a task, and the optional features that it lacks."""

    attention: Attention
    without: frozenset[str] = frozenset()


def backend(declaration: Declaration, task: Task) -> Backend:
    """The backend of a task. Raises UsageError, one line, if it is missing, broken, or lacks a feature that is needed.

    Declared gaps are trusted; other features are tried on a small call, because a file may declare nothing.
    """
    name, loaded = declaration.full_name, _loaded(declaration, task)
    function, lacks = as_backend(loaded), gaps(loaded.declaration)
    if missing := sorted(task.needs & set(lacks)):
        reasons = "; ".join(f"{feature} ({lacks[feature]})" for feature in missing)
        raise UsageError(f"{task.name} needs what {name} lacks: {reasons}")
    with_gradient = "gradient" in task.needs
    for feature in ("", *sorted(task.needs & set(OPTIONS))):
        if complaint := _complaint(function, feature, with_gradient):
            raise UsageError(f"{task.name} needs {feature or 'an attention'}, and {name}, {complaint}")
    without = {feature for feature in task.uses if feature in lacks or _complaint(function, feature, with_gradient)}
    return Backend(_checked(name, function, without), frozenset(without))


def _loaded(declaration: Declaration, task: Task) -> Loaded:
    name = declaration.full_name
    if declaration.contract != "attention":
        raise UsageError(f"{name} is no attention; the backend of {task.name} is an implementation of attention")
    loaded = registry.load(declaration)
    if isinstance(loaded, Loaded):
        return loaded
    raise UsageError(f"{name} is {'missing' if isinstance(loaded, registry.Missing) else 'broken'}: {loaded}")


def _complaint(function: Attention, feature: str, with_gradient: bool) -> str:
    """The fault of a small call that uses a feature, or of its gradient; empty without a fault."""
    tensors = [torch.ones(1, 1, 2, 2, requires_grad=with_gradient) for _ in range(3)]
    call = f"called with {', '.join(OPTIONS[feature])}" if feature else "called"
    try:
        with as_usage_error(f"{call}, raises"):
            expected = _Expected.of(tensors)
            with preserve_process_state():
                output: object = function(*tensors, **OPTIONS.get(feature, {}))
            if problem := expected.problem(output):
                return f"{call}, {problem}"
            if with_gradient and isinstance(output, Tensor):
                with preserve_process_state():
                    torch.autograd.grad(output.sum(), tensors, allow_unused=True)
    except UsageError as complaint:
        return str(complaint)
    return ""


class _Expected(NamedTuple):
    """The properties of an output that a model can use, taken before a call, which may change its inputs."""

    like: Tensor
    """A tensor with the output's shape, dtype, device, layout and `requires_grad`."""
    finite: bool
    """Whether numbers must be finite: while a model is scored. In training the loss shows it."""

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> _Expected:
        """The properties for query, key and value."""
        query, _, value = tensors
        learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        like = query.new_empty((*query.shape[:-1], value.shape[-1])).requires_grad_(learns)
        return cls(like, not torch.is_grad_enabled())

    def problem(self, output: object) -> str:
        """The reason why a model cannot use an output; empty where it can."""
        if not isinstance(output, Tensor):
            return f"returns {type(output).__name__}, expected a tensor"
        for name in ("shape", "dtype", "device", "layout"):
            if (actual := getattr(output, name)) != (expected := getattr(self.like, name)):
                return f"returns a tensor of {name} {_word(actual)}, expected {_word(expected)}"
        if self.like.requires_grad and not output.requires_grad:
            return "gives an output without a gradient"
        if self.finite and not bool(output.isfinite().all()):
            return "gives numbers that are not finite, while the model is scored"
        return ""


def _word(attribute: object) -> str:
    return str(tuple(attribute) if isinstance(attribute, torch.Size) else attribute).removeprefix("torch.")


def _checked(name: str, function: Attention, without: set[str]) -> Attention:
    """The attention, called without arguments that it lacks. Its exceptions and faulty outputs become UsageErrors."""
    left_out = {argument for feature in without for argument in OPTIONS[feature]}

    @wraps(function)
    def attention(*tensors: Tensor, **options: Any) -> Tensor:
        options, expected = {key: options[key] for key in options if key not in left_out}, _Expected.of(tensors)
        with as_usage_error(f"{name} raised in training:"), preserve_process_state(seeds=False):
            output = function(*tensors, **options)
            problem = expected.problem(output)
        if problem:
            raise UsageError(f"{name}, called in training, {problem}")
        return output

    return attention
