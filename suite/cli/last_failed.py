"""The tests that failed when an implementation was last checked: a small file for each, in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attnsuite.machine.cached import cache
from attnsuite.model import DTYPES, Outcome, UsageError
from attnsuite.model.files import replace_file
from attnsuite.registry import Declaration

Tests = frozenset[tuple[str, str]]
"""Names of cases, each with a dtype."""


def failed(declaration: Declaration, device: str) -> Tests:
    """The tests that failed the last time; none where nothing is recorded, or cannot be read."""
    with suppress(OSError, ValueError, TypeError):
        return frozenset((case, dtype) for case, dtype in json.loads(_file(declaration, device).read_bytes()))
    return frozenset()


def remember(declaration: Declaration, device: str, outcomes: Iterable[Outcome]) -> None:
    """Record the failures, and earlier ones of tests that did not run now.

    Nothing is recorded where the cache folder cannot be written: that is no fault of the check.
    """
    ran = {(of.case, of.dtype): of.fails for of in outcomes if of.dtype in DTYPES}
    failures = {test for test, fails in ran.items() if fails} | (failed(declaration, device) - ran.keys())
    file = _file(declaration, device)
    with suppress(OSError, UsageError):
        if failures:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(sorted(failures)))
        else:
            file.unlink(missing_ok=True)


def _file(declaration: Declaration, device: str) -> Path:
    """The file of an implementation, by its name, the device, its place, and that of its backend."""
    parts = (declaration, declaration.plug) if declaration.plug else (declaration,)
    places = [word for each in parts for word in (each.file or f"{Path.cwd()} {each.module}", each.function)]
    identity = "\0".join((declaration.full_name, device, *places)).encode(errors="surrogateescape")
    return cache() / "last-failed" / f"{hashlib.sha256(identity).hexdigest()[:16]}.json"
