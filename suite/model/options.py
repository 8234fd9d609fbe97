"""What options may be: held against nothing but themselves, so that a wrong one is refused before torch is imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attnsuite.model.limits import MAX_JOBS, MAX_PROCESSES
from attnsuite.model.words import CACHES, DTYPES, UsageError

COMBINED = ("quick", "full")
"""How features are combined: every pair of levels meets, or every triple of the factors that kernels fuse."""
LARGEST_SEED = 2**64 - 1
"""64 bits, as of `torch.manual_seed`."""
SHORT_SEEDS = 2**32
"""How many seeds there are of 32 bits, which numpy takes, too."""


def check_dtypes(dtypes: Iterable[str]) -> None:
    """Raise UsageError for a dtype in which nothing is asked."""
    if unknown := [dtype for dtype in dtypes if dtype not in DTYPES]:
        raise UsageError(f"unknown dtype {unknown[0]!r}; there are: {', '.join(DTYPES)}")


def check_name_of_device(device: str) -> None:
    """Raise UsageError for what is no device on any machine."""
    if not re.fullmatch(r"cpu(:0)?|cuda(:\d+)?", device):
        raise UsageError(f"unknown device {device!r}; there are: cpu, cuda, cuda:N")


def check_profile(profile: str, profiles: Sequence[str]) -> None:
    """Raise UsageError for a profile that is none of these."""
    if profile not in profiles:
        raise UsageError(f"unknown profile {profile!r}; there are: {', '.join(profiles)}")


def check_cache(cache: str | None) -> None:
    """Raise UsageError for a cache that is in none of the states in which calls are timed."""
    if cache not in (None, *CACHES):
        raise UsageError(f"the cache is {' or '.join(CACHES)}, not {cache!r}")


def check_seconds(what: str, number: float, below: float | None = None) -> None:
    """Raise UsageError for no time at all, and for one that is not `below` another."""
    if not number > 0 or (below is not None and number >= below):
        raise UsageError(f"the {what} is a number of seconds above 0, not {number:g}")


def check_seed(seed: int) -> None:
    """Raise UsageError for what no numbers can be drawn from."""
    if seed < 0:
        raise UsageError(f"a seed is a whole number of at least 0, not {seed}")
    if seed > LARGEST_SEED:
        raise UsageError(f"a seed is a whole number of at most {LARGEST_SEED}, not {seed}")


def check_processes(processes: int) -> None:
    """Raise UsageError for as many processes of an implementation as no benchmark times."""
    if not 1 <= processes <= MAX_PROCESSES:
        raise UsageError(f"the number of processes is 1 to {MAX_PROCESSES}, not {processes}")


def check_short_seed(seed: int) -> None:
    """Raise UsageError for a seed that numpy would not take."""
    if not 0 <= seed < SHORT_SEEDS:
        raise UsageError(f"--seed should lie between 0 and {SHORT_SEEDS - 1}, not be {seed}")


def check_jobs(jobs: int) -> None:
    """Raise UsageError for less than one process, and for more than a machine can have."""
    if jobs < 1:
        raise UsageError(f"--jobs is a number of processes, 1 or more, not {jobs}")
    if jobs > MAX_JOBS:
        raise UsageError(f"--jobs is a number of processes, {MAX_JOBS} at most, not {jobs}")
