"""Restores what an import or a call changes in the process, and captures what it prints."""

import ctypes
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, BinaryIO

PRINTED_LIMIT = 10_000
"""Characters of an import's output that are stored, from its end, where messages about failures are."""


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


class _Stream:
    """Replaces sys.stdout or sys.stderr. Afterwards it forwards what a log handler still writes to it."""

    def __init__(self, stream: Any, file: BinaryIO) -> None:
        self.stream = stream
        self.file: BinaryIO | None = file

    def write(self, text: str) -> int:
        if self.file is None:
            return int(self.stream.write(text))
        self.file.write(text.encode(errors="backslashreplace"))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        if self.file is None:
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def capture_output(divert: bool) -> Iterator[Callable[[], str]]:
    """Capture what Python and C libraries print, and yield a function that returns it after the block."""
    if not divert:
        yield lambda: ""
        return
    text = ""
    with tempfile.TemporaryFile(buffering=0) as file, ExitStack() as undo:
        for descriptor in (1, 2):
            with suppress(OSError):  # a daemon may have closed the stream
                saved = os.dup(descriptor)
                undo.callback(os.close, saved)
                undo.callback(os.dup2, saved, descriptor)
        streams = (sys.stdout, sys.stderr)
        for stream in streams:
            with suppress(AttributeError, OSError, ValueError):
                stream.flush()
        for descriptor in (1, 2):
            with suppress(OSError):
                os.dup2(file.fileno(), descriptor)
        replacements = [_Stream(stream, file) for stream in streams]
        _set_streams(*replacements)
        try:
            yield lambda: text
        finally:
            ctypes.CDLL(None).fflush(None)  # what C has in its buffers
            _set_streams(*streams)
            for stream in replacements:
                stream.file = None
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 4 * PRINTED_LIMIT))
            text = file.read().decode(errors="replace")[-PRINTED_LIMIT:]
