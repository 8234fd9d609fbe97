"""The sources of a commit, as git has them."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnsuite.model.limits import TIME_LIMIT
from attnsuite.model.temporary import temporary

FOLDERS = ("suite", "implementations")
"""The folders whose files a run hashes."""


def holds(repository: Path, commit: str) -> bool:
    """Whether a folder lies in a repository that has this commit. `commit` is hexadecimal digits alone."""
    return _git(repository, "cat-file", "-e", f"{commit}^{{commit}}") is not None


def has(repository: Path, commit: str, file: str) -> bool:
    """Whether a commit that a repository holds has a file, of this path from the repository's top."""
    return _git(repository, "cat-file", "-e", f"{commit}:{file}") is not None


def differs(folder: Path) -> bool:
    """Whether git shows changes in a folder, new files included; False outside a checkout and where git is absent."""
    return bool((_git(folder, "status", "--porcelain", "--", ".") or b"").strip())


@contextmanager
def sources(repository: Path, commit: str) -> Iterator[Path]:
    """A temporary folder with the FOLDERS of a commit, as far as it has them."""
    top = (_git(repository, "rev-parse", "--show-toplevel") or b"").decode(errors="replace").strip() or str(repository)
    listed = (_git(Path(top), "ls-tree", "--name-only", commit) or b"").decode(errors="replace").split("\n")
    there = [folder for folder in FOLDERS if folder in listed]
    packed = _git(Path(top), "archive", "--format=tar", commit, *there) if there else None
    with temporary() as folder:
        if packed:
            unpack(packed, folder)
        yield folder


def unpack(packed: bytes, folder: Path) -> None:
    """The files in an archive; links, and names that lead elsewhere, are left out."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            path, file = (folder / member.name).resolve(), archive.extractfile(member) if member.isreg() else None
            if file is not None and path.is_relative_to(folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git prints; None where it is absent or fails."""
    surroundings = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, env=surroundings, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
