"""What tests of workers and of what is measured share: submissions as files, calls, and what is left of processes."""

import os
import re
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest
import torch
from torch import Tensor

from attnsuite.cases import Call, Reply
from attnsuite.worker.worker import Ready, Worker

HERE = Path(__file__).parent
SUBMISSIONS = HERE / "submissions"
"""Implementations for tests, each with a description."""
PROGRAMS = HERE / "programs"
"""Scripts that tests run in processes of their own."""
LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="this system does not report its memory")
"""For tests of facts that only Linux reports."""
MISBEHAVES, TELLS = str(SUBMISSIONS / "misbehaves.py"), str(SUBMISSIONS / "tells.py")

LIMIT = 60.0
"""Seconds for a reply: the machine of the tests may be busy."""


def call(mode: str = "", value: Tensor | None = None, **more: Any) -> Call:
    """A call of the submission `misbehaves.py`."""
    query = torch.arange(24.0).reshape(2, 3, 4)
    options = more.pop("options", {}) | {"mode": mode}
    return Call({"query": query, "key": query + 1, "value": query + 2 if value is None else value}, options, **more)


def findings(worker: Worker, mode: str, place: object = "", process: int = 0) -> Any:
    """What the submission `misbehaves.py` found out in this mode."""
    raised = answered(worker.run_calls([call(mode, options={"place": str(place), "process": process})]))[0].error
    assert raised.startswith("RuntimeError: "), raised
    return literal_eval(without_place(raised).removeprefix("RuntimeError: "))


def without_place(error: str) -> str:
    """The text of an error without ` (misbehaves.py, line 37)`."""
    return re.sub(r" \(\w+\.py, line \d+\)$", "", error)


def answered(answer: object) -> tuple[Reply, ...]:
    """The replies, where there are any."""
    assert isinstance(answer, tuple), answer
    return answer


def told(worker: Worker, of: str) -> str:
    """What the submission `tells.py` says of its process."""
    tensors = {name: torch.ones(1) for name in ("query", "key", "value")}
    return without_place(answered(worker.run_calls([Call(tensors, {"of": of})]))[0].error)


def parent_of(worker: Worker) -> int:
    """The process that the worker was started by."""
    assert isinstance(worker.ready(), Ready)
    return psutil.Process(worker.pid).ppid()


def gone(pid: int) -> bool:
    """Whether the process ends within some seconds, with all of its threads; a zombie counts as ended."""
    for _ in range(200):
        try:
            state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if state == "Z" and int(numbers[16]) <= 1:
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def same(one: Tensor | None, other: Tensor | None) -> bool:
    """Every bit, and the layout."""
    if one is None or other is None:
        return one is other
    layouts = [(t.dtype, t.shape, t.stride(), t.storage_offset(), t.untyped_storage().nbytes()) for t in (one, other)]
    return layouts[0] == layouts[1] and bytes(one.untyped_storage()) == bytes(other.untyped_storage())  # type: ignore[call-overload]


def descriptors() -> set[str]:
    """The file descriptors that are open in this process."""
    return set(os.listdir("/proc/self/fd"))  # noqa: PTH208  names, not paths


def run_program(name: str, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a file of tests/programs/, which can import the suite and this module."""
    path = os.pathsep.join(map(str, (HERE, HERE.parent)))
    return subprocess.Popen(
        [sys.executable, PROGRAMS / name, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {}), "PYTHONPATH": path},
    )
