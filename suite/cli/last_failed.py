"""Which questions failed when an implementation was last checked: a small file for each, in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attnsuite.machine.cached import cache
from attnsuite.model import DTYPES, Outcome, UsageError
from attnsuite.registry import Declaration
from attnsuite.results.store import replace_file

Questions = frozenset[tuple[str, str]]
"""Names of cases, each with a dtype."""


def failed(declaration: Declaration, device: str) -> Questions:
    """The questions that failed when they were last asked; none where nothing is recorded, or cannot be read."""
    with suppress(OSError, ValueError, TypeError):
        return frozenset((case, dtype) for case, dtype in json.loads(_file(declaration, device).read_bytes()))
    return frozenset()


def remember(declaration: Declaration, device: str, outcomes: Iterable[Outcome]) -> None:
    """Record what failed now; what failed before and was not asked now stays recorded.

    Where the cache folder cannot be written nothing is recorded: that is no fault of the check.
    """
    asked = {(of.case, of.dtype): of.fails for of in outcomes if of.dtype in DTYPES}
    before = failed(declaration, device)
    now = {question for question, fails in asked.items() if fails} | (before - asked.keys())
    file = _file(declaration, device)
    with suppress(OSError, UsageError):
        if now:
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(sorted(now)))
        else:
            file.unlink(missing_ok=True)


def _file(declaration: Declaration, device: str) -> Path:
    """The file of an implementation: two are one if they lie at the same place, are called alike, and asked alike."""
    parts = (declaration, declaration.plug) if declaration.plug else (declaration,)
    places = [word for each in parts for word in (each.file or f"{Path.cwd()} {each.module}", each.function)]
    identity = "\0".join((declaration.full_name, device, *places))
    return (
        cache() / "last-failed" / f"{hashlib.sha256(identity.encode(errors='surrogateescape')).hexdigest()[:16]}.json"
    )
