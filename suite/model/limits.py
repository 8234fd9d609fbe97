"""Limits of times and of numbers of processes, and checks of options before torch is imported."""

import re
from collections.abc import Iterable, Sequence
from functools import partial

from attnsuite.model.words import CACHES, DTYPES, UsageError

TIME_LIMIT = 60.0
"""Seconds for a test in a process of its own: ten times the slowest shipped case on a loaded machine."""
COMPILE_LIMIT = 300.0
"""The least limit in seconds for an import and for a test while a compiler may run: torch.compile, JAX and Triton take
up to some minutes for a shape on a loaded machine."""
IMPORT_LIMIT = 60.0
"""Seconds for the import of an implementation in its own process, also where `--time-limit` is shorter: some libraries
take many seconds."""
IMPORTS_AT_ONCE_LIMIT = 2 * IMPORT_LIMIT
"""Seconds for an import at the start of a benchmark, where all implementations, some twelve, import at once."""
FORK_LIMIT = 10.0
"""Seconds for the fork server to fork, or to report how a worker ended. It has no other work: after this limit it has
stalled, and another one is started."""
EXIT_LIMIT = 5.0
"""Seconds in which a process that has closed its channel may end by itself, so that its exit status is known."""
KILL_LIMIT = 10.0
"""Seconds to wait for the end of a killed process. A driver may block it for longer; then it is left alone."""
MAX_PROCESSES = 9
"""Processes of an implementation that can be timed in turns: a row has one digit for the process of each sample."""
MAX_JOBS = 256
"""Processes of `--jobs`: each has a copy of torch's memory, and few machines have more cores."""

CLAIM_MARGIN = 0.10
"""The share by which a call that is long enough may exceed its claimed time by the suite's own clock. The cost of a
request, and its variation, is a smaller share of a sample of 5 ms."""
MAX_CLAIM_RATIO = 1.5
"""A claimed time is refused where calls take more than this multiple of it. Between `CLAIM_MARGIN` and this multiple,
the row says that the claim is not bounded. A submission that returns a cached output every second time has a multiple
of 2."""
MIN_BOUNDED_SECONDS = 1e-3
"""Seconds: the suite's own clock bounds calls that take this long or longer, even without a trusted baseline, which
measures whether the machine has become slower; with one see `attnsuite.benchmark.own_clock.BOUNDED_FROM`."""
NOT_BOUNDED = f"the suite's own clock does not bound this time within {CLAIM_MARGIN:.0%}"
"""The detail of a row whose time is not bounded."""


COMBINED = ("quick", "full")
"""How features are combined: every pair of levels, or every triple of factors that kernels fuse."""


def _check_range(what: str, least: int, most: int, number: int) -> None:
    if not least <= number <= most:
        raise UsageError(f"{what} is {number}; expected {least} to {most}")


check_seed = partial(_check_range, "the seed", 0, 2**64 - 1)
"""Raise UsageError for a seed that torch does not accept: `torch.manual_seed` takes 64 bits."""
check_short_seed = partial(_check_range, "--seed", 0, 2**32 - 1)
"""Raise UsageError for a seed that numpy does not accept: more than 32 bits."""
check_processes = partial(_check_range, "the number of processes", 1, MAX_PROCESSES)
"""Raise UsageError for a number of processes of an implementation that no benchmark times."""
check_jobs = partial(_check_range, "--jobs", 1, MAX_JOBS)
"""Raise UsageError for less than one process, and for more than MAX_JOBS."""


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
