"""The one training loop: epochs of steps, a loss for each epoch, a checkpoint after each.

One seed gives one curve, bit by bit, on one machine: all that is random is drawn from one generator, whose state is in
the checkpoint; sums have a fixed order, since torch has one thread and deterministic algorithms meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnsuite.documents.learning.checkpoint import Checkpoint, State
from attnsuite.documents.learning.task import Attention, Batch, Task, Training, generator
from attnsuite.model import UsageError
from attnsuite.registry.loading import told
from attnsuite.registry.side_effects import undisturbed

OPTIMISERS: Mapping[str, type[torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}
Watch = Callable[[int, int], None]
"""Is told the epoch that has ended, and how many there are."""


@dataclass(frozen=True)
class Finished:
    """A training that has ended: the weights, the mean loss of each epoch, and the scores."""

    weights: Mapping[str, Tensor]
    curve: tuple[float, ...]
    scores: Mapping[str, float]
    beside: Mapping[str, float]
    seconds: float
    """Of the processor, for all epochs, those before a checkpoint too."""


def train(
    task: Task,
    seed: int,
    attention: Attention,
    *,
    checkpoint: Checkpoint | None = None,
    watch: Watch = lambda epoch, epochs: None,
) -> Finished:
    """Train a task's model, going on from a checkpoint that is there, and score it.

    Raises UsageError when the loss or its gradient is no finite number (the checkpoint of the epoch before stays), and
    for a checkpoint of another configuration or a damaged one.
    """
    with deterministic():
        training = task.prepare(task.config, seed, attention)
        loop = _Loop(task, training, generator(seed, "training"))
        if checkpoint:
            if state := checkpoint.read():
                loop.restore(state)
            else:
                checkpoint.write(loop.state())  # where it cannot be written, nothing is trained in vain
        watch(len(loop.curve), task.epochs)
        while len(loop.curve) < task.epochs:
            stays = f"; the checkpoint of epoch {len(loop.curve)} stays in {checkpoint.path}" if checkpoint else ""
            loop.epoch(stays if loop.curve else "")
            if checkpoint:
                checkpoint.write(loop.state())
            watch(len(loop.curve), task.epochs)
        torch.manual_seed(_number(generator(seed, "scores")))  # the same, wherever the training went on
        with torch.no_grad():
            return Finished(
                {name: each.detach() for name, each in training.weights.items()},
                tuple(loop.curve),
                dict(training.scores()),
                dict(training.beside()),
                loop.seconds,
            )


@contextmanager
def deterministic() -> Iterator[None]:
    """One thread, deterministic algorithms, and a generator of torch's own that is put back afterwards."""
    with undisturbed():
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)  # an attention of somebody's may have none
        yield


def import_ahead(tasks: Iterable[Task]) -> None:
    """Import what takes trainings of these tasks seconds to import: copies of this process share it."""
    for module in dict.fromkeys(name for task in tasks for name in task.imports):
        with suppress(ImportError):  # the task says what is missing
            import_module(module)
    torch.use_deterministic_algorithms(  # as they are: whoever sets them makes PyTorch import its compiler
        torch.are_deterministic_algorithms_enabled(), warn_only=torch.is_deterministic_algorithms_warn_only_enabled()
    )


def _number(random: torch.Generator) -> int:
    """A seed, drawn from a generator."""
    return int(torch.randint(2**62, (), generator=random))


class _Loop:
    """What changes while a training goes on."""

    def __init__(self, task: Task, training: Training, random: torch.Generator) -> None:
        config: Mapping[str, Any] = task.config
        self.name, self.training, self.random = task.name, training, random
        self.clip: float = math.inf if config.get("clip") is None else config["clip"]
        self.tensors = list(training.weights.values())
        make: Any = OPTIMISERS[config.get("optimiser", "adam")]
        self.optimiser: torch.optim.Optimizer = make(self.tensors, lr=config["learning_rate"])
        self.falls = config["learning_rate"] / task.epochs if config.get("rate_falls") else 0.0
        self.first = config["learning_rate"]
        self.curve: list[float] = []
        self.seconds = 0.0

    def epoch(self, stays: str) -> None:
        """One epoch, and its mean loss. `stays` says what is left when it fails."""
        began, losses = time.process_time(), []
        for group in self.optimiser.param_groups:
            group["lr"] = self.first - self.falls * len(self.curve)
        for number, batch in enumerate(self.training.batches(self.random), 1):
            where = f"in epoch {len(self.curve) + 1}, batch {number}"
            try:
                loss, norm = self.step(batch)
            except UsageError as error:
                raise UsageError(f"{error} ({where}{stays})") from error
            if not (math.isfinite(loss) and math.isfinite(norm)):
                what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
                raise UsageError(f"{self.name}: {what} {where}, and should be finite{stays}")
            losses.append(loss)
        self.curve.append(math.fsum(losses) / len(losses))
        self.seconds += time.process_time() - began

    def step(self, batch: Batch) -> tuple[float, float]:
        """One step of the optimiser, unless something is not finite: the loss, and the norm of the gradient."""
        torch.manual_seed(_number(self.random))
        self.optimiser.zero_grad()
        loss = self.training.loss(batch, self.random)
        self.backward(loss)
        norm = float(torch.nn.utils.clip_grad_norm_(self.tensors, self.clip))
        value = float(loss.detach())
        if math.isfinite(value) and math.isfinite(norm):
            self.optimiser.step()
        return value, norm

    def backward(self, loss: Tensor) -> None:
        """The gradients of the weights. Raises UsageError for what a backward pass of somebody's raises."""
        with told(f"{self.name}: the backward pass raised"), undisturbed(seeds=False):
            loss.backward()

    def state(self) -> State:
        return {
            "weights": {name: each.detach() for name, each in self.training.weights.items()},
            "optimiser": self.optimiser.state_dict(),
            "generator": self.random.get_state(),
            "curve": list(self.curve),
            "seconds": self.seconds,
        }

    def restore(self, state: State) -> None:
        with torch.no_grad():
            for name, tensor in self.training.weights.items():
                tensor.copy_(state["weights"][name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.random.set_state(state["generator"])
        self.curve, self.seconds = list(state["curve"]), state["seconds"]
