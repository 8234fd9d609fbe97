"""The attention that is plugged into a task: found as `check` finds it, and refused before training if it lacks
something.
"""

from __future__ import annotations

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


def plug(declaration: Declaration, task: Task) -> Attention:
    """The function to plug in. Raises UsageError, one line, if it is missing, broken, or lacks what the task needs."""
    name = declaration.full_name
    if declaration.contract != "attention":
        raise UsageError(f"{name} is no attention, and only an attention can be plugged into {task.name}")
    loaded = registry.load(declaration)
    if not isinstance(loaded, Loaded):
        raise UsageError(f"{name} is {'missing' if isinstance(loaded, registry.Missing) else 'broken'}: {loaded}")
    lacks = gaps(loaded.declaration)
    if missing := sorted(task.needs & set(lacks)):
        reasons = "; ".join(f"{feature} ({lacks[feature]})" for feature in missing)
        raise UsageError(f"{task.name} needs what {name} lacks: {reasons}")
    probe(name, loaded.function, task)
    return without_dropout(loaded.function) if without(loaded.declaration, task) else loaded.function


def without(declaration: Declaration, task: Task) -> frozenset[str]:
    """The features that the task uses and this attention lacks: it is trained without them."""
    return task.uses & set(gaps(declaration))


def without_dropout(function: Attention) -> Attention:
    """The attention, whatever dropout is asked."""

    @wraps(function)
    def attention(*tensors: Tensor, dropout_p: float = 0.0, **options: Any) -> Tensor:
        return function(*tensors, **options)

    return attention


def probe(name: str, function: Attention, task: Task) -> None:
    """Ask what the task needs on a few numbers: a file may declare nothing. Raises UsageError where no gradient or an
    exception comes.
    """
    query, key, value = (torch.ones(1, 1, 2, 2, requires_grad=True) for _ in range(3))
    options: dict[str, dict[str, Any]] = {
        "bool_mask": {"attn_mask": torch.ones(1, 1, 1, 2, dtype=torch.bool)},
        "causal": {"is_causal": True},
    }
    for feature in ("", *sorted(task.needs & options.keys())):
        try:
            output = function(query, key, value, **options.get(feature, {}))
        except Exception as error:  # whatever a submission raises is its answer
            asked = f" with {', '.join(options[feature])}" if feature else ""
            raise UsageError(f"{name}, called{asked}, raises {in_one_line(error)}: {task.name} needs that") from None
        if "gradient" in task.needs and not getattr(output, "requires_grad", False):
            raise UsageError(f"{name} gives its output no gradient, and {task.name} cannot be trained without")
