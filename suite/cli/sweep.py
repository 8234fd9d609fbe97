"""`attnsuite sweep`: the shards that a TOML file lists, started by submitit here or on Slurm, and merged.

Each shard is a plain command, `attnsuite check … --shard 3/8 --results …`. It resumes an interrupted shard and does not
repeat a complete one, so that the same sweep command resumes a sweep.
"""

import json
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]  # stubs are a package of their own

from attnsuite.cli import requests
from attnsuite.cli.ending import FAILED
from attnsuite.cli.options import arguments, words
from attnsuite.cli.report import merge
from attnsuite.cli.targets import chosen, print_hint, refuse_broken
from attnsuite.model import Shard, UsageError
from attnsuite.model.files import read_text
from attnsuite.report import refuse_foreign_index

COMMANDS: Mapping[str, type[requests.Check | requests.Bench]] = {"check": requests.Check, "bench": requests.Bench}
"""The subcommands whose tables a sweep file may have."""
EXCLUDED = ("results", "shard", "json", "junit", "github", "quiet", "fail_fast", "seed", "dry_run")
"""Options that the sweep sets itself, or that do not apply to shards."""
DEFAULTS: Mapping[str, Any] = {"shards": 1, "results": "results", "folder": "", "slurm": {}}
"""The keys of a sweep file besides the tables of subcommands."""
PAUSE = 0.2
"""Seconds between two checks of the jobs."""
SLURM = {"time": 60, "job_name": "attnsuite", "array_parallelism": 256}
"""Options of submitit's executor for Slurm where the file does not set them; the time is in minutes."""
FOREVER = 10 * 365 * 24 * 60
"""Minutes after which submitit ends a process on this machine: the commands have timeouts of their own."""


@dataclass(frozen=True)
class Part:
    """The command of one shard; `folder` is the folder of all shards of its request."""

    name: str
    folder: Path
    command: tuple[str, ...]

    @property
    def is_timed(self) -> bool:
        """Whether the part is a benchmark."""
        return self.name.startswith("bench")


def run(options: requests.Sweep) -> int:
    """Run the shards and merge them; 1 if a shard failed or was killed. UsageError for an invalid file."""
    table = read(options.file)
    parts = list(parts_of(table, str(options.file)))
    if options.dry_run:
        print(*(shlex.join(part.command) for part in parts), sep="\n")
        return 0
    results, folder = Path(table["results"]), Path(table["folder"])
    refuse_foreign_index(results)
    start = _on_slurm if options.launch == "slurm" else _local
    statuses = start(parts, folder, options.jobs, table["slurm"])
    stopped = [part for part in parts if statuses[part.name] not in (0, FAILED)]
    for part in stopped:
        status = statuses[part.name]
        print(f"{part.name} {'was killed' if status is None else f'ended with exit status {status}'}:")
        print(f"  {shlex.join(part.command)}")
    incomplete = {part.folder for part in stopped}
    if complete := [folder for folder in dict.fromkeys(part.folder for part in parts) if folder not in incomplete]:
        merge(complete, results)
    if stopped:
        print(f"to run what is missing, repeat: attnsuite sweep {options.file} --launch {options.launch}")
    return FAILED if any(statuses.values()) or stopped else 0


