"""The one training loop, and what it trains: epochs of steps, a mean loss for each epoch, a checkpoint after each.

One seed gives one curve, bit by bit, on one machine: every random number is drawn from one generator, whose state is in
the checkpoint; sums have a fixed order, because torch runs on one thread with deterministic algorithms.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from attnsuite.documents.learning.checkpoint import Checkpoint, State
from attnsuite.model import UsageError
from attnsuite.registry.loading import told
from attnsuite.registry.side_effects import undisturbed

Attention = Callable[..., Tensor]
Batch = tuple[Tensor, ...]
Watch = Callable[[int, int], None]
"""Is called with the number of finished epochs and the number of all epochs."""
OPTIMISERS: Mapping[str, type[torch.optim.Optimizer]] = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}


@dataclass(frozen=True)
class Training:
    """A model with its data, from one seed. The engine keeps no other state."""

    weights: Mapping[str, Tensor]
    """Leaf tensors that require a gradient, by name. The engine changes them in place."""
    batches: Callable[[torch.Generator], Iterable[Batch]]
    """The batches of one epoch; their order is drawn from the generator."""
    loss: Callable[[Batch, torch.Generator], Tensor]
    """The mean loss of a batch, a tensor without axes. Dropout is drawn from the generator; an attention backend draws
    from torch's own, which the engine seeds before each step."""
    scores: Callable[[], Mapping[str, float]]
    """Scores of the weights as they are, by name, on data that is not in the batches. Nothing in it is random."""
    baselines: Callable[[], Mapping[str, float]] = dict
    """Scores of simpler methods on the same data, such as logistic regression or chance."""


@dataclass(frozen=True)
class Task:
    """A model to train, and how it is scored. A row of results names the task, the attention and the seed."""

    name: str
    """Its name on the command line and in results/: `translation/transformer`."""
    says: str
    """What is learned, in one sentence without a full stop."""
    config: Mapping[str, Any]
    """Everything but seed and attention that determines the curve, as JSON holds it. The engine reads `epochs`,
    `learning_rate`, `optimiser` ("adam" by default, or "sgd"), `clip` (the largest norm of all gradients together) and
    `rate_falls` (whether the learning rate falls in equal steps to 0 after the last epoch)."""
    prepare: Callable[[Mapping[str, Any], int, Attention], Training]
    """Makes the training from the config, a seed and the backend. Draws nothing from torch's own generator."""
    needs: frozenset[str] = frozenset()
    """The features of the contract `attention` that the model needs of its backend."""
    uses: frozenset[str] = frozenset()
    """The features that it uses where the backend has them, and does without otherwise: dropout."""
    own: str = ""
    """The implementation named in results/ where the task takes no backend; empty where it takes one."""
    table: str = ""
    """The task in whose table its rows stand, where it has no table of its own."""
    imports: tuple[str, ...] = ()
    """Modules that a training imports and that take seconds: they are imported once for several trainings."""
    printed: Mapping[str, float] | None = None
    """The documents' scores, by the names that `scores` has."""

    @property
    def stands_in(self) -> str:
        """The task that its rows name."""
        return self.table or self.name

    @property
    def epochs(self) -> int:
        return int(self.config["epochs"])

    def changed(self, **config: Any) -> Task:
        """The task with other values in its config."""
        return replace(self, config={**self.config, **config})


@dataclass(frozen=True)
class Finished:
    """A training that has ended: the weights, the mean loss of each epoch, and the scores."""

    weights: Mapping[str, Tensor]
    curve: tuple[float, ...]
    scores: Mapping[str, float]
    baselines: Mapping[str, float]
    seconds: float
    """Processor time of all epochs, those before a checkpoint included."""


def generator(seed: int, purpose: str) -> torch.Generator:
    """A generator for one purpose, independent of those for others."""
    mixed = hashlib.sha256(f"{seed} {purpose}".encode()).digest()  # the same on every machine, which hash() is not
    return torch.Generator().manual_seed(int.from_bytes(mixed[:8]) >> 1)


