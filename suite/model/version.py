"""The version of attnsuite."""

from __future__ import annotations

from contextlib import suppress
from importlib import metadata


def _version() -> str:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("attnsuite")
    return "unknown"


VERSION = _version()
"""The installed version; "unknown" in a checkout that is not installed."""
