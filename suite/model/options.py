"""Checks of options that need no other module, so that a wrong option is refused before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attnsuite.model.limits import MAX_JOBS, MAX_PROCESSES
from attnsuite.model.words import CACHES, DTYPES, UsageError

COMBINED = ("quick", "full")
"""How features are combined: every pair of levels, or every triple of factors that kernels fuse."""
MAX_SEED = 2**64 - 1
"""The largest seed of `torch.manual_seed`: 64 bits."""
MAX_SHORT_SEED = 2**32 - 1
"""The largest seed of numpy: 32 bits."""


def check_dtypes(dtypes: Iterable[str]) -> None:
    """Raise UsageError for an unknown dtype."""
    if unknown := [dtype for dtype in dtypes if dtype not in DTYPES]:
        raise UsageError(f"unknown dtype {unknown[0]!r}; there are: {', '.join(DTYPES)}")


def check_name_of_device(device: str) -> None:
    """Raise UsageError for a name that no device has on any machine."""
    if not re.fullmatch(r"cpu(:0)?|cuda(:\d+)?", device):
        raise UsageError(f"unknown device {device!r}; there are: cpu, cuda, cuda:N")


def check_profile(profile: str, profiles: Sequence[str]) -> None:
    """Raise UsageError for an unknown profile."""
    if profile not in profiles:
        raise UsageError(f"unknown profile {profile!r}; there are: {', '.join(profiles)}")


def check_cache(cache: str | None) -> None:
    """Raise UsageError for an unknown state of the cache."""
    if cache not in (None, *CACHES):
        raise UsageError(f"the cache is {cache!r}; expected {' or '.join(CACHES)}")


def check_seconds(what: str, number: float, below: float | None = None) -> None:
    """Raise UsageError for a time of 0 or less, and for one that is not `below` another."""
    if not number > 0 or (below is not None and number >= below):
        raise UsageError(f"the {what} is {number:g}; expected a number of seconds above 0")


def check_seed(seed: int) -> None:
    """Raise UsageError for a seed that torch does not accept."""
    if not 0 <= seed <= MAX_SEED:
        raise UsageError(f"the seed is {seed}; expected 0 to {MAX_SEED}")


def check_processes(processes: int) -> None:
    """Raise UsageError for a number of processes of an implementation that no benchmark times."""
    if not 1 <= processes <= MAX_PROCESSES:
        raise UsageError(f"the number of processes is {processes}; expected 1 to {MAX_PROCESSES}")


def check_short_seed(seed: int) -> None:
    """Raise UsageError for a seed that numpy does not accept."""
    if not 0 <= seed <= MAX_SHORT_SEED:
        raise UsageError(f"--seed is {seed}; expected 0 to {MAX_SHORT_SEED}")


def check_jobs(jobs: int) -> None:
    """Raise UsageError for less than one process, and for more than MAX_JOBS."""
    if not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"--jobs is {jobs}; expected 1 to {MAX_JOBS} processes")
