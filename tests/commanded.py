"""The command line in its own process, for tests of several commands."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import attnsuite

Write = Callable[[str, str], Path]
Run = Callable[..., subprocess.CompletedProcess[str]]


class Result(NamedTuple):
    """The output and exit status of a command."""

    status: object
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of `--json -`."""
        return [json.loads(line) for line in self.lines]


Cli = Callable[..., Result]

HOME = str(Path(attnsuite.__file__).parent.parent)
SUBMISSIONS = Path(__file__).parent / "submissions"
RIGHT = "def attention(query, key, value):\n    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value\n"
"""An attention without options, and with nothing wrong."""
KERNEL = """
def attention(query, key, value, *, is_causal=False, scale=None):
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ key.mT * scale
    if is_causal:
        scores = scores.masked_fill(scores.new_ones(scores.shape[-2:]).tril() == 0, float("-inf"))
    return scores.softmax(-1) @ value
"""
"""An attention with two options, and with nothing wrong."""
KERNELS = (SUBMISSIONS / "right_and_unscaled.py").read_text(encoding="utf-8")
WITHOUT_TORCH = (SUBMISSIONS / "without_torch.py").read_text(encoding="utf-8")


def environment(*path: Path | str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, HOME)))}


def outcomes_in(file: Path) -> list[tuple[Any, Any]]:
    """The case and the status of each row that `--json FILE` wrote."""
    return [(row["case"], row["status"]) for row in rows(file.read_text())]


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def start(command: list[str], **options: Any) -> subprocess.Popen[str]:
    """Start a command in a group of its own, so that a signal reaches all its processes and no others.

    It is not started with interrupts ignored, as the tests are where they run in the background of a shell.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, text=True, process_group=0, **options)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_lines(file: Path, count: int, child: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if file.exists() and file.read_bytes().count(b"\n") >= count:
            return
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)
    raise AssertionError(f"{file} did not come")