def train(
    task: Task,
    seed: int,
    attention: Attention,
    *,
    checkpoint: Checkpoint | None = None,
    watch: Watch = lambda epoch, epochs: None,
) -> Finished:
    """Train a task's model, from its checkpoint if there is one, and score it.

    Raises UsageError when the loss or its gradient is not finite (the last epoch's checkpoint stays), and for a
    checkpoint that is damaged or of another configuration.
    """
    with deterministic():
        training = task.prepare(task.config, seed, attention)
        loop = _Loop(task, training, generator(seed, "training"))
        if checkpoint:
            if state := checkpoint.read():
                loop.restore(state)
            else:
                checkpoint.write(loop.state())  # an unwritable checkpoint is an error before any training
        watch(len(loop.curve), task.epochs)
        while len(loop.curve) < task.epochs:
            stays = f"; the checkpoint of epoch {len(loop.curve)} stays in {checkpoint.path}" if checkpoint else ""
            loop.epoch(stays if loop.curve else "")
            if checkpoint:
                checkpoint.write(loop.state())
            watch(len(loop.curve), task.epochs)
        torch.manual_seed(_seed(generator(seed, "scores")))  # the same, whether or not it began at a checkpoint
        with torch.no_grad():
            weights = {name: tensor.detach() for name, tensor in training.weights.items()}
            scores, baselines = dict(training.scores()), dict(training.baselines())
            return Finished(weights, tuple(loop.curve), scores, baselines, loop.seconds)


@contextmanager
def deterministic() -> Iterator[None]:
    """One thread and deterministic algorithms; these and torch's own generator are restored afterwards."""
    with undisturbed():
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)  # a submission may have none
        yield


def import_ahead(tasks: Iterable[Task]) -> None:
    """Import the slow modules of these tasks, so that copies of this process share them."""
    for module in dict.fromkeys(name for task in tasks for name in task.imports):
        with suppress(ImportError):  # the task reports what is missing
            import_module(module)
    torch.use_deterministic_algorithms(  # unchanged: setting them makes PyTorch import its compiler
        torch.are_deterministic_algorithms_enabled(), warn_only=torch.is_deterministic_algorithms_warn_only_enabled()
    )


def _seed(random: torch.Generator) -> int:
    return int(torch.randint(2**62, (), generator=random))


class _Loop:
    """The state of a training."""

    def __init__(self, task: Task, training: Training, random: torch.Generator) -> None:
        config: Mapping[str, Any] = task.config
        self.task, self.training, self.random = task, training, random
        self.clip: float = math.inf if config.get("clip") is None else config["clip"]
        self.tensors = list(training.weights.values())
        make: Any = OPTIMISERS[config.get("optimiser", "adam")]
        self.optimiser: torch.optim.Optimizer = make(self.tensors, lr=config["learning_rate"])
        self.curve: list[float] = []
        self.seconds = 0.0

    def rate(self) -> float:
        first: float = self.task.config["learning_rate"]
        falls = first / self.task.epochs if self.task.config.get("rate_falls") else 0.0
        return first - falls * len(self.curve)

    def epoch(self, stays: str) -> None:
        """Train one epoch and note its mean loss. `stays` names the remaining checkpoint in errors."""
        began, losses = time.process_time(), []
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        for number, batch in enumerate(self.training.batches(self.random), 1):
            where = f"in epoch {len(self.curve) + 1}, batch {number}"
            try:
                loss, norm = self.step(batch)
            except UsageError as error:
                raise UsageError(f"{error} ({where}{stays})") from error
            if not (math.isfinite(loss) and math.isfinite(norm)):
                what = f"the loss is {loss}" if not math.isfinite(loss) else f"the gradient's norm is {norm}"
                raise UsageError(f"{self.task.name}: {what} {where}, and should be finite{stays}")
            losses.append(loss)
        self.curve.append(math.fsum(losses) / len(losses))
        self.seconds += time.process_time() - began

    def step(self, batch: Batch) -> tuple[float, float]:
        """One step of the optimiser, unless something is not finite: the loss, and the norm of the gradient."""
        torch.manual_seed(_seed(self.random))
        self.optimiser.zero_grad()
        loss = self.training.loss(batch, self.random)
        with told(f"{self.task.name}: the backward pass raised"), undisturbed(seeds=False):
            loss.backward()
        norm = float(torch.nn.utils.clip_grad_norm_(self.tensors, self.clip))
        value = float(loss.detach())
        if math.isfinite(value) and math.isfinite(norm):
            self.optimiser.step()
        return value, norm

    def state(self) -> State:
        return {
            "weights": {name: tensor.detach() for name, tensor in self.training.weights.items()},
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
