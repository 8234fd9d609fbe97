"""What glibc does with memory that is freed: keep it, or give it back. Elsewhere nothing changes."""

from __future__ import annotations

import ctypes
from contextlib import suppress

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Options of glibc's mallopt: the bytes at the end of its memory that it keeps, and the size from which on an
allocation has memory of its own."""
MOST_KEPT, LARGEST_THRESHOLD, RETURNED = 2**30, 2**25, 2**16
"""Bytes that are kept at most, the largest size that glibc takes for MMAP_THRESHOLD, and the size from which on
blocks are given back where freed memory is."""

KEEPS = {"MALLOC_MMAP_THRESHOLD_": str(LARGEST_THRESHOLD), "MALLOC_TRIM_THRESHOLD_": str(MOST_KEPT)}
"""The environment of a process that keeps freed memory from its start."""


def keep_freed_memory() -> None:
    """Keep what is freed for what is allocated next, up to a gigabyte."""
    _adjust(LARGEST_THRESHOLD, MOST_KEPT)


def return_freed_memory() -> None:
    """Give freed blocks of 64 KiB and more back to the system, those freed before as well, and take them anew."""
    _adjust(RETURNED, RETURNED)
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _adjust(mmap_threshold: int, trim_threshold: int) -> None:
    with suppress(AttributeError, OSError):  # another library than glibc
        adjust = ctypes.CDLL(None).mallopt
        adjust(MMAP_THRESHOLD, mmap_threshold)
        adjust(TRIM_THRESHOLD, trim_threshold)
