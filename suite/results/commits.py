"""A folder of results as it was at a commit: git's copy of it, unpacked into a temporary folder."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from attnsuite.model import UsageError
from attnsuite.model.limits import TIME_LIMIT
from attnsuite.model.temporary import temporary


@contextmanager
def results_at(folder: Path, commit: str) -> Iterator[Path]:
    """The files of a folder as they were at a commit (any name that git knows it by), in a temporary folder that is
    called like it and goes when the context ends.

    The folder need not exist any more. Raises UsageError where it lies in no repository, and where the repository has
    no such commit or the commit has no such folder.
    """
    top = _top(folder)
    name = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}").stdout.decode()
    if not commit or not name:
        raise UsageError(f"the repository {top} has no commit {commit!r:.80} (a shallow clone lacks the older ones)")
    inside = folder.resolve().relative_to(top).as_posix()
    tree = f"{name.strip()}:{'' if inside == '.' else inside}"  # not the path: attributes may leave it out of archives
    if _git(top, "cat-file", "-t", tree).stdout.strip() != b"tree":
        raise UsageError(f"the commit {commit:.80} of {top} has no folder {inside}")
    packed = _git(top, "archive", "--format=tar", tree)
    if packed.returncode:
        raise UsageError(f"git cannot read {inside} at {commit:.80}: {_said(packed)}")
    with temporary() as made:
        place = made / (folder.resolve().name or "results")
        place.mkdir()
        unpack(packed.stdout, place)
        yield place


def unpack(packed: bytes, folder: Path) -> None:
    """Unpack the files of an archive; links, and names that lead out of the folder, are left out."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            path, file = (folder / member.name).resolve(), archive.extractfile(member) if member.isreg() else None
            if file is not None and path.is_relative_to(folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())


def results_of(word: str) -> AbstractContextManager[Path]:
    """The folder that a word names: `results`, or as it was at a commit, `results@HEAD~3`."""
    folder, commit = split(word)
    return results_at(folder, commit) if commit else nullcontext(folder)


def split(word: str) -> tuple[Path, str]:
    """The folder and the commit in a word such as `results@HEAD~3`; the commit is empty where none is named.

    What exists under the whole word is a folder. Else the folder ends at the first `@` before which something exists,
    or at the first of all: it need not exist any more.
    """
    ends = [place for place, letter in enumerate(word) if letter == "@" and place]
    if Path(word).exists() or not ends:
        return Path(word), ""
    end = next((place for place in ends if Path(word[:place]).exists()), ends[0])
    return Path(word[:end]), word[end + 1 :]


def _top(folder: Path) -> Path:
    """The folder of the repository in which a folder lies, or lay."""
    there = next(parent for parent in (folder.resolve(), *folder.resolve().parents) if parent.is_dir())
    found = _git(there, "rev-parse", "--show-toplevel")
    if found.returncode:
        raise UsageError(f"{folder} is in no git repository that can be read ({_said(found)})")
    return Path(os.fsdecode(found.stdout.removesuffix(b"\n"))).resolve()


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    """What git said, its first line."""
    return done.stderr.decode(errors="replace").strip().partition("\n")[0] or f"it ended with status {done.returncode}"


def _git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What git prints. Raises UsageError where there is no git, or where it does not end."""
    surroundings = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, env=surroundings, check=False)
    except subprocess.TimeoutExpired:
        raise UsageError(f"git did not end within {TIME_LIMIT} s in {folder}") from None
    except OSError as error:
        raise UsageError(f"results at a commit need git, which cannot be started: {error.strerror}") from None
