"""The folder of files that can be made again: the user's cache, unless a variable of the environment names another."""

from __future__ import annotations

import atexit
import functools
import os
from pathlib import Path

from attnsuite.model import temporary

VARIABLE = "ATTNSUITE_CACHE"
"""The environment variable that replaces `attnsuite` in the user's cache folder."""


@functools.cache
def _of_this_process() -> Path:
    folder = temporary.make("cache")
    atexit.register(temporary.remove, folder)
    return folder


def cache() -> Path:
    """The folder, which need not exist yet. A user without a home folder gets a temporary one for this process."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  pathlib's raises
    return _of_this_process() if home.startswith("~") else Path(home) / "attnsuite"
