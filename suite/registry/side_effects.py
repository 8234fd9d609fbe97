"""Restores what an import or a call changes in the process, and discards what it prints."""

import ctypes
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def preserve_process_state(*, seeds: bool = True) -> Iterator[None]:
    """Restore folder, path, streams, torch's defaults and thread count after the block; with `seeds` random states."""
    import numpy as np
    import torch

    from attnsuite.judging import float32

    states: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_default_device, _set_default_device),
        (torch.get_num_threads, torch.set_num_threads),
        (torch.is_grad_enabled, torch.set_grad_enabled),
        (float32.precision, float32.restore),
        (_determinism, lambda modes: torch.use_deterministic_algorithms(modes[0], warn_only=modes[1])),
        (lambda: (sys.stdout, sys.stderr), lambda streams: _set_streams(*streams)),
        (lambda: list(sys.path), lambda path: sys.path.__setitem__(slice(None), path)),
        (_folder, _set_folder),
    ]
    before = [get() for get, _ in states]
    with ExitStack() as seeded:
        if seeds:
            seeded.callback(torch.set_rng_state, torch.get_rng_state())
            seeded.callback(random.setstate, random.getstate())
            seeded.callback(np.random.set_state, np.random.get_state())  # noqa: NPY002  a submission may seed the global one
        try:
            yield
        finally:
            for (get, put), value in zip(states, before, strict=True):
                if get() != value:
                    put(value)


def _determinism() -> tuple[bool, bool]:
    import torch

    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109  called twice for each test
    except OSError:  # it was deleted
        return None


def _set_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _set_default_device(device: Any) -> None:
    import torch

    torch.set_default_device(None if device == torch.device("cpu") else device)


def _set_streams(stdout: Any, stderr: Any) -> None:
    sys.stdout, sys.stderr = stdout, stderr


@contextmanager
def silence() -> Iterator[None]:
    """Discard what Python and C libraries print within the block."""
    _flush()
    with Path(os.devnull).open("wb") as nothing, ExitStack() as undo:
        for descriptor in (1, 2):
            with suppress(OSError):  # a daemon may have closed the stream
                saved = os.dup(descriptor)
                undo.callback(os.close, saved)
                undo.callback(os.dup2, saved, descriptor)
                os.dup2(nothing.fileno(), descriptor)
        undo.callback(_flush)
        yield


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    ctypes.CDLL(None).fflush(None)  # what C has in its buffers
