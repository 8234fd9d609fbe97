"""How a process ended, in words."""

from __future__ import annotations

import signal


def said_of(status: int) -> str:
    """The status that a process ended with, negative for a signal: `exit status 3`, `SIGSEGV`, `signal 35`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:  # a real-time signal
        return f"signal {-status}"
