"""PyTorch's pool of threads kept out of the suite's own work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Have PyTorch compute on this thread alone meanwhile.

    Its threads spin for some 5 ms after each task, in the way of other pools. When PyTorch's pool copied their results,
    calls of an onnxruntime session on both of two cores took 8 ms each instead of 0.6 ms.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
