"""The folder of what can be made again: the user's cache, unless a variable of the environment names another."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "ATTNSUITE_CACHE"
"""The environment variable that names this folder in place of `attnsuite` in the user's cache folder."""


def cache() -> Path:
    """The folder. It need not exist yet."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(home) / "attnsuite")
