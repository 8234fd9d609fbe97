"""What a task is: a model to train, data to train it on, a loss, and scores on what it was not trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

Attention = Callable[..., Tensor]
Batch = tuple[Tensor, ...]


@dataclass(frozen=True)
class Training:
    """What is trained, from one seed. The engine (`documents.learning.engine`) calls it, and keeps no other state."""

    weights: Mapping[str, Tensor]
    """What is trained: leaf tensors that require a gradient, by name. The engine changes them in place."""
    batches: Callable[[torch.Generator], Iterable[Batch]]
    """The batches of one epoch. Whatever is random in them, as their order, is drawn from the generator."""
    loss: Callable[[Batch, torch.Generator], Tensor]
    """The mean loss of a batch, a tensor without axes, from the weights as they are. Whatever is random in it, as
    dropout, is drawn from the generator; an attention that is plugged in draws from torch's own, which the engine sets
    before each step."""
    scores: Callable[[], Mapping[str, float]]
    """Scores of the weights as they are, by name, on what is not in the batches. Nothing in it is random."""
    beside: Callable[[], Mapping[str, float]] = dict
    """Scores of simpler methods on the same data, which stand beside: logistic regression, chance. They
    are compared with the first of `scores`."""


@dataclass(frozen=True)
class Task:
    """Something to learn. A row of results names the task, the attention, the seed, the curve and the scores."""

    name: str
    """Its name on the command line and in results/: `translation/transformer`."""
    says: str
    """What is learned, in one sentence without a full stop."""
    config: Mapping[str, Any]
    """All that the curve depends on beside seed and attention, as JSON holds it: sizes of model and data, dropout, and
    what the engine reads: `epochs`, `learning_rate`, and where they differ from the usual `optimiser` ("adam" or
    "sgd"), `clip` (the largest norm of all gradients together; None for any), `rate_falls` (whether the learning rate
    falls from epoch to epoch, in equal steps, to 0 after the last)."""
    prepare: Callable[[Mapping[str, Any], int, Attention], Training]
    """Makes the training from the config, a seed, and the attention that is plugged in. It draws nothing from torch's
    own generator: `generator(seed, "weights")` makes one."""
    needs: frozenset[str] = frozenset()
    """The features of the contract `attention` that the model asks of what is plugged in."""
    uses: frozenset[str] = frozenset()
    """The features that it uses where the attention has them, and does without where it lacks them: dropout."""
    own: str = ""
    """The implementation that stands in results/ where nothing can be plugged in; empty where an attention is."""
    table: str = ""
    """The task among whose rows in results/ its own stand, where it is not to stand alone: what is compared with it."""
    imports: tuple[str, ...] = ()
    """The modules that a training imports, where that takes seconds, so that it can be done once for several."""
    printed: Mapping[str, float] | None = None
    """The documents' scores, by the names that `scores` has."""

    @property
    def stands_in(self) -> str:
        """The name of the task that its rows bear."""
        return self.table or self.name

    @property
    def epochs(self) -> int:
        """How often all batches are gone through."""
        return int(self.config["epochs"])

    def with_epochs(self, epochs: int) -> Task:
        """The task with another number of epochs."""
        return self.changed(epochs=epochs)

    def changed(self, **config: Any) -> Task:
        """The task with other values in its config."""
        return replace(self, config={**self.config, **config})


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator for one purpose: the numbers of two purposes have nothing to do with each other."""
    mixed = hashlib.sha256(f"{seed} {purpose}".encode()).digest()  # the same on every machine, which hash() is not
    return torch.Generator().manual_seed(int.from_bytes(mixed[:8]) >> 1)
