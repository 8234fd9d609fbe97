"""`attnsuite sweep`: what a file asks, carried out by submitit, merged, and said."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import typer

from attnsuite.cli import merging
from attnsuite.cli.checking import told
from attnsuite.cli.declared.bench import Bench
from attnsuite.cli.declared.check import Check
from attnsuite.cli.sweep import request
from attnsuite.cli.sweep.carrying import Carried, carry_out
from attnsuite.cli.sweep.command import Expected, ShardCommand
from attnsuite.cli.sweep.engines import Engine, Local, Slurm, refuse_options
from attnsuite.cli.sweep.environments import Environment
from attnsuite.cli.sweep.request import Asked, Sweep, Words
from attnsuite.model import Outcome, UsageError, escaped
from attnsuite.report import refuse_foreign_index
from attnsuite.report.files import write
from attnsuite.report.summary import versions_lines
from attnsuite.report.versions import NAME, Tried, versions_page
from attnsuite.results.store import files

if TYPE_CHECKING:
    from attnsuite.cli.declared.sweep import Sweep as Options

ASKED: Mapping[str, type[Check | Bench]] = {"check": Check, "bench": Bench}
"""The subcommands that a sweep may ask."""
NOT_IN_A_SWEEP = ("results", "shard", "json", "junit", "github", "quiet", "fail_fast", "last_failed", "seed", "dry_run")
"""Options that say where results go, which the sweep says itself, or that mean nothing for a part of a request."""


@dataclass(frozen=True)
class Place:
    """Where all is asked once: with an interpreter of its own, and folders for shards and for results.

    Without a name it is this environment. `why_not` says why nothing can be asked there.
    """

    name: str
    python: str
    folder: Path
    results: Path
    commands: tuple[ShardCommand, ...] = ()
    why_not: str = ""

    @property
    def versions(self) -> dict[str, str]:
        """The versions of its libraries, where these are known."""
        return dict(self.commands[0].expected.versions) if self.commands else {}


def sweep(options: Options) -> int:
    """Carry out a sweep; 1 if a shard was given up or an answer fails. UsageError for what cannot be carried out."""
    for name, number in (("--jobs", options.jobs), ("--attempts", options.attempts)):
        if number is not None and number < 1:
            raise UsageError(f"{name} is a whole number of at least 1, not {number}")
    of = request.read(options.file, words_of())
    of = replace(of, results=options.results or of.results)
    if of.slurm or not options.dry_run:
        refuse_options(of.slurm)
    if options.dry_run:
        return say(of, options.launch)
    refuse_foreign_index(of.results)
    with one_launcher(of.folder):
        return swept(of, places(of, options.launch), options)


@contextmanager
def one_launcher(folder: Path) -> Iterator[None]:
    """Nobody else carries out the sweep meanwhile. UsageError where somebody does."""
    with files.one_line(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    held, unlocked = files.lock(folder)
    if unlocked:
        told(unlocked)
    try:
        yield
    finally:
        files.unlock(held)


def words_of() -> dict[str, Words]:
    """The keys of the subcommands that a sweep may ask: the names of the fields that declare their options."""
    return {name: _words(command) for name, command in ASKED.items()}


def _words(command: type[Check | Bench]) -> Words:
    """The keys of a subcommand, with the option that each is; a flag takes no value."""
    hints = get_type_hints(command, include_extras=True)
    declared = {each.name: get_args(hints[each.name]) for each in fields(command)}
    (positional,) = (name for name, (_, info) in declared.items() if isinstance(info, typer.models.ArgumentInfo))
    own = {name: of for name, of in declared.items() if name not in (positional, *NOT_IN_A_SWEEP)}
    options = {name.rstrip("_"): _option(info) for name, (_, info) in own.items()}
    return Words(options, [name.rstrip("_") for name, (kind, _) in own.items() if kind is bool], positional)


def _option(info: Any) -> str:
    """The option's long name, which typer takes for a default until it reads the annotation."""
    return next(word for word in map(str, (info.default, *(info.param_decls or ()))) if word.startswith("--"))


def places(of: Sweep, launch: str) -> list[Place]:
    """Where all is asked: here, or in each environment, which is built where it is not there yet."""
    if not of.versions:
        return [planned(of, launch, Place("", sys.executable, of.folder, of.results))]
    found = [_planned(of, launch, _built(each, of)) for each in environments(of)]
    if all(place.why_not for place in found):
        raise UsageError(found[0].why_not)
    return found


def _planned(of: Sweep, launch: str, place: Place) -> Place:
    """The place with its commands. One where the request cannot be carried out says why, and the others go on."""
    try:
        return planned(of, launch, place)
    except UsageError as error:
        told(f"{place.name}: {error}")
        return replace(place, why_not=str(error))


def environments(of: Sweep) -> list[Environment]:
    """The environments that the file names, each in a folder of its own."""
    return [Environment(name, of.folder / name / "environment", what) for name, what in of.versions.items()]


def _place(environment: Environment, of: Sweep) -> Place:
    name = environment.name
    return Place(name, str(environment.python), of.folder / name, of.results / name)


def _built(environment: Environment, of: Sweep) -> Place:
    """Its place. One that cannot be built says why, and the others go on."""
    place = _place(environment, of)
    if environment.is_built:
        return place
    told(f"{environment.name}: the environment is being built")
    try:
        environment.build()
    except UsageError as error:
        told(f"{environment.name}: {error}")
        return replace(place, why_not=str(error))
    return place


