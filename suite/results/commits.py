"""Results at a commit: the files of a folder as git has them, in a temporary folder."""

import io
import os
import re
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
    """Unpack a folder as it was at a commit (any name that git accepts) into a temporary folder of the same name.

    The folder need not exist any more. The temporary folder is removed when the context ends. Raises UsageError for a
    folder outside of a repository, for an unknown commit, and for a commit without the folder.
    """
    here = folder.resolve()
    existing = next(parent for parent in (here, *here.parents) if parent.is_dir())
    top = Path(os.fsdecode(_git(existing, "rev-parse", "--show-toplevel").removesuffix(b"\n"))).resolve()
    inside = here.relative_to(top).as_posix()
    # A tree instead of a path, which .gitattributes may exclude from archives
    tree = f"{commit}^{{commit}}:{'' if inside == '.' else inside}"
    packed = _git(top, "archive", "--format=tar", "--end-of-options", tree)
    with temporary() as parent:
        place = parent / (here.name or "results")
        place.mkdir()
        unpack(packed, place)
        yield place


def unpack(packed: bytes, folder: Path) -> None:
    """Unpack the files of an archive. Links, and names that lead out of the folder, are skipped."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            path, file = (folder / member.name).resolve(), archive.extractfile(member) if member.isreg() else None
            if file is not None and path.is_relative_to(folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.read())


def results_of(word: str) -> AbstractContextManager[Path]:
    """The folder that a word names, as a context: `results`, or `results@HEAD~3` at a commit."""
    folder, commit = split(word)
    return results_at(folder, commit) if commit else nullcontext(folder)


def split(word: str) -> tuple[Path, str]:
    """Split a word such as `results@HEAD~3` into its folder and its commit, which may be empty.

    A word that exists as a path is a folder. Otherwise the folder ends at the first `@` before which something exists,
    or at the first `@`, because the folder need not exist.
    """
    ends = [place for place, letter in enumerate(word) if letter == "@" and place]
    if Path(word).exists() or not ends:
        return Path(word), ""
    end = next((place for place in ends if Path(word[:place]).exists()), ends[0])
    return Path(word[:end]), word[end + 1 :]


def _git(folder: Path, *arguments: str) -> bytes:
    """The output of git. Raises UsageError, with git's message, if it fails, cannot start or exceeds TIME_LIMIT."""
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, timeout=TIME_LIMIT, env=environment, check=True).stdout
    except subprocess.CalledProcessError as error:
        message = error.stderr.decode(errors="replace").strip().partition("\n")[0]
        if lacking := re.match(r"fatal: not a valid object name: (.*)\^\{commit\}:(.*)", message, re.IGNORECASE):
            inside = f", or no {lacking[2]} in it" if lacking[2] else ""
            raise UsageError(
                f"{folder} has no commit {lacking[1]!r}{inside}; a shallow clone lacks older ones"
            ) from None
        raise UsageError(f"git cannot read {folder} (a shallow clone lacks older commits): {message}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"results at a commit need git, which does not run: {error}") from None
