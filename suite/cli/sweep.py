"""`attnsuite sweep`: the shards that a TOML file lists, run here or by submitit on Slurm, and merged.

Each shard is a plain command, `attnsuite check … --shard 3/8 --results …`. It resumes an interrupted shard and does not
repeat a complete one, so that the same sweep command resumes a sweep.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, MsgspecError, Struct, toml

from attnsuite.cli import requests
from attnsuite.cli.ending import FAILED
from attnsuite.cli.options import arguments, words
from attnsuite.cli.report import merge
from attnsuite.cli.targets import chosen, print_hint, refuse_broken
from attnsuite.model import Shard, UsageError
from attnsuite.model.files import file_errors, read_bytes
from attnsuite.report import refuse_foreign_index

COMMANDS: Mapping[str, type[requests.Check | requests.Bench]] = {"check": requests.Check, "bench": requests.Bench}
"""The subcommands whose tables a sweep file may have."""
EXCLUDED = ("results", "shard", "json", "junit", "github", "quiet", "fail_fast", "seed", "dry_run")
"""Options that the sweep sets itself, or that do not apply to shards."""
SLURM = {"time": 60, "job_name": "attnsuite", "array_parallelism": 256}
"""Options of submitit's executor for Slurm where the file does not set them; the time is in minutes."""
Tables = dict[str, Any] | list[dict[str, Any]]


class SweepFile(Struct, forbid_unknown_fields=True):
    """The content of a sweep file. A table may be a list, `[[check]]`, for several requests."""

    shards: Annotated[int, Meta(ge=1)] = 1
    results: str = "results"
    folder: str = ""
    """The folder of the shards; by default the file's name with the suffix .sweep."""
    slurm: dict[str, Any] = {}
    check: Tables = []
    bench: Tables = []


@dataclass(frozen=True)
class Part:
    """The command of one shard; `folder` is the folder of all shards of its request."""

    name: str
    folder: Path
    command: tuple[str, ...]

    @property
    def is_timed(self) -> bool:
        """Whether the part is a benchmark, which runs alone."""
        return self.name.startswith("bench")


def run(options: requests.Sweep) -> int:
    """Run the shards and merge them; 1 if a shard failed or was killed. UsageError for an invalid file."""
    table = read(options.file)
    parts = list(parts_of(table, str(options.file)))
    if options.dry_run:
        print(*(shlex.join(part.command) for part in parts), sep="\n")
        return 0
    statuses: Mapping[Part, int | str]
    results = Path(table.results)
    refuse_foreign_index(results)
    if options.launch == "slurm":
        statuses = _on_slurm(parts, Path(table.folder), options.jobs, table.slurm)
    else:
        statuses = _local(parts, options.jobs or os.cpu_count() or 1)
    stopped = [part for part in parts if statuses[part] not in (0, FAILED)]
    for part in stopped:
        print(f"{part.name} ended with exit status {statuses[part]}:\n  {shlex.join(part.command)}")
    incomplete = {part.folder for part in stopped}
    if complete := [folder for folder in dict.fromkeys(part.folder for part in parts) if folder not in incomplete]:
        merge(complete, results)
    if stopped:
        print(f"to run what is missing, repeat: attnsuite sweep {options.file} --launch {options.launch}")
    return FAILED if any(statuses.values()) else 0


def read(file: Path) -> SweepFile:
    """The content of a sweep file. UsageError for an unreadable file, an unknown key and a value of the wrong type."""
    try:
        with file_errors(file, "read"):
            table = toml.decode(read_bytes(file), type=SweepFile)
    except (MsgspecError, ValueError) as error:
        raise UsageError(f"{file} is no sweep file: {error}") from None
    if table.check == [] and table.bench == []:
        raise UsageError(f"{file} lists nothing to run: add a table [check] or [bench]")
    table.folder = table.folder or str(file.with_suffix(".sweep"))
    return table


def parts_of(table: SweepFile, file: str) -> Iterator[Part]:
    """A part for each request and shard. UsageError for options and targets that `check` or `bench` would refuse."""
    for command, request in COMMANDS.items():
        tables: Tables = getattr(table, command)
        for number, values in enumerate(tables if isinstance(tables, list) else [tables], 1):
            name = command if number == 1 else f"{command}-{number}"
            try:
                options = _options(values, request)
            except UsageError as error:
                raise UsageError(f"{file}: [{name}]: {error}") from None
            for index in range(1, table.shards + 1):
                shard, folder = Shard(index, table.shards), Path(table.folder) / name
                where = ("--shard", str(shard), "--results", str(folder))
                yield Part(f"{name} {shard}", folder, (sys.executable, "-m", "attnsuite", command, *options, *where))


def _options(values: Mapping[str, Any], request: type[requests.Check | requests.Bench]) -> list[str]:
    """The options of a table as words of a command line."""
    names = {field.name.rstrip("_"): field.name for field in fields(request) if field.name not in EXCLUDED}
    if unknown := [key for key in values if key not in names]:
        raise UsageError(f"unknown key {unknown[0]!r:.80}; valid keys: {', '.join(names)}")
    options = request(**arguments(request, {names[key]: value for key, value in values.items()}))
    declarations = chosen(options.targets, options.except_, options.contract, options.signature)
    refuse_broken(options.targets, declarations)
    return [*options.targets, *words(options, *(name for name in names.values() if name != "targets"))]


def _local(parts: Sequence[Part], at_once: int) -> dict[Part, int]:
    """The exit statuses of parts that run on this machine: those of check side by side, then those of bench."""
    statuses: dict[Part, int] = {}

    def ended(part: Part) -> None:
        statuses[part] = subprocess.call(part.command)
        print_hint(f"{part.name} ended; {len(statuses)} of {len(parts)} shards are done")

    for is_timed, processes in ((False, at_once), (True, 1)):
        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(ended, [part for part in parts if part.is_timed == is_timed]))
    return statuses


def _on_slurm(
    parts: Sequence[Part], folder: Path, at_once: int | None, options: Mapping[str, Any]
) -> dict[Part, int | str]:
    """The exit statuses of parts that run on a cluster; of a job that was killed, what submitit reports."""
    try:
        import submitit

        executor = submitit.SlurmExecutor(folder / "logs")
        executor.update_parameters(**{**SLURM, **({"array_parallelism": at_once} if at_once else {}), **options})
    except ImportError:
        raise UsageError("--launch slurm needs submitit: pip install 'attnsuite[slurm]'") from None
    except RuntimeError:
        raise UsageError("--launch slurm needs srun on the path; --launch local needs nothing") from None
    except (ValueError, TypeError, AssertionError) as error:
        raise UsageError(f"[slurm]: {error}") from None
    running: dict[Part, Any] = {}
    for is_timed in (False, True):
        if new := [part for part in parts if part.is_timed == is_timed]:
            executor.update_parameters(**({"exclusive": True} if is_timed and "exclusive" not in options else {}))
            running |= zip(new, executor.map_array(subprocess.call, [part.command for part in new]), strict=True)
    return {part: _status(job) for part, job in running.items()}


def _status(job: Any) -> int | str:
    try:
        status: int = job.result()
    except Exception as error:  # whatever submitit finds in place of a result
        return str(error).partition("\n")[0]
    return status
