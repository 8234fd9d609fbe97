"""A command that is tied to whom it was started for ends with it, however that ends; others go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import is_over

from attnsuite.cli.sweep.tied import __file__ as tied

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with another")
SLEEP = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, {tied!r}, "-", sys.executable, "-c", {SLEEP!r}])
"""


def gone(process: int) -> bool:
    """Whether a process ends; it waits for as long as a busy machine may take."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if is_over(process):
            return True
        time.sleep(0.02)
    return False


def started(*words: str) -> tuple[subprocess.Popen[str], int]:
    """A process, and the number that it or its child prints first."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_command_is_killed_when_its_parent_is() -> None:
    parent, child = started("-c", PARENT)

    parent.kill()
    parent.communicate()

    assert gone(child)


def test_a_command_and_its_children_are_killed_when_nobody_holds_the_pipe(tmp_path: Path) -> None:
    family = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"
    pipes = []
    for name in ("one", "other"):
        os.mkfifo(tmp_path / name)
        pipes.append(os.open(tmp_path / name, os.O_RDWR))
    one, child = started(tied, str(tmp_path / "one"), sys.executable, "-c", family)
    other, living = started(tied, str(tmp_path / "other"), sys.executable, "-c", family)

    os.close(pipes[0])
    try:
        assert one.wait(60) == -signal.SIGKILL
        assert gone(child)
        assert other.poll() is None, "a pipe is of one command alone"
    finally:
        os.close(pipes[1])
        for process in (one, other):
            process.communicate(timeout=60)
    assert gone(living)


def test_a_command_does_not_begin_when_the_pipe_is_closed_already(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    done = subprocess.run(
        [sys.executable, tied, str(tmp_path / "pipe"), sys.executable, "-c", "print('begun')"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (1, "") or done.returncode == -signal.SIGKILL
