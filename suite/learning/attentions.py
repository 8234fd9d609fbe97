"""The attention that is plugged into a task, refused before training if it lacks something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from suite import registry
from suite.learning.task import Attention, Task
from suite.records import UsageError
from suite.registry import Declaration, Loaded
from suite.registry.loading import in_one_line
from suite.registry.plugging import gaps

DEFAULT = "attention/matmul"
"""What is plugged in where nothing is named."""
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "bool_mask": {"attn_mask": torch.ones(1, 1, 1, 2, dtype=torch.bool)},
    "causal": {"is_causal": True},
    "dropout": {"dropout_p": 0.5},
}
"""By feature, the arguments of a small call that needs it."""


@dataclass(frozen=True)
class Plug:
    """An attention to plug into a task, and the features that the task then does without."""

    attention: Attention
    without: frozenset[str] = frozenset()


def plug(declaration: Declaration, task: Task) -> Plug:
    """What to plug in. Raises UsageError, one line, if it is missing, broken, or lacks what the task needs.

    What is declared is believed; the rest is asked on a few numbers, because a file may declare nothing.
    """
    name, loaded = declaration.full_name, _loaded(declaration, task)
    lacks = gaps(loaded.declaration)
    if missing := sorted(task.needs & set(lacks)):
        reasons = "; ".join(f"{feature} ({lacks[feature]})" for feature in missing)
        raise UsageError(f"{task.name} needs what {name} lacks: {reasons}")
    for feature in ("", *sorted(task.needs & set(OPTIONS))):
        if complaint := _complaint(loaded.function, feature, "gradient" in task.needs):
            raise UsageError(f"{name}, {complaint}: {task.name} needs that")
    without = frozenset(
        feature
        for feature in task.uses
        if feature in lacks or _complaint(loaded.function, feature, "gradient" in task.needs)
    )
    return Plug(_answering(name, loaded.function, without), without)


def _loaded(declaration: Declaration, task: Task) -> Loaded:
    if declaration.contract != "attention":
        said = f"{declaration.full_name} is no attention, and only an attention can be plugged into {task.name}"
        raise UsageError(said)
    loaded = registry.load(declaration)
    if isinstance(loaded, Loaded):
        return loaded
    what = "missing" if isinstance(loaded, registry.Missing) else "broken"
    raise UsageError(f"{declaration.full_name} is {what}: {loaded}")


def _complaint(function: Attention, feature: str, with_gradient: bool) -> str:
    """What is wrong with the answer to a call that needs a feature, or with its gradient; empty where nothing is."""
    tensors = [torch.ones(1, 1, 2, 2, requires_grad=with_gradient) for _ in range(3)]
    asked = f"called with {', '.join(OPTIONS[feature])}" if feature else "called"
    try:
        with torch.random.fork_rng(devices=[]):
            output: object = function(*tensors, **OPTIONS.get(feature, {}))
        if not isinstance(output, Tensor) or output.shape != tensors[0].shape:
            came = f"one of {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
            return f"{asked}, should return a tensor of {tuple(tensors[0].shape)}, and returns {came}"
        if with_gradient and not output.requires_grad:
            return f"{asked}, gives an output without a gradient"
        if with_gradient:
            torch.autograd.grad(output.sum(), tensors, allow_unused=True)
    except Exception as error:  # whatever a submission raises is its answer
        return f"{asked}, raises {in_one_line(error)}"
    return ""


def _answering(name: str, function: Attention, without: frozenset[str]) -> Attention:
    """The attention, asked for nothing that it lacks; what it raises in a training ends that in one line."""
    left_out = {argument for feature in without for argument in OPTIONS[feature]}

    @wraps(function)
    def attention(*tensors: Tensor, **options: Any) -> Tensor:
        try:
            return function(*tensors, **{key: value for key, value in options.items() if key not in left_out})
        except Exception as error:  # whatever a submission raises is its answer
            raise UsageError(f"{name} raised in training: {in_one_line(error)}") from error

    return attention
