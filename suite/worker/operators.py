"""The operators that a call runs, from PyTorch's profiler."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch.autograd.profiler import profile  # before a submission is imported, which may replace what it finds

from attnsuite.model.rows import ATTENTION

QUIET = "KINETO_LOG_LEVEL"
"""The variable that silences the profiler's lines on standard error."""


@contextmanager
def recorded(wanted: bool) -> Iterator[list[str]]:
    """The names, in alphabetical order, of the operators that the block has run, if `wanted`; complete at its end.

    Operators that others called and views of inputs do not count; attention operators always do.
    """
    names: list[str] = []
    if not wanted:
        yield names
        return
    earlier = os.environ.get(QUIET)
    os.environ[QUIET] = "99"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with profile() as seen:
                yield names
    finally:
        del os.environ[QUIET]
        os.environ.update({} if earlier is None else {QUIET: earlier})
    names += sorted(_outermost(seen.kineto_results.events() if seen.kineto_results else ()))


def _outermost(events: Iterable[Any]) -> set[str]:
    """The operators that no other operator called, and those of attention."""
    names: set[str] = set()
    until: dict[int, int] = {}  # the end of the operator that runs in a thread
    spans = sorted((event.start_ns(), -event.duration_ns(), event.start_thread_id(), event.name()) for event in events)
    for start, minus, thread, name in spans:
        if "::" not in name:  # a mark of the profiler or of the submission
            continue
        if start >= until.get(thread, 0):
            until[thread] = start - minus
            if not _is_view(name):
                names.add(name)
        elif ATTENTION in name:
            names.add(name)
    return names


@cache
def _is_view(name: str) -> bool:
    """Whether an operator returns a view of its input."""
    schemas = torch._C._jit_get_schemas_for_operator(name)
    returned = [alias.alias_info for schema in schemas for alias in schema.returns]
    return any(alias is not None and not alias.is_write for alias in returned)
