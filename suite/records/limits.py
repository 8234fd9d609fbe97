"""How long a process may take."""

from __future__ import annotations

TIME_LIMIT = 60.0
"""Seconds that a process of its own may take for one question, or to import an implementation.

Some ten times what the slowest case takes of what ships here, on a loaded machine; yet what hangs is found out while
somebody waits.
"""
IMPORTS_AT_ONCE_LIMIT = 2 * TIME_LIMIT
"""Seconds that an import may take at the start of a benchmark, where all participants import at once, some twelve of
them on a few cores."""
