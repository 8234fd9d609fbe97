"""The attention that is plugged into a task, refused before training if it lacks something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.documents.learning.task import Attention, Task
from attnsuite.model import UsageError
from attnsuite.registry import Declaration, Loaded
from attnsuite.registry.loading import as_plug, told
from attnsuite.registry.plugging import gaps
from attnsuite.registry.side_effects import undisturbed

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
    function, lacks = as_plug(loaded), gaps(loaded.declaration)
    if missing := sorted(task.needs & set(lacks)):
        reasons = "; ".join(f"{feature} ({lacks[feature]})" for feature in missing)
        raise UsageError(f"{task.name} needs what {name} lacks: {reasons}")
    for feature in ("", *sorted(task.needs & set(OPTIONS))):
        if complaint := _complaint(function, feature, "gradient" in task.needs):
            raise UsageError(f"{task.name} needs {feature or 'an attention'}, and {name}, {complaint}")
    without = frozenset(
        feature for feature in task.uses if feature in lacks or _complaint(function, feature, "gradient" in task.needs)
    )
    return Plug(_answering(name, function, without), without)


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
        with told(f"{asked}, raises"):
            due = _Due.of(tensors)
            with undisturbed():
                output: object = function(*tensors, **OPTIONS.get(feature, {}))
            if problem := due.problem(output):
                return f"{asked}, {problem}"
            if with_gradient and isinstance(output, Tensor):
                with undisturbed():
                    torch.autograd.grad(output.sum(), tensors, allow_unused=True)
    except UsageError as complaint:
        return str(complaint)
    return ""


@dataclass(frozen=True)
class _Due:
    """What an answer has to be, so that it can be gone on with."""

    facts: Mapping[str, object]
    """Its attributes, by their names in PyTorch."""
    gradient: bool
    numbers: bool
    """Whether it is to be finite: where scores are made of it. In a training the loss tells."""

    @classmethod
    def of(cls, tensors: Sequence[Tensor]) -> _Due:
        """What is due for query, key and value, which may be others after the call."""
        query, _, value = tensors
        shape = torch.Size((*query.shape[:-1], value.shape[-1]))
        facts = {"shape": shape, "dtype": query.dtype, "device": query.device, "layout": torch.strided}
        learns = torch.is_grad_enabled()
        return cls(facts, learns and any(each.requires_grad for each in tensors), not learns)

    def problem(self, output: object) -> str:
        """Why the answer cannot be gone on with; empty where it can."""
        if not isinstance(output, Tensor):
            return f"returns {type(output).__name__}, and a tensor is due"
        for fact, due in self.facts.items():
            if (came := getattr(output, fact)) != due:
                return f"returns a tensor of {fact} {_word(came)}, and {_word(due)} is due"
        if self.gradient and not output.requires_grad:
            return "gives an output without a gradient"
        if self.numbers and not bool(output.isfinite().all()):
            return "gives numbers that are not finite, while the model is scored"
        return ""


def _word(fact: object) -> str:
    return str(tuple(fact) if isinstance(fact, torch.Size) else fact).removeprefix("torch.")


def _answering(name: str, function: Attention, without: frozenset[str]) -> Attention:
    """The attention, asked for nothing that it lacks; what it raises in a training ends that in one line, and so does
    an answer that cannot be gone on with.
    """
    left_out = {argument for feature in without for argument in OPTIONS[feature]}

    @wraps(function)
    def attention(*tensors: Tensor, **options: Any) -> Tensor:
        given, due = {key: value for key, value in options.items() if key not in left_out}, _Due.of(tensors)
        with told(f"{name} raised in training:"), undisturbed(seeds=False):
            output = function(*tensors, **given)
            problem = due.problem(output)
        if problem:
            raise UsageError(f"{name}, called in training, {problem}")
        return output

    return attention
