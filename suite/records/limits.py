"""How long one answer may take."""

from __future__ import annotations

TIME_LIMIT = 60.0
"""Seconds that a process of its own may take for one question, or to import an implementation.

Some ten times what the slowest case takes of what ships here, on a loaded machine; yet what hangs is found out while
somebody waits.
"""
