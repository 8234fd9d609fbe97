"""`attnsuite learn`: train models with attentions as backends, and store curves and scores in results/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite import machine, registry
from attnsuite.cli.report import report
from attnsuite.cli.requests import Learn
from attnsuite.cli.targets import print_hint
from attnsuite.model import Run, TrainingRow, UsageError
from attnsuite.report import refuse_foreign_index
from attnsuite.results import RunWriter, open_run

if TYPE_CHECKING:
    from attnsuite.documents.learning.engine import Task
    from attnsuite.documents.learning.tasks import Job

DEVICE = "cpu"
"""The device of all trainings: the models are small, and results are equal bit by bit."""
EPOCHS_PER_LINE = 10
"""Epochs between two lines on standard error."""


def run(options: Learn) -> int:
    """Train each task with each target as backend, from each seed; an interrupted run is resumed where it stopped.

    Raises UsageError before any training for a target that lacks what a task needs.
    """
    from attnsuite.documents.learning.backends import DEFAULT
    from attnsuite.documents.learning.tasks import Job

    refuse_foreign_index(options.results)
    declarations = registry.find(options.targets or [DEFAULT])
    jobs = [
        Job(task, seed, declaration)
        for task in _tasks(options)
        for declaration in ([None] if task.own else declarations)
        for seed in (options.seeds or [0])
    ]
    backends = {(job.task.name, job.implementation): job for job in jobs}.values()
    for job in backends:
        job.backend()
    with open_run(options.results, _run(jobs)) as writer:
        _train(jobs, writer, options)
        writer.finish()
    report(options.results, writer.run.machine.name)
    return 0


def _train(jobs: Sequence[Job], writer: RunWriter, options: Learn) -> None:
    """Run the trainings that have no row yet; write and print each result."""
    if writer.resumed:
        counts = f"{len(writer.stored(TrainingRow))} of {len(jobs)} trainings are stored"
        print_hint(f"resuming the run of {writer.run.started}: {counts}")
    try:
        for job in jobs:
            key = job.implementation, job.task.recorded_name, str(job.seed), DEVICE
            if key not in writer.stored(TrainingRow):
                writer.write(learned := _learned(job, options.checkpoints))
                print(line(learned), flush=True)
    except KeyboardInterrupt:
        print_hint("interrupted: the same command resumes after the last whole epoch")
        raise


def line(learned: TrainingRow) -> str:
    """The result of a training in a line, with the documents' scores."""
    scores = (
        f"{name} {score:.3f}" + (f" (documents: {learned.printed[name]:.3f})" if name in learned.printed else "")
        for name, score in learned.scores.items()
    )
    others = (f"{name} {score:.3f}" for name, score in learned.baselines.items())
    loss = f"{learned.task} with {learned.implementation}, seed {learned.seed}: loss {learned.curve[-1]:.4f}"
    return "; ".join((loss, *scores, *others, *(f"without {feature}" for feature in learned.without)))


def _tasks(options: Learn) -> list[Task]:
    """The chosen tasks, by default all; with targets, only tasks that use an attention.

    Raises UsageError for unknown names.
    """
    from attnsuite.documents.learning import tasks

    named = {task.name: task for name in options.tasks for task in tasks.tasks_of_table(name)} or tasks.tasks()
    chosen = [task for task in named.values() if not (options.targets and task.own)]
    if not chosen:
        raise UsageError(f"{next(iter(named))} uses no attention: name no targets")
    return [task.changed(epochs=options.epochs or task.epochs) for task in chosen]


def _run(jobs: Sequence[Job]) -> Run:
    from attnsuite.documents.learning.engine import digest

    declared = {job.declaration.full_name: job.declaration for job in jobs if job.declaration}
    sources = {name: registry.source_hash(declaration) for name, declaration in declared.items()}
    parts = (f"learn {job.task.name} {job.implementation} {job.seed} {digest(job.task.config)}" for job in jobs)
    return machine.new_run(sources, machine.suite_hash(), "; ".join(parts))


def _learned(job: Job, checkpoints: Path | None) -> TrainingRow:
    backend = job.backend()

    def watch(epoch: int, epochs: int) -> None:
        if epoch % EPOCHS_PER_LINE == 0:
            print_hint(f"{job.task.name} with {job.implementation}, seed {job.seed}: epoch {epoch} of {epochs}")

    finished = job.run(backend.attention, checkpoints, watch)
    return TrainingRow(
        job.implementation,
        job.task.recorded_name,
        job.seed,
        DEVICE,
        finished.curve,
        finished.scores,
        job.task.printed or {},
        finished.baselines,
        job.task.config,
        finished.seconds,
        tuple(sorted(backend.without)),
    )
