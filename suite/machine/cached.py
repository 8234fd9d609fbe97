"""The folder of reproducible files: the user's cache, unless an environment variable names another."""

from __future__ import annotations

import atexit
import functools
import os
from pathlib import Path

from attnsuite.model import temporary

VARIABLE = "ATTNSUITE_CACHE"
"""The environment variable that replaces `attnsuite` in the user's cache folder."""


@functools.cache
def _process_folder() -> Path:
    folder = temporary.make("cache")
    atexit.register(temporary.remove, folder)
    return folder


def cache() -> Path:
    """The folder, which need not exist yet. A user without a home folder gets a temporary one for this process."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  pathlib's raises
    return _process_folder() if home.startswith("~") else Path(home) / "attnsuite"
