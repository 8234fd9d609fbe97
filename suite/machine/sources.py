"""The suite's own sources as one number."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import attnsuite

IMPLEMENTATIONS = "implementations"
"""The folder, inside the installed package, of what ships: each implementation has a hash of its own."""


def suite_hash(folder: Path | None = None) -> str:
    """The first 12 hexadecimal digits of a SHA-256 over the suite's own sources and data, or over those in a folder.

    Its own are read once in a process, which goes on with what it has imported.
    """
    return _own() if folder is None else _hashed(folder)


@cache
def _own() -> str:
    return _hashed(Path(attnsuite.__file__).parent)


def _hashed(folder: Path) -> str:
    hashed = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if file.suffix in (".py", ".json", ".toml") and path.parts[0] != IMPLEMENTATIONS:
            hashed.update(str(path).encode())
            hashed.update(file.read_bytes())
    return hashed.hexdigest()[:12]
