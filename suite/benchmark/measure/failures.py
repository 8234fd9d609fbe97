"""What a function raises while it is measured, or does to its process, becomes the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from attnsuite.benchmark.measure.clock import Escaped
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.model import Status
from attnsuite.registry.loading import in_one_line

Result = TypeVar("Result")

_OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "bad allocation"),
    *("resource_exhausted", "unable to allocate"),
)
"""How libraries say, in small letters, that there is not enough memory."""


class Dishonest(Exception):
    """The function's times would say nothing about what it computes; the message says why."""


def attempt(act: Callable[[], Result], threads: int, *, alone: bool) -> Result | NoResult:
    """What `act` returns, or why it failed. It may not change PyTorch's threads, which are `threads` where that is not
    0, nor its default dtype; what it changed is put back.

    A KeyboardInterrupt is the user's and passes through, except where the function is `alone` in its process.
    """
    default, failed = torch.get_default_dtype(), None
    try:
        result = act()
    except BaseException as error:  # whatever a submission raises is its answer
        if isinstance(error, KeyboardInterrupt) and not alone:
            raise
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
    if isinstance(error, Escaped | Dishonest):
        return NoResult(Status.REFUSED, str(error))
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or says_out_of_memory(text):
        return NoResult(Status.OUT_OF_MEMORY, text)
    return NoResult(Status.ERROR, text)


def says_out_of_memory(text: str) -> bool:
    """Whether a library says so that there was not enough memory."""
    return any(words in text.lower() for words in _OUT_OF_MEMORY)


def changed_threads(threads: int) -> NoResult | None:
    """The refusal of a function after which PyTorch has another number of threads; None for 0, any number."""
    now = torch.get_num_threads()
    if threads in (0, now):
        return None
    return NoResult(Status.REFUSED, f"it changed the number of threads from {threads} to {now}")


def set_threads(threads: int) -> None:
    """Give PyTorch this number of threads, where it is not 0."""
    if threads not in (0, torch.get_num_threads()):  # setting the number that it has would start threads
        torch.set_num_threads(threads)
