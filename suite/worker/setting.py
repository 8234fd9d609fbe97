"""What a call wants around it: threads and a default dtype of PyTorch's own, and an owner who writes to the output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from attnsuite.cases import Call
from attnsuite.cases.layouts import JUNK
from attnsuite.registry.loading import in_one_line


@contextmanager
def setting(call: Call) -> Iterator[None]:
    """What the call wants of PyTorch as a whole, forward and backward; restored afterwards."""
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    if call.threads is not None:
        torch.set_num_threads(call.threads)
    if call.default_dtype is not None:
        torch.set_default_dtype(getattr(torch, call.default_dtype))
    try:
        yield
    finally:
        if call.threads is not None:
            torch.set_num_threads(threads)
        if call.default_dtype is not None:
            torch.set_default_dtype(dtype)


def unwritable(output: Tensor) -> str:
    """Write to the output, as its owner may: what is raised then, as where numbers share a place, or empty."""
    try:
        output.mul_(0).add_(JUNK)
    except RuntimeError as error:
        return f"the output cannot be written to: {in_one_line(error)}"
    return ""
