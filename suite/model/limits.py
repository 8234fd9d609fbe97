"""Time limits of processes, in seconds, and limits of their number."""

from __future__ import annotations

TIME_LIMIT = 60.0
"""Seconds for a test in a process of its own: ten times the slowest shipped case on a loaded machine."""
COMPILE_LIMIT = 300.0
"""Seconds for an import, and for the first call of each shape, while a compiler may run: torch.compile, JAX and Triton
take up to some minutes for a shape on a loaded machine."""
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
"""The share by which a call of `MIN_BOUNDED_SECONDS` or more may exceed its claimed time by the suite's own clock. The
cost of a request, and its variation, is a smaller share of a sample of 5 ms."""
MAX_CLAIM_RATIO = 1.5
"""A claimed time is refused where calls take more than this multiple of it. Between `CLAIM_MARGIN` and this multiple,
the row says that the claim is not bounded. A submission that returns a cached output every second time has a multiple
of 2."""
MIN_BOUNDED_SECONDS = 1e-3
"""Seconds: the suite's own clock bounds calls that take this long or longer; see `attnsuite.benchmark.own_clock`."""
NOT_BOUNDED = f"the suite's own clock does not bound this time within {CLAIM_MARGIN:.0%}"
"""The detail of a row whose time is not bounded."""
