"""A cache of verdicts in the user's cache folder, valid for the same source, versions and machine."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from attnsuite import machine, registry
from attnsuite.cases.tensors import seeded
from attnsuite.machine.cached import cache as cache_folder
from attnsuite.model import Outcome, Status, UsageError
from attnsuite.model.files import replace_bytes
from attnsuite.registry import Declaration

Key = tuple[str, str]
"""A case and a dtype."""
CACHED = (Status.PASSED, Status.UNSUPPORTED)
"""The stored statuses. A failure is tested again, because the machine may have caused it."""
IGNORED_VARIABLES = frozenset(
    {"_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "TERM", "WINDOWID", "PYTEST_CURRENT_TEST"}
)
"""Environment variables that differ between terminals and affect no library. All others are part of the digest."""


class _Stored(msgspec.Struct):
    """The content of a file: `digest` identifies all dependencies of the value."""

    digest: str
    value: msgspec.Raw


class VerdictCache:
    """Verdicts on one device, one file per implementation. With `reads=False` it only stores new verdicts.

    A digest covers the implementation's file and the files next to it that it imports, the suite, every installed
    distribution, the machine and the environment. Other files that an implementation reads are not covered.
    """

    def __init__(self, device: str, reads: bool = True) -> None:
        self._device, self._reads = device, reads
        self._digests: dict[str, str] = {}

    def outcomes(self, declaration: Declaration) -> dict[Key, Outcome]:
        """The valid outcomes of an implementation; none if a dependency has changed or is unreadable."""
        digest = self._digests[declaration.full_name] = self._digest(declaration)
        stored = _read(self._file(declaration), digest, list[Outcome]) if self._reads and declaration.file else None
        return {(outcome.case, outcome.dtype): outcome for outcome in stored or () if outcome.status in CACHED}

    def store(self, declaration: Declaration, outcomes: Iterable[Outcome]) -> None:
        """Store outcomes, if the source has not changed since the call of `outcomes`."""
        digest = self._digests.get(declaration.full_name)
        if declaration.file and digest == self._digest(declaration):
            _write(self._file(declaration), digest, [outcome for outcome in outcomes if outcome.status in CACHED])

    def _file(self, declaration: Declaration) -> Path:
        parts = (declaration, declaration.backend) if declaration.backend else (declaration,)
        named = [word for part in parts for word in (str(Path(part.file).absolute()), part.function)]
        return cache_folder() / "verdicts" / f"{_hash([declaration.full_name, self._device, *named])}.json"

    def _digest(self, declaration: Declaration) -> str:
        variables = {name: value for name, value in os.environ.items() if name not in IGNORED_VARIABLES}
        setting = msgspec.structs.asdict(machine.here()), sys.path, variables
        return _hash([*_versions(), self._device, *setting, asdict(declaration), registry.source_hash(declaration)])


def needs_of(
    contract: str, dtype: str, device: str, compute: Callable[[], Mapping[str, Collection[str]]]
) -> Mapping[str, Collection[str]]:
    """The features that each case needs, by name of the case: stored by this version of the suite, or computed now.

    `dtype` and `device` select cases, unless empty.
    """
    place = cache_folder() / "needs" / f"{_hash([contract, dtype, device, seeded()])}.json"
    digest = _hash(_versions())
    needs: dict[str, list[str]] | None = _read(place, digest, dict[str, list[str]])
    if needs is None:
        needs = {case: sorted(features) for case, features in compute().items()}
        _write(place, digest, needs)
    return needs


def _versions() -> list[Any]:
    """The suite's hash, Python's version, and the names of the metadata folders of all installed distributions."""
    installed = set()
    for folder in sys.path:
        with suppress(OSError):
            installed |= {entry.name for entry in Path(folder).iterdir() if entry.suffix in (".dist-info", ".egg-info")}
    return [machine.suite_hash(), sys.version, sorted(installed)]


def _read(place: Path, digest: str, kind: Any) -> Any:
    """The value that a file stores under this digest; None without one, or if the file is damaged."""
    with suppress(OSError, msgspec.MsgspecError):
        stored = msgspec.json.decode(place.read_bytes(), type=_Stored)
        if stored.digest == _hash([digest, bytes(stored.value).decode()]):
            return msgspec.json.decode(stored.value, type=kind)
    return None


def _write(place: Path, digest: str, value: Any) -> None:
    """Store a value, if the cache folder is writable."""
    with suppress(OSError, UsageError):
        place.parent.mkdir(parents=True, exist_ok=True)
        encoded = msgspec.json.encode(value)
        replace_bytes(place, msgspec.json.encode(_Stored(_hash([digest, encoded.decode()]), msgspec.Raw(encoded))))


def _hash(value: Any) -> str:
    """The first 24 hexadecimal digits of the SHA-256 of a value as JSON."""
    return hashlib.sha256(msgspec.json.encode(value, enc_hook=str, order="deterministic")).hexdigest()[:24]
