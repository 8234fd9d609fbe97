"""The exit statuses of the command line. 0 means that nothing failed."""

from __future__ import annotations

import signal

FAILED = 1
"""The exit status where something failed, raised, crashed or timed out."""
CANNOT = 2
"""The exit status of a request that cannot be carried out, or of a file that cannot be tested."""
INTERRUPTED = 128 + signal.SIGINT
"""The exit status after Ctrl-C: 128 and the number of the signal, as shells have it."""
TERMINATED = 128 + signal.SIGTERM
"""The exit status after SIGTERM."""
