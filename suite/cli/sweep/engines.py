"""What starts the commands of a sweep: submitit, on this machine or on a Slurm cluster."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from attnsuite.cli.sweep.command import ShardCommand
from attnsuite.cli.sweep.tied import __file__ as TIED
from attnsuite.model import UsageError, temporary
from attnsuite.results.store import replace_file
from attnsuite.worker.sandbox.ends import said_of

ENGINES = ("local", "slurm")
FOREVER = 10 * 365 * 24 * 60
"""Minutes after which submitit would end a process on this machine: never; a command has limits of its own."""
SLURM_MINUTES = 60
"""What a shard may take on a cluster where the file does not say: submitit's own 5 minutes are few for a check."""
ARRAY = 256
"""Shards that Slurm runs at once where the command line does not say, as in submitit."""
LOOK = 60.0
"""Seconds between two questions to Slurm what became of a job that has not said so itself."""
LAST = 2000
"""Bytes at the end of a job's log in which its last words are looked for."""


@dataclass
class Started:
    """A command that was started, and submitit's job."""

    command: ShardCommand
    job: Any
    pipe: int | None = None
    looked: float = field(default_factory=time.monotonic)


class Engine(Protocol):
    """What starts commands and says when they are over."""

    def ready(self, waiting: Sequence[ShardCommand], running: Sequence[Started]) -> list[ShardCommand]:
        """Those that may be started now."""

    def start(self, commands: Sequence[ShardCommand]) -> list[Started]:
        """Start these."""

    def is_over(self, started: Started) -> bool:
        """Whether one has ended, however."""


class Local:
    """Processes on this machine, so many at once; one that times anything has it for itself, if it is to be `alone`."""

    def __init__(self, logs: Path, most: int, alone: bool) -> None:
        executor = submitit().LocalExecutor(logs, python=shlex.join([sys.executable, "-P", TIED, "-", sys.executable]))
        executor.update_parameters(timeout_min=FOREVER)
        self._executor, self._most, self._alone = executor, most, alone
        self._pipes = temporary.make("sweep-")
        weakref.finalize(self, temporary.remove, self._pipes)

    def ready(self, waiting: Sequence[ShardCommand], running: Sequence[Started]) -> list[ShardCommand]:
        if self._alone and any(started.command.is_timed for started in running):
            return []
        beside = [each for each in waiting if not (self._alone and each.is_timed)]
        if beside or running:
            return beside[: max(self._most - len(running), 0)]
        return list(waiting[:1])

    def start(self, commands: Sequence[ShardCommand]) -> list[Started]:
        return [self._start(each) for each in commands]

    def _start(self, command: ShardCommand) -> Started:
        """The pipe is this process's alone: when it ends, the system closes it, and the command ends as well."""
        path = self._pipes / f"{command.name}-{command.shard.folder}"
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        pipe = os.open(path, os.O_RDWR)
        words = [*_seen_gpus(), sys.executable, "-P", TIED, str(path), *command.line]
        return Started(command, self._executor.submit(subprocess.call, words, cwd=Path.cwd()), pipe)

    def is_over(self, started: Started) -> bool:
        if not started.job.done():
            return False
        if started.pipe is not None:
            os.close(started.pipe)
            started.pipe = None
        return True


