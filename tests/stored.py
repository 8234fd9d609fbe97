"""What the tests of the store have in common: records, a folder in tmp_path, and processes that are killed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from builders import outcome as outcome
from msgspec.structs import replace

from attnsuite.model import EVERY_CASE, Facts, Machine, Measurement, Run
from attnsuite.results import MachineRecord, RunWriter, open_run, read_machine
from attnsuite.results.format import AnyRow

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux", ("NVIDIA H200",))
RUN = Run("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"torch": "2.13.0"}, "abc", {"attention/loops": "1a"}, "suite-1")
SECOND = replace(RUN, id="r2", suite="suite-2")
THIRD = replace(RUN, id="r3", suite="suite-3")


def measurement(
    workload: str = "ladder/1k", status: str = "measured", name: str = "attention/loops", **others: object
) -> Measurement:
    """What a workload took, in float32 on one thread of the CPU."""
    if status == "measured":
        others.setdefault("seconds", (0.25, 0.5))
    asked = {"dtype": "float32", "device": "cpu", "threads": 1, "direction": "forward", "cache": "hot", **others}
    return Measurement(name, "attention", workload, status=status, **asked)


MISSING = measurement(
    EVERY_CASE, "missing", detail="No module named 'jax'", dtype=EVERY_CASE, direction=EVERY_CASE, cache=EVERY_CASE
)


def folder(results: Path) -> Path:
    """The machine's folder."""
    return results / MACHINE.name


def run_folder(results: Path, run: Run = RUN) -> Path:
    """The folder of a run."""
    return folder(results) / run.id


def names(results: Path, run: Run = RUN) -> list[str]:
    """The files of a run."""
    return sorted(file.name for file in run_folder(results, run).iterdir())


def record(results: Path, run: Run, *rows: AnyRow, finish: bool = True, facts: Facts | None = None) -> RunWriter:
    """A run that writes these rows, and that is finished unless the test says otherwise."""
    with open_run(results, run) as writer:
        for row in rows:
            writer.write(row)
        if finish:
            writer.finish(facts)
    return writer


def read(results: Path) -> MachineRecord:
    """What is recorded of the machine."""
    return read_machine(results, MACHINE.name)


@contextmanager
def killed_at_the_end(results: Path, program: str) -> Iterator[None]:
    """A process that has run a program, which may have a writer open on the folder, and is killed at the end."""
    head = f"""
import os, sys, time
sys.path[:0] = {[str(Path(__file__).parent)]!r}
from stored import *
results = Path({str(results)!r})
"""
    command = [sys.executable, "-c", f"{head}{program}\nprint('ready', flush=True)\ntime.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield
        child.kill()
