"""Failures of a measured function: its exceptions, and its changes to the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from attnsuite.benchmark.measure.clock import EscapedWork
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.model import Status
from attnsuite.registry.loading import in_one_line

Result = TypeVar("Result")

_OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "bad allocation"),
    *("resource_exhausted", "unable to allocate", "status_alloc_failed"),
)
"""Libraries' words for too little memory, in lower case."""


class DishonestTiming(Exception):
    """The function's times would not be those of its computation; the message says why."""


def attempt(act: Callable[[], Result], threads: int) -> Result | NoResult:
    """The result of `act`, or why it failed. It may change neither PyTorch's default dtype nor its number of threads,
    which is `threads` unless that is 0; changes are undone.
    """
    default, failed = torch.get_default_dtype(), None
    try:
        result = act()
    except BaseException as error:  # any exception of a submission is its result; Ctrl-C does not reach its process
        failed = failure(error)
    if changed := changed_threads(threads):
        failed = changed
        set_threads(threads)
    if torch.get_default_dtype() != default:
        failed = NoResult(Status.REFUSED, f"it changed the default dtype to {torch.get_default_dtype()}")
        torch.set_default_dtype(default)
    return result if failed is None else failed


def failure(error: BaseException) -> NoResult:
    """The failure of a call that raised."""
    text = in_one_line(error)
    if isinstance(error, NotImplementedError):
        return NoResult(Status.UNSUPPORTED, text.partition(": ")[2] or "NotImplementedError without a reason")
    if isinstance(error, EscapedWork | DishonestTiming):
        return NoResult(Status.REFUSED, str(error))
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or is_out_of_memory(text):
        return NoResult(Status.OUT_OF_MEMORY, text)
    return NoResult(Status.ERROR, text)


def is_out_of_memory(text: str) -> bool:
    """Whether this is a library's message about too little memory."""
    return any(words in text.lower() for words in _OUT_OF_MEMORY)


def changed_threads(threads: int) -> NoResult | None:
    """The refusal of a function that changed PyTorch's number of threads, or None; 0 allows any number."""
    now = torch.get_num_threads()
    if threads in (0, now):
        return None
    return NoResult(Status.REFUSED, f"it changed the number of threads from {threads} to {now}")


def set_threads(threads: int) -> None:
    """Give PyTorch this number of threads, unless it is 0."""
    if threads not in (0, torch.get_num_threads()):  # setting the present number would start threads
        torch.set_num_threads(threads)
