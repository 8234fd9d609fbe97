"""Settings of glibc for freed memory: keep it, or return it to the system. No effect with other C libraries."""

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Options of glibc's mallopt: the bytes kept at the end of the heap, and the size from which an allocation gets its
own mapping."""
MOST_KEPT, LARGEST_THRESHOLD, RETURNED = 2**30, 2**25, 2**16
"""Bytes: kept memory at most, the largest MMAP_THRESHOLD that glibc accepts, and the size from which blocks are
returned in `return_freed_memory`."""

KEEPS = {"MALLOC_MMAP_THRESHOLD_": str(LARGEST_THRESHOLD), "MALLOC_TRIM_THRESHOLD_": str(MOST_KEPT)}
"""The environment of a process that keeps freed memory from its start."""


def keep_freed_memory() -> None:
    """Keep freed memory for later allocations, up to a gigabyte."""
    _adjust(LARGEST_THRESHOLD, MOST_KEPT)


def return_freed_memory() -> None:
    """Return freed blocks of 64 KiB and more to the system, including earlier ones."""
    _adjust(RETURNED, RETURNED)
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _adjust(mmap_threshold: int, trim_threshold: int) -> None:
    with suppress(AttributeError, OSError):  # another library than glibc
        adjust = ctypes.CDLL(None).mallopt
        adjust(MMAP_THRESHOLD, mmap_threshold)
        adjust(TRIM_THRESHOLD, trim_threshold)
