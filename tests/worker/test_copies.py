"""A copy of a process says what it is told to say, and ends with its maker, whatever ends that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import pytest
from processes import is_over

from attnsuite.worker import copies
from attnsuite.worker.copies import Copy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made by fork, on Linux alone")


UNNAMED = signal.SIGRTMIN + 1
"""A signal without a name."""


def waits(connection: Connection) -> None:
    connection.send(os.getpid())
    time.sleep(600)


def test_it_sends_what_it_finds_and_says_how_it_ended() -> None:
    copy = Copy.of(lambda connection: connection.send(os.getpid()))

    assert copy.connection.recv() == copy.process.pid != os.getpid()
    copy.process.join()
    assert copy.end() == "exit status 0"


@pytest.mark.parametrize(("number", "how"), [(signal.SIGUSR1, "SIGUSR1"), (UNNAMED, f"signal {UNNAMED}")])
def test_the_signal_that_ended_it_is_said_also_one_without_a_name(number: int, how: str) -> None:
    copy = Copy.of(lambda connection: os.kill(os.getpid(), number))
    copy.process.join()

    assert copy.end() == how


def test_one_that_is_ended_is_gone() -> None:
    copy = Copy.of(waits)
    process = copy.connection.recv()

    assert copy.end() == "SIGKILL"
    assert not psutil.pid_exists(process)


def test_ctrl_c_ends_it() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what was begun with & ignores it
    copy = Copy.of(waits)
    signal.signal(signal.SIGINT, before)
    copy.connection.recv()

    copy.interrupt()
    copy.process.join(60.0)

    assert copy.end() == "exit status 1"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_maker(number: signal.Signals) -> None:
    program = (
        "import time; from attnsuite.worker.copies import Copy; from test_copies import waits; copy = Copy.of(waits)\n"
        "print(copy.connection.recv(), flush=True); time.sleep(600)"
    )
    path = os.pathsep.join([*map(str, Path(__file__).parents[:2]), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    ) as maker:
        assert maker.stdout is not None
        copy = psutil.Process(int(maker.stdout.readline()))
        maker.send_signal(number)
        maker.wait()
        with suppress(psutil.NoSuchProcess):
            copy.wait(60)
    assert is_over(copy.pid)


def test_where_jax_is_no_copy_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", sys)

    assert not copies.possible()
    assert not copies.compute_gradients()


def test_where_there_is_a_gpu_no_copy_computes_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.delitem(sys.modules, "jax", raising=False)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)

    assert copies.possible()
    assert not copies.compute_gradients()
