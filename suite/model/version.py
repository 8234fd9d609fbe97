"""Which attnsuite this is."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata


def _version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("attnsuite")
    return "unknown"


VERSION = _version()
"""The version that is installed; "unknown" in a checkout that is not."""