def planned(of: Sweep, launch: str, place: Place) -> Place:
    """The place with the commands of all shards. UsageError for a request that cannot be carried out."""
    if place.why_not:
        return place
    found: list[ShardCommand] = []
    for asked in of.asked:
        expected = expected_of(asked, place.python, launch)
        folder = place.folder / f"{asked.name}-{expected.digest([*asked.words, str(of.shards)])}"
        name = f"{place.name} {asked.name}".strip()
        words = (asked.command, *asked.words)
        found += [ShardCommand(name, place.python, words, folder, shard, expected) for shard in of.parts]
    return replace(place, commands=tuple(found))


def expected_of(asked: Asked, python: str, launch: str) -> Expected:
    """What its runs are of, which the interpreter says that is to run it. UsageError as it refuses the request."""
    where = "here" if launch == "local" else "elsewhere"
    words = [python, "-m", "attnsuite.cli.expecting", where, asked.command, *asked.words]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    try:
        return Expected(**json.loads(done.stdout))
    except (ValueError, TypeError):
        said = done.stderr.strip().splitlines() or [f"{shlex.join(words)} ended with status {done.returncode}"]
        raise UsageError(f"[{asked.name}] {said[-1].removeprefix('attnsuite: ')}") from None


def engine_of(of: Sweep, options: Options) -> Engine:
    """What starts the commands. Its logs are in a folder of this launch: submitit names files by numbers of processes,
    which come again.
    """
    logs = of.folder / "logs" / datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    if options.launch == "slurm":
        return Slurm(logs, options.jobs, of.alone, of.slurm)
    return Local(logs, options.jobs or _cores(), of.alone)


def _cores() -> int:
    """The cores that this process may use, where the system says that."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def swept(of: Sweep, where: Sequence[Place], options: Options) -> int:
    """Carry out all commands, merge what is answered, and say what came of it."""
    commands = [command for place in where for command in place.commands]
    carried = Carried(commands, lambda line: told(escaped(line)), options.attempts)
    there = sum(carried.look(each) for each in commands)
    if there:
        told(f"{there} of {len(commands)} shards are answered already")
    if carried.left:
        carry_out(carried, engine_of(of, options))
    for place in where:
        merge(place, carried)
    if of.versions:
        tried(of, where, carried)
    return conclude(carried, options, failed=any(place.why_not for place in where))


def merge(place: Place, carried: Carried) -> None:
    """Merge the shards of requests that are answered whole, and make the tables."""
    whole = [each.folder for each in place.commands if each in carried.answers]
    missing = {each.folder for each in place.commands if each not in carried.answers}
    folders = [folder for folder in dict.fromkeys(whole) if folder not in missing]
    if folders:
        merging.merge(folders, place.results, partial=False)


def tried(of: Sweep, where: Sequence[Place], carried: Carried) -> None:
    """Say and write which version gets what wrong."""
    found = [Tried(place.name, place.versions, _outcomes(place, carried), _missing(place, carried)) for place in where]
    for line in versions_lines(found):
        print(escaped(line))
    for path in write(of.results, NAME, [versions_page(found)]):
        print(path)


def _outcomes(place: Place, carried: Carried) -> list[Outcome]:
    rows = (row for each in place.commands for row in carried.answers.get(each, ()))
    return [row for row in rows if isinstance(row, Outcome)]


def _missing(place: Place, carried: Carried) -> str:
    unanswered = [str(each.shard) for each in place.commands if each not in carried.answers]
    return place.why_not or (f"not answered: {', '.join(unanswered)}" if unanswered else "")


def conclude(carried: Carried, options: Options, failed: bool) -> int:
    """Say what was not answered and how to ask it again; the exit status."""
    for each in carried.unanswered:
        often = f"after {each.attempts} attempts" if each.attempts else "without an attempt"
        print(escaped(f"{each.command} is not answered {often}: {each.why}"))
        print(f"  {each.command.shell}")
    rows = [row for found in carried.answers.values() for row in found]
    failures = sum(row.fails for row in rows)
    answered = f"{len(carried.answers)} of {len(carried.commands)} shards are answered"
    print(f"{answered}: {len(rows):,} rows, {failures:,} failures; {carried.begun.total()} processes were started")
    if carried.unanswered:
        print(f"what is missing is asked by the same command: {shlex.join(again(options))}")
    return int(failed or bool(carried.unanswered) or failures > 0)


def again(options: Options) -> list[str]:
    """The words of the command that goes on with the sweep."""
    words = ["attnsuite", "sweep", str(options.file), "--launch", options.launch]
    words += ["--jobs", str(options.jobs)] if options.jobs else []
    return words + (["--results", str(options.results)] if options.results else [])


def say(of: Sweep, launch: str) -> int:
    """Print the commands, and which are answered already; start and write nothing."""
    for environment in environments(of):
        if not environment.is_built:
            print(f"# {environment.name}: an environment that would be built")
            for words in environment.commands:
                print(shlex.join(words))
            continue
        _say_commands(planned(of, launch, _place(environment, of)))
    if not of.versions:
        _say_commands(planned(of, launch, Place("", sys.executable, of.folder, of.results)))
    return 0


def _say_commands(place: Place) -> None:
    for each in place.commands:
        print(f"{each.shell}{'  # answered already' if each.answers() is not None else ''}")
