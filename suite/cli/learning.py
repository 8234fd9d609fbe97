"""`attnsuite learn`: models are trained with attentions plugged in; curves and scores go to results/, row by row."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite import machine, registry
from attnsuite.cli.epochs import Epochs
from attnsuite.cli.reporting import report
from attnsuite.model import Learned, Run, UsageError
from attnsuite.model.options import check_jobs, check_short_seed
from attnsuite.report import refuse_foreign_index
from attnsuite.results.store import Results, RunWriter

if TYPE_CHECKING:
    from attnsuite.documents.learning.engine import Watch
    from attnsuite.documents.learning.task import Task
    from attnsuite.documents.learning.trained import Job

DEVICE = "cpu"
"""Where models are trained: what is learned here is small, and equal bits are promised."""


def learn(
    targets: Sequence[str],
    tasks: Sequence[str],
    seeds: Sequence[int],
    epochs: int | None,
    results: Path,
    checkpoints: Path | None = None,
    pairs: Path | None = None,
    examples: int | None = None,
    at_once: int = 1,
) -> int:
    """Train each task with each target plugged in, from each seed; an interrupted run is resumed where it stopped.

    As many trainings run `at_once`; curves and scores are those of one after the other, and so is their order.
    Raises UsageError before any training for a target that lacks what a task needs.
    """
    from attnsuite.documents.learning.apart import Work, apart
    from attnsuite.documents.learning.attentions import DEFAULT
    from attnsuite.documents.learning.trained import Job

    check_jobs(at_once)
    refuse_foreign_index(results)
    _refuse(seeds, epochs, examples)
    changes = {**({"epochs": epochs} if epochs else {}), **_data(pairs, examples)}
    declarations = registry.find(targets or [DEFAULT])
    jobs = [
        Job(task, seed, declaration)
        for task in _tasks(tasks, changes, only_plugs=bool(targets))
        for declaration in ([None] if task.own else declarations)
        for seed in (seeds or [0])
    ]
    plugs = {(job.task.name, job.implementation): job for job in jobs}.values()  # whatever the seed
    list(apart([Work(partial(_plugged, job), job.implementation, due=type(None)) for job in plugs], at_once))
    with Results(results).open_run(_run(jobs)) as writer:
        _train(jobs, writer, checkpoints, at_once)
        writer.finish()
    report(results, writer.run.machine.name)
    return 0


def _train(jobs: Sequence[Job], writer: RunWriter, checkpoints: Path | None, at_once: int) -> None:
    """Train what the run does not have yet, and write and say what comes of it."""
    from attnsuite.documents.learning.apart import Work, apart
    from attnsuite.documents.learning.engine import import_ahead

    if writer.resumed:
        there = f"{len(writer.recorded_learned)} of {len(jobs)} trainings are there already"
        print(f"resuming the run of {writer.run.started}: {there}", file=sys.stderr)
    left = [job for job in jobs if _key(job) not in writer.trained]
    if left:
        import_ahead(job.task for job in left)
    with Epochs() as shown:
        works = [
            Work(partial(_learned, job, checkpoints), job.implementation, partial(shown.begins, _title(job)), Learned)
            for job in left
        ]
        try:
            with closing(apart(works, at_once)) as found:
                for job, learned in zip(left, found, strict=True):
                    writer.write(learned)
                    shown.ended(_title(job), line(learned))
        except KeyboardInterrupt:
            shown.say("interrupted: the same command goes on after the last whole epoch", error=True)
            raise


def line(learned: Learned) -> str:
    """A training in a line: what came of it, beside what the documents print."""
    scores = (
        f"{name} {score:.3f}" + (f" (documents: {learned.printed[name]:.3f})" if name in learned.printed else "")
        for name, score in learned.scores.items()
    )
    beside = (f"{name} {score:.3f}" for name, score in learned.beside.items())
    said = f"{learned.task} with {learned.implementation}, seed {learned.seed}: loss {learned.curve[-1]:.4f}"
    return "; ".join((said, *scores, *beside, *(f"without {each}" for each in learned.without)))


def _refuse(seeds: Sequence[int], epochs: int | None, examples: int | None) -> None:
    for option, number in (("--epochs", epochs), ("--examples", examples)):
        if number is not None and number < 1:
            raise UsageError(f"{option} should be 1 or more, not {number}")
    for seed in seeds:
        check_short_seed(seed)


def _data(pairs: Path | None, examples: int | None) -> dict[str, Any]:
    """What changes in a config where the user has data. Raises UsageError, before training, for a file
    that is none, and for more examples than there are.
    """
    from attnsuite.documents.learning.sentences import loading

    found: dict[str, Any] = {} if examples is None else {"examples": examples}
    there = len(loading.pairs(pairs or loading.SHIPPED))
    if examples is not None and examples > there:
        raise UsageError(f"--examples {examples}: {pairs or 'the set that ships'} has {there} pairs")
    if pairs is not None:
        found |= {"pairs": str(pairs), "pairs_sha256": hashlib.sha256(pairs.read_bytes()).hexdigest()}
    return found


def _tasks(named: Sequence[str], changes: Mapping[str, Any], only_plugs: bool) -> list[Task]:
    """The tasks asked for; without names all, but where targets are named those alone that plug them in.

    Raises UsageError for names that no task has, and for pairs of which nothing can be learned.
    """
    from attnsuite.documents.learning import tasks
    from attnsuite.documents.learning.tasks import translation

    found = {task.name: task for name in named for task in tasks.of_table(name)} or tasks.tasks()
    chosen = [task for task in found.values() if not (only_plugs and task.own)]
    if not chosen:
        raise UsageError(f"{next(iter(found))} plugs in no attention: leave the targets out")
    reading = [task for task in chosen if "pairs" in task.config or not changes.keys() - {"epochs"}]
    if not reading:
        raise UsageError(f"{chosen[0].name} reads no pairs of sentences: leave --pairs and --examples out")
    changed = [task.changed(**changes) for task in reading]
    for task in changed:
        if changes.keys() - {"epochs"}:
            translation.corpus(task.config)
    return changed


def _run(jobs: Sequence[Job]) -> Run:
    from attnsuite.documents.learning.checkpoint import digest

    declared = {job.declaration.full_name: job.declaration for job in jobs if job.declaration}
    sources = {name: registry.source_hash(declaration) for name, declaration in declared.items()}
    asked = "; ".join(
        f"learn {job.task.name} {job.implementation} {job.seed} {digest(job.task.config)}" for job in jobs
    )
    return machine.new_run(sources, machine.suite_hash(), asked)


def _key(job: Job) -> tuple[str, ...]:
    return (job.implementation, job.task.stands_in, str(job.seed), DEVICE)


def _plugged(job: Job, watch: Watch) -> None:
    """Raise UsageError for an attention that lacks what the task needs."""
    job.plug()


def _learned(job: Job, checkpoints: Path | None, watch: Watch) -> Learned:
    plug = job.plug()
    finished = job.run(plug.attention, checkpoints, watch)
    return Learned(
        job.implementation,
        job.task.stands_in,
        job.seed,
        DEVICE,
        finished.curve,
        finished.scores,
        (job.task.printed or {}) if not job.task.config.get("pairs") else {},
        finished.beside,
        job.task.config,
        finished.seconds,
        tuple(sorted(plug.without)),
    )


def _title(job: Job) -> str:
    return f"{job.task.name} with {job.implementation}, seed {job.seed}"
