"""Trained models: what a training depends on, and the translators, trained once and then read from the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.documents.learning.attentions import DEFAULT, Plug, plug
from attnsuite.documents.learning.checkpoint import Checkpoint
from attnsuite.documents.learning.engine import Finished, Watch, train
from attnsuite.documents.learning.sentences.preprocessing import Vocabulary
from attnsuite.documents.learning.task import Task
from attnsuite.documents.learning.tasks import task as task_named
from attnsuite.documents.learning.tasks.translation import corpus, model_config
from attnsuite.machine import system
from attnsuite.model import UsageError
from attnsuite.registry import Declaration

SUITE = Path(__file__).parents[2]
SOURCES = ("learning/**/*.py", "learning/**/*.tsv", "contracts/models/**/*.py", "contracts/softmax.py")
"""The files of suite/ on which weights depend."""
TRANSLATORS = ("transformer", "seq2seq_attention")


@dataclass(frozen=True)
class Trained:
    """A trained translator. The weights are named as the contract's `shapes(config)` says, so any implementation of the
    contract runs with them.
    """

    config: Mapping[str, Any]
    weights: Mapping[str, Tensor]
    source: Vocabulary
    target: Vocabulary
    steps: int
    """How many tokens a source is padded to, and a translation has at most."""


@dataclass(frozen=True)
class Job:
    """One training: a task, a seed, and the attention that is plugged in; None where none can be."""

    task: Task
    seed: int
    declaration: Declaration | None = None

    @property
    def implementation(self) -> str:
        """What stands in results/."""
        return self.declaration.full_name if self.declaration else self.task.own

    def checkpoint(self, folder: Path | None = None) -> Checkpoint:
        """The file of this training in a folder, or in the cache."""
        identity = {
            "task": self.task.name,
            "attention": self.implementation,
            "source": registry.source_hash(self.declaration) if self.declaration else "",
            "seed": self.seed,
            "config": dict(self.task.config),
            "torch": torch.__version__,
            "processor": system.processor(),
            "suite": sources_hash(),
        }
        return Checkpoint.within(folder, f"{self.task.name}.{self.implementation}.seed-{self.seed}", identity)

    def plug(self) -> Plug:
        """What to plug in. Raises UsageError for an attention that lacks what the task needs."""
        return plug(self.declaration, self.task) if self.declaration else Plug(no_attention)

    def run(self, attention: Callable[..., Tensor], folder: Path | None = None, watch: Watch | None = None) -> Finished:
        """Train, or go on from the checkpoint."""
        told: dict[str, Any] = {} if watch is None else {"watch": watch}
        return train(self.task, self.seed, attention, checkpoint=self.checkpoint(folder), **told)


def translator(name: str, seed: int = 0) -> Trained:
    """A trained translator, `transformer` or `seq2seq_attention`: read from the cache, or trained in about a minute.

    Raises UsageError for another name.
    """
    if name not in TRANSLATORS:
        raise UsageError(f"there is no translator {name!r:.80}; there are: {', '.join(TRANSLATORS)}")
    task = task_named(f"translation/{name}")
    declaration = None if task.own else registry.find([DEFAULT])[0]
    job = Job(task, seed, declaration)
    finished = job.run(job.plug().attention)
    of = corpus(task.config)
    return Trained(model_config(name, task.config, of), finished.weights, of.source, of.target, of.steps)


def no_attention(*_: Any, **__: Any) -> Tensor:
    """Stands where no attention can be plugged in."""
    raise AssertionError("this task plugs in no attention")


@cache
def sources_hash() -> str:
    """A hash of the files on which weights depend."""
    data = (path.read_bytes() for path in sorted(_sources()))
    return hashlib.sha256(b"\0".join(data)).hexdigest()[:16]


def _sources() -> Iterator[Path]:
    for pattern in SOURCES:
        yield from SUITE.glob(pattern)
