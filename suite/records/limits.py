"""How long one answer may take."""

from __future__ import annotations

TIME_LIMIT = 60.0
"""Seconds that a process of its own may take for one question, or to import an implementation: ten times what the slowest
case that ships here takes on a loaded machine, and short enough that what hangs is found out while somebody waits."""