class Slurm:
    """Arrays of jobs on a cluster. They go on when the launcher ends; the next launcher waits for them."""

    def __init__(self, logs: Path, most: int | None, alone: bool, options: Mapping[str, Any]) -> None:
        self._folder, self._logs, self._alone = logs.parent, logs, alone
        self._options = {"time": SLURM_MINUTES, "array_parallelism": most or ARRAY, "job_name": "attnsuite", **options}
        self._submitted: dict[str, tuple[str, str]] = _read(self._noted)
        self._executor({})  # refuses now what it would refuse later

    @property
    def _noted(self) -> Path:
        return self._folder / "submitted.json"

    def ready(self, waiting: Sequence[ShardCommand], running: Sequence[Started]) -> list[ShardCommand]:
        return list(waiting)

    def start(self, commands: Sequence[ShardCommand]) -> list[Started]:
        """Start these, in arrays of those that need the same; those that are on the cluster still are waited for."""
        found = [Started(each, job) for each in commands if (job := self._still(each)) is not None]
        there = [started.command for started in found]
        for timed in (False, True):
            found += self._submit([each for each in commands if each not in there and each.is_timed == timed], timed)
        return found

    def _submit(self, commands: Sequence[ShardCommand], timed: bool) -> list[Started]:
        if not commands:
            return []
        executor = self._executor({"exclusive": True} if timed and self._alone else {})
        try:
            jobs = executor.map_array(subprocess.call, [each.line for each in commands])
        except (RuntimeError, OSError) as error:  # submitit's own are RuntimeErrors
            raise UsageError(f"Slurm took no job: {error}") from None
        for command, job in zip(commands, jobs, strict=True):
            self._submitted[str(command.results)] = str(self._logs), job.job_id
        replace_file(self._noted, json.dumps(self._submitted, indent=1) + "\n")
        return [Started(command, job) for command, job in zip(commands, jobs, strict=True)]

    def _executor(self, more: Mapping[str, Any]) -> Any:
        try:
            executor = submitit().SlurmExecutor(self._logs)
            executor.update_parameters(**{**more, **self._options})
        except RuntimeError:
            raise UsageError(
                "there is no Slurm here: no srun is on the path; --launch local starts processes"
            ) from None
        except (ValueError, TypeError) as error:
            raise UsageError(f"[slurm]: {error}") from None
        return executor

    def _still(self, command: ShardCommand) -> Any | None:
        """The job that an earlier launcher submitted for this, if it waits or runs still."""
        logs, identity = self._submitted.pop(str(command.results), ("", ""))
        if not identity:
            return None
        job = submitit().SlurmJob(logs, identity)
        return None if job.done(force_check=True) or job.state == "UNKNOWN" else job

    def is_over(self, started: Started) -> bool:
        look = time.monotonic() - started.looked > LOOK
        started.looked = time.monotonic() if look else started.looked
        return bool(started.job.done(force_check=look))


def submitit() -> Any:
    """The library. UsageError where it is not installed."""
    try:
        import submitit as library
    except ImportError:
        raise UsageError("`sweep` starts processes with submitit: pip install 'attnsuite[slurm]'") from None
    return library


def refuse_options(options: Mapping[str, Any]) -> None:
    """UsageError for options of Slurm that there are none of: which, and what there is."""
    known = submitit().SlurmExecutor._valid_parameters()
    if unknown := [key for key in options if key not in known]:
        raise UsageError(f"[slurm]: unknown key {', '.join(map(repr, unknown))}; there are: {', '.join(sorted(known))}")


def ended(started: Started) -> str:
    """How a command ended, in words: its exit status, or that it was killed; and its last words."""
    if not started.job.paths.result_pickle.exists():
        return f"its process was killed{_last_words(started)}"
    try:
        status = started.job.result()
    except Exception as error:  # whatever submitit found in place of an answer
        return f"it could not be started: {str(error).strip().splitlines()[-1]:.200}"
    return ("killed by " if status < 0 else "") + said_of(status) + _last_words(started)


def _last_words(started: Started) -> str:
    """The last line that the suite itself said to standard error."""
    with suppress(OSError):
        lines = Path(started.job.paths.stderr).read_bytes()[-LAST:].decode(errors="replace").splitlines()
        said = [line for line in lines if line.startswith("attnsuite: ")]
        return f", {said[-1]:.300}" if said else ""
    return ""


def _seen_gpus() -> list[str]:
    """What gives a command the GPUs that this process sees: submitit would hide them."""
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    return ["env", "-u", "CUDA_VISIBLE_DEVICES"] if seen is None else ["env", f"CUDA_VISIBLE_DEVICES={seen}"]


def _read(path: Path) -> dict[str, tuple[str, str]]:
    """The jobs that were submitted, by the folder of their shard; what cannot be read is submitted again."""
    with suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): (str(logs), str(identity)) for key, (logs, identity) in found.items()}
    return {}
