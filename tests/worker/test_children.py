"""Processes that a tested file starts import its functions by name, as those of a module do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from workers import LIMIT, answered, call

from attnsuite.cli.check import run as check
from attnsuite.cli.requests import Check
from attnsuite.worker import Worker

Write = Callable[[str, str], Path]

ATTENDS = """
import torch

def row(query, key, value):
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""
SPAWNS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

def attention(query, key, value):
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return torch.from_numpy(pool.submit(in_numpy, *(each.numpy() for each in (query, key, value))).result())

def in_numpy(*arrays):
    return row(*map(torch.from_numpy, arrays)).numpy()
"""
LOKY = """
from joblib import Parallel, delayed

def attention(query, key, value):
    arrays = [each.numpy() for each in (query, key, value)]
    return torch.from_numpy(Parallel(n_jobs=2, backend="loky")(delayed(in_numpy)(*arrays) for _ in range(2))[0])

def in_numpy(*arrays):
    return row(*map(torch.from_numpy, arrays)).numpy()
"""


@pytest.mark.parametrize("name", ["kernel.py", "my.kernel.py"])
def test_a_spawned_process_imports_the_file(write: Write, name: str) -> None:
    text = """
        from multiprocessing import get_context
        from helper import twice

        def worked(number, connection):
            connection.send((twice(number), worked.__module__, __file__))

        def attention(query, key, value, *, mode=0):
            context = get_context("spawn")
            ours, theirs = context.Pipe()
            process = context.Process(target=worked, args=(21, theirs))
            process.start()
            theirs.close()
            raise ValueError(ours.recv())
        """
    write("helper.py", "def twice(number): return 2 * number")
    file = write(name, text)
    with Worker(str(file), time_limit=LIMIT, sandboxed=True) as worker:
        (reply,) = answered(worker.run_calls([call()]))

    stem = name.removesuffix(".py").replace(".", "_")
    assert reply.error.startswith("ValueError: (42, 'attnsuite_file_")
    assert reply.error.endswith(f"_{stem}', {str(file)!r})")


@pytest.mark.slow
@pytest.mark.parametrize(("starts", "library"), [(SPAWNS, "multiprocessing"), (LOKY, "joblib")])
def test_attention_in_other_processes_passes(write: Write, starts: str, library: str) -> None:
    pytest.importorskip(library)
    file = write("kernel.py", ATTENDS + starts)

    assert check(Check((str(file),), cases=("plain/small", "plain/one_head"), dtypes=("float32",))) == 0
