"""The folder of reproducible files: the user's cache, unless an environment variable names another."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ATTNSUITE_CACHE"
"""The environment variable that replaces `attnsuite` in the user's cache folder."""


def cache() -> Path:
    """The folder, which need not exist yet. Raises RuntimeError for a user without a home folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "attnsuite"
