"""Verdicts of earlier runs: in the user's cache folder, believed only where nothing that they depend on has changed."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
import sysconfig
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from stat import S_ISREG
from typing import Any

from msgspec import structs

from attnsuite import machine, registry
from attnsuite.cases.tensors import seeded
from attnsuite.machine.cached import cache as cache_folder
from attnsuite.model import Outcome, Reason, Status, UsageError
from attnsuite.registry import Declaration
from attnsuite.results.store import replace_bytes, replace_file

Key = tuple[str, str]
"""A case and a dtype."""
Signatures = dict[str, str]
"""What tells whether a file has changed, by its path; empty for a file that is not there."""

BEGUN = time.time()
"""When this process began. What was changed after that may not be what was asked, so its verdict is not kept."""
BELIEVED = (Status.PASSED, Status.DECLINED)
"""What is kept. A failure is asked again: it may have been the machine's."""
WRITTEN_EVERY = 2.0
"""Seconds between two times that verdicts are written while more of them arrive: the most work that a kill loses. To
ask a process for its files and to hash them takes some 0.1 s."""
SESSION = frozenset({"_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "WINDOWID", "PYTEST_CURRENT_TEST"})
"""Variables that differ from terminal to terminal and that no library reads to compute. All others count."""
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Names of folders that hold what was installed."""
HASHED = 2**26
"""Bytes: a larger file counts as changed when its size, its times or its number do."""
MOST_HASHED = 2**28
"""Bytes that are read of all files together: a file of many names would be read once for each."""


class Kept:
    """Verdicts on one device, a file for each implementation. `believes` is whether they are read, or only written."""

    def __init__(self, device: str, believes: bool = True) -> None:
        self._device, self._believes = device, believes

    def outcomes(self, declaration: Declaration) -> dict[Key, Outcome]:
        """What still holds of an implementation; nothing where anything has changed, or cannot be read."""
        with suppress(OSError, ValueError, TypeError, KeyError, EOFError):
            return self._read(declaration) if self._believes and declaration.file else {}
        return {}

    def keep(self, declaration: Declaration, outcomes: Iterable[Outcome], files: Sequence[str] | None) -> None:
        """Keep what was found of an implementation, whose answers depend on these files; None where they are not known.

        Where the cache folder cannot be written nothing is kept.
        """
        believed = [structs.asdict(outcome) for outcome in outcomes if outcome.status in BELIEVED]
        if files is None or not declaration.file or not believed or _changed_since(files, BEGUN) or _too_much(files):
            return
        kept = {"key": self._key(declaration), "files": signatures(files), "outcomes": believed}
        place = self._place(declaration)
        with suppress(OSError, UsageError):
            place.parent.mkdir(parents=True, exist_ok=True)
            replace_bytes(place, gzip.compress(json.dumps(kept).encode(), 1, mtime=0))

    def holds_for(self, declaration: Declaration, files: Sequence[str] | None) -> bool:
        """Whether a process that has loaded these files has loaded nothing else than was asked."""
        return _holds(self.loaded(declaration), files)

    def loaded(self, declaration: Declaration) -> Signatures:
        """The files on which the verdicts that are kept depend; none where nothing is kept."""
        with suppress(OSError, ValueError, KeyError, EOFError):
            return dict(self._content(declaration)["files"])
        return {}

    def forget(self, declaration: Declaration) -> None:
        """Delete the verdicts on an implementation."""
        with suppress(OSError):
            self._place(declaration).unlink()

    def _read(self, declaration: Declaration) -> dict[Key, Outcome]:
        kept = self._content(declaration)
        if kept["key"] != self._key(declaration) or signatures(kept["files"]) != kept["files"]:
            return {}
        found = [_outcome(row) for row in kept["outcomes"]]
        return {(outcome.case, outcome.dtype): outcome for outcome in found if outcome.status in BELIEVED}

    def _content(self, declaration: Declaration) -> Any:
        return json.loads(gzip.decompress(self._place(declaration).read_bytes()))

    def _place(self, declaration: Declaration) -> Path:
        parts = (declaration, declaration.plug) if declaration.plug else (declaration,)
        named = [word for each in parts for word in (str(Path(each.file).absolute()), each.function)]
        name = digest([declaration.full_name, self._device, *named])
        return cache_folder() / "verdicts" / f"{name}.json.gz"

    def _key(self, declaration: Declaration) -> str:
        """All that verdicts depend on beside files that a worker has loaded."""
        return digest([self._surroundings, asdict(declaration), registry.source_hash(declaration)])

    @cached_property
    def _surroundings(self) -> str:
        """The suite's own source, every installed distribution, the machine, and the environment."""
        variables = {name: value for name, value in os.environ.items() if name not in SESSION}
        here = structs.asdict(machine.here()), sys.version, sys.path, installed()
        return digest([machine.suite_hash(), self._device, *here, variables])


@dataclass
class Keeping:
    """Writes the verdicts on an implementation as they arrive, so that a run which is killed loses few of them.

    `before` are those of earlier runs, which are believed; `files` asks its process what it has loaded until now.
    """

    kept: Kept
    declaration: Declaration
    before: Mapping[Key, Outcome]
    files: Callable[[], Sequence[str] | None]
    _new: dict[Key, Outcome] = field(default_factory=dict)
    _wrote: bool = False

    def __post_init__(self) -> None:
        self._loaded, self._written = self.kept.loaded(self.declaration), time.monotonic()

    def add(self, outcome: Outcome) -> None:
        """Take one more, and write all where the last time was long ago."""
        self._new[outcome.case, outcome.dtype] = outcome
        if time.monotonic() >= self._written + WRITTEN_EVERY:
            self.write()

    def write(self) -> None:
        """Write all; earlier ones only where the process has loaded nothing else than it had then.

        Where it has started a program that may have read other files, nothing of this run is kept.
        """
        files = self.files()
        if files is None and self._wrote:
            self.kept.forget(self.declaration)
        again = self.before if _holds(self._loaded, files) else {}
        self.kept.keep(self.declaration, {**again, **self._new}.values(), files)
        self._written, self._wrote = time.monotonic(), files is not None


def _outcome(row: Mapping[str, Any]) -> Outcome:
    typed = {"status": Status(row["status"]), "diagnosis": tuple(row["diagnosis"]), "reason": Reason(row["reason"])}
    return Outcome(**{**row, **typed})


def needs_of(
    contract: str, dtype: str, device: str, found: Callable[[], Mapping[str, Collection[str]]]
) -> Mapping[str, Collection[str]]:
    """What each case needs, by name: as kept for this very suite, or as `found` now, which draws all cases.

    `dtype` and `device` say which cases are meant, or are empty. What is kept says which questions there are, so it
    counts only as it was written, to the last byte.
    """
    name = digest([machine.suite_hash(), installed(), sys.version, contract, dtype, device, seeded()])
    place = cache_folder() / "needs" / f"{name}.json"
    with suppress(OSError, ValueError, TypeError, LookupError):
        kept = json.loads(place.read_bytes())
        if kept["digest"] == digest([name, kept["needs"]]):
            return {str(case): [str(word) for word in words] for case, words in kept["needs"].items()}
    fresh = {case: sorted(words) for case, words in found().items()}
    with suppress(OSError, UsageError):
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(place, json.dumps({"needs": fresh, "digest": digest([name, fresh])}))
    return fresh


def installed() -> list[str]:
    """Every installed distribution with its version: the names of the folders in which they say so themselves."""
    found = set()
    for folder in sys.path:
        with suppress(OSError):
            found |= {each.name for each in Path(folder).iterdir() if each.suffix in (".dist-info", ".egg-info")}
    return sorted(found)


def signatures(files: Iterable[str]) -> Signatures:
    """What tells whether files have changed: of one's own their content, of libraries size, times and number."""
    return {path: _signature(path) for path in files}


def _holds(asked: Signatures, files: Sequence[str] | None) -> bool:
    """Whether a process that has loaded these `files` has loaded nothing of one's own but what was `asked`."""
    own = [path for path in files or () if not _is_library(path)]
    return files is not None and bool(asked) and all(asked.get(path, "") == _signature(path) for path in own)


def _signature(path: str) -> str:
    with suppress(OSError):
        found = os.stat(path)  # noqa: PTH116  there are thousands, and a Path of each takes five times as long
        if _is_library(path) or found.st_size > HASHED or not S_ISREG(found.st_mode):
            return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return ""


def _too_much(files: Iterable[str]) -> bool:
    """Whether so much would be read of files that are not installed that nobody has so many kernels."""
    left = MOST_HASHED
    for path in files:
        with suppress(OSError):
            left -= 0 if _is_library(path) else min(HASHED, Path(path).stat().st_size)
    return left < 0


def _changed_since(files: Iterable[str], when: float) -> bool:
    """Whether a file was changed after that, or by a clock that is ahead."""
    for path in files:
        with suppress(OSError):
            found = Path(path).stat()
            if max(found.st_mtime, found.st_ctime) >= when:
                return True
    return False


def _is_library(path: str) -> bool:
    """Whether a file is installed, or the suite's: its own source is part of every key."""
    return path.startswith(_libraries()) or not INSTALLED.isdisjoint(Path(path).parts)


@cache
def _libraries() -> tuple[str, ...]:
    """The folders of what is installed, Python's own among them, its program's and its library's included."""
    paths, suite = sysconfig.get_paths(), str(Path(__file__).parents[1])
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [folder for name in ("BINDIR", "LIBDIR") if (folder := sysconfig.get_config_var(name))]
    folders += ["/usr", "/lib", "/lib64", suite]
    return tuple({f"{each}/" for folder in folders for each in (folder, os.path.realpath(folder))})


def digest(what: Any) -> str:
    """Anything that can be written as text, as one number that names it."""
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode(errors="surrogateescape")).hexdigest()[
        :24
    ]
