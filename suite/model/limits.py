"""How long a process may take, and how many there may be."""

from __future__ import annotations

TIME_LIMIT = 60.0
"""Seconds that a process of its own may take for one question.

Some ten times what the slowest case takes of what ships here, on a loaded machine; yet what hangs is found out while
somebody waits.
"""
COMPILE_LIMIT = 300.0
"""Seconds that an import, and the first call of each shape, may take while a compiler may be at work: torch.compile,
JAX and Triton take up to some minutes for one shape on a loaded machine."""
IMPORT_LIMIT = 60.0
"""Seconds that the import of an implementation may take in a process of its own, also where its answers may take fewer:
honest files import libraries for many seconds, and their answers take milliseconds."""
IMPORTS_AT_ONCE_LIMIT = 2 * IMPORT_LIMIT
"""Seconds that an import may take at the start of a benchmark, where all participants import at once, some twelve of
them on a few cores."""
FORK_LIMIT = 10.0
"""Seconds that the process which workers are forked from may take to fork, or to say how a worker ended. It does
nothing else, so one that takes longer has stalled, and another is started."""
EXIT_LIMIT = 5.0
"""Seconds that a process which has closed its channel may take to end by itself, so that it can be said how it
ended."""
KILL_LIMIT = 10.0
"""Seconds that the end of a process is awaited after it was killed. A driver may hold it for longer; then it is
left."""
MAX_PROCESSES = 9
"""Processes of an implementation that can be timed in turns: a row says which took a sample by one digit."""
MAX_JOBS = 256
"""The most processes that ask at once: each has a copy of torch's memory, and few machines have more cores."""


MARGIN = 0.10
"""The share by which a call of `MIN_BOUNDED_SECONDS` or more may exceed its claimed time by the suite's own clock. The
cost of a request, and its variation, is a smaller share of a sample of 5 ms."""
MAX_CLAIM_RATIO = 1.5
"""A claim is refused where calls take more than this many times as long; between `MARGIN` and this the row says that
the claim is not bounded. An answer that is remembered every second time makes it 2."""
MIN_BOUNDED_SECONDS = 1e-3
"""Seconds: the suite's own clock bounds calls that take this long or longer; see `attnsuite.benchmark.own_clock`."""
NOT_BOUNDED = f"the suite's own clock does not bound this time within {MARGIN:.0%}"
"""How a row says that it could not."""
