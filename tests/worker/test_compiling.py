"""A submission that compiles has a longer time limit, and a function that hangs has not."""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from workers import LIMIT, answered, call

from attnsuite.worker.compiling import MODULES, announce, may_compile
from attnsuite.worker.worker import Ready, Timeout, Worker

Write = Callable[[str, str], Path]
HAS_A_COMPILER = 'import sys, time, types\nsys.modules["numba"] = types.ModuleType("numba")  # the name alone counts\n'
SLOW = """
def attention(query, key, value, *, mode=0):
    time.sleep(0.6)
    return value.clone()
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/comm").exists(), reason="this system shows no names of threads")


def test_a_call_may_take_as_long_as_a_compiler_may(write: Write) -> None:
    with Worker(str(write("kernel.py", HAS_A_COMPILER + SLOW)), time_limit=0.2, compile_limit=LIMIT) as worker:
        assert isinstance(worker.ready(), Ready)
        time.sleep(1.2)  # it has then said that a compiler is loaded

        answered(worker.run_calls([call()]))

    with Worker(str(write("kernel.py", "import time\n" + SLOW)), time_limit=0.2, compile_limit=LIMIT) as worker:
        assert worker.run_calls([call()]) == Timeout(0.2)


def test_what_hangs_with_a_compiler_loaded_is_ended_at_the_compiler_s_limit(write: Write) -> None:
    text = f"{HAS_A_COMPILER}def attention(query, key, value, *, mode=0): time.sleep(600)"
    with Worker(str(write("kernel.py", text)), time_limit=1.5, compile_limit=2) as worker:
        hung = worker.run_calls([call()])

    assert str(hung) == "timeout: no result within 2 s (compiling); --time-limit 4 allows more"


@pytest.mark.slow
def test_an_import_may_take_as_long_as_a_compiler_may(write: Write) -> None:
    text = f"{HAS_A_COMPILER}time.sleep(6)\ndef attention(query, key, value, *, mode=0): return value.clone()"
    with Worker(str(write("kernel.py", text)), start_limit=4, compile_limit=LIMIT) as worker:
        answered(worker.run_calls([call()]))


@pytest.mark.slow
def test_torch_compile_is_waited_for(write: Write) -> None:
    text = (
        "import torch\n@torch.compile\ndef attention(query, key, value, *, mode=0): return torch.softmax(value, -1) + 1"
    )
    with Worker(str(write("kernel.py", text)), time_limit=1, compile_limit=600) as worker:
        (reply,) = answered(worker.run_calls([call()]))

    assert reply.output is not None, reply.error


def test_a_module_that_compiles_is_announced_once_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def watch() -> None:
        for name in ("json", "jax"):
            monkeypatch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))
            announce()
            seen.append(may_compile(os.getpid()))

    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    thread = threading.Thread(target=watch)
    thread.start()
    thread.join()

    assert seen == [False, True]