def read(file: Path) -> dict[str, Any]:
    """The content of a sweep file. UsageError for an unreadable file, an unknown key and a value of the wrong type."""
    try:
        table = tomllib.loads(read_text(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # neither TOML nor UTF-8
        raise UsageError(f"{file} is not TOML: {error}") from None
    _refuse_unknown(str(file), table, (*DEFAULTS, *COMMANDS))
    if not table.keys() & COMMANDS.keys():
        raise UsageError(f"{file} lists nothing to run: add a table {' or '.join(f'[{name}]' for name in COMMANDS)}")
    for key, default in DEFAULTS.items():
        if type(table.get(key, default)) is not type(default):
            kind = {int: "an integer", str: "the name of a folder", dict: "a table"}[type(default)]
            raise UsageError(f"{file}: {key} expects {kind}, got {table[key]!r:.80}")
    if table.get("shards", 1) < 1:
        raise UsageError(f"{file}: shards expects an integer of at least 1, got {table['shards']}")
    return {**DEFAULTS, "folder": str(file.with_suffix(".sweep")), **table}


def _refuse_unknown(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    if unknown := [key for key in table if key not in known]:
        raise UsageError(f"{where}: unknown key {unknown[0]!r:.80}; valid keys: {', '.join(known)}")


def parts_of(table: Mapping[str, Any], file: str) -> Iterator[Part]:
    """A part for each request and shard. UsageError for options and targets that `check` or `bench` would refuse."""
    for command, request in COMMANDS.items():
        tables = table.get(command, [])
        for number, values in enumerate(tables if isinstance(tables, list) else [tables], 1):
            name = command if number == 1 else f"{command}-{number}"
            options = _options(f"{file}: [{name}]", values, request)
            for index in range(1, table["shards"] + 1):
                shard, folder = Shard(index, table["shards"]), Path(table["folder"]) / name
                where = ("--shard", str(shard), "--results", str(folder))
                yield Part(f"{name} {shard}", folder, (sys.executable, "-m", "attnsuite", command, *options, *where))


def _options(where: str, values: Any, request: type[requests.Check | requests.Bench]) -> list[str]:
    """The options of a table as words of a command line."""
    if not isinstance(values, dict):
        raise UsageError(f"{where} expects a table, got {values!r:.80}")
    names = {field.name.rstrip("_"): field.name for field in fields(request) if field.name not in EXCLUDED}
    _refuse_unknown(where, values, list(names))
    try:
        options = request(**arguments(request, {names[key]: value for key, value in values.items()}))
        declarations = chosen(options.targets, options.except_, options.contract, options.signature)
        refuse_broken(options.targets, declarations)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    return [*options.targets, *words(options, *(name for name in names.values() if name != "targets"))]


def _local(parts: Sequence[Part], folder: Path, at_once: int | None, _: Mapping[str, Any]) -> dict[str, int | None]:
    """The exit statuses of parts that run on this machine. A part that times anything runs alone."""
    executor = _submitit().LocalExecutor(folder / "logs")
    executor.update_parameters(timeout_min=FOREVER)
    most = at_once or os.cpu_count() or 1
    waiting, running, statuses = list(parts), dict[Part, Any](), dict[str, int | None]()
    while waiting or running:
        while waiting and len(running) < most and not any(part.is_timed for part in running):
            if waiting[0].is_timed and running:
                break
            part = waiting.pop(0)
            running[part] = executor.submit(run_for, os.getpid(), part.command, dict(os.environ))
        _collect(running, statuses, len(parts))
    return statuses


def run_for(launcher: int, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its exit status. The command is stopped when its launcher ends or is killed."""
    process = subprocess.Popen(command, env=environment)
    while True:
        try:
            return process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            if not psutil.pid_exists(launcher):
                process.terminate()


def _on_slurm(
    parts: Sequence[Part], folder: Path, at_once: int | None, options: Mapping[str, Any]
) -> dict[str, int | None]:
    """The exit statuses of parts that run on a cluster. Jobs outlive their launcher; the next one waits for them."""
    submitit, noted = _submitit(), folder / "submitted.json"
    try:
        executor = submitit.SlurmExecutor(folder / "logs")
        executor.update_parameters(**{**SLURM, **({"array_parallelism": at_once} if at_once else {}), **options})
    except RuntimeError:
        raise UsageError("--launch slurm needs srun on the path; --launch local needs nothing") from None
    except (ValueError, TypeError, AssertionError) as error:
        raise UsageError(f"[slurm]: {error}") from None
    running: dict[Part, Any] = {}
    with suppress(OSError, ValueError):
        known = json.loads(noted.read_text(encoding="utf-8"))
        earlier = {part: submitit.SlurmJob(folder / "logs", known[part.name]) for part in parts if part.name in known}
        running = {part: job for part, job in earlier.items() if not job.done(force_check=True)}
    for exclusive in (False, True):
        if new := [part for part in parts if part not in running and part.is_timed == exclusive]:
            executor.update_parameters(**({"exclusive": True} if exclusive and "exclusive" not in options else {}))
            running |= zip(new, executor.map_array(subprocess.call, [part.command for part in new]), strict=True)
    noted.write_text(json.dumps({part.name: job.job_id for part, job in running.items()}), encoding="utf-8")
    statuses: dict[str, int | None] = {}
    while running:
        _collect(running, statuses, len(parts))
    return statuses


def _collect(running: dict[Part, Any], statuses: dict[str, int | None], total: int) -> None:
    """Move ended parts from `running` to `statuses`; a killed process has no status (None)."""
    for part in [part for part, job in running.items() if job.done()]:
        try:
            statuses[part.name] = running.pop(part).result()
        except Exception:  # whatever submitit finds in place of a result
            statuses[part.name] = None
        print_hint(f"{part.name} ended; {len(statuses)} of {total} shards are done")
    time.sleep(PAUSE)


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise UsageError("`sweep` starts processes with submitit: pip install 'attnsuite[slurm]'") from None
    return submitit
