"""The attention backend of a task, refused before training if it lacks a feature that the task needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

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
    return Backend(_without(function, without), frozenset(without))


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
            with preserve_process_state():
                output: object = function(*tensors, **OPTIONS.get(feature, {}))
            if not isinstance(output, Tensor):
                return f"{call}, returns {type(output).__name__}, expected a tensor"
            if (output.shape, output.dtype) != (tensors[0].shape, tensors[0].dtype):
                return f"{call}, returns {output.dtype} of shape {tuple(output.shape)}, expected the query's"
            if with_gradient and not output.requires_grad:
                return f"{call}, gives an output without a gradient"
            if with_gradient:
                with preserve_process_state():
                    torch.autograd.grad(output.sum(), tensors, allow_unused=True)
    except UsageError as complaint:
        return str(complaint)
    return ""


def _without(function: Attention, features: set[str]) -> Attention:
    """The attention, called without the arguments of these features; its changes to the process are undone."""
    left_out = {argument for feature in features for argument in OPTIONS[feature]}

    @wraps(function)
    def attention(*tensors: Tensor, **options: Any) -> Tensor:
        with preserve_process_state(seeds=False):
            return function(*tensors, **{key: options[key] for key in options if key not in left_out})

    return attention
