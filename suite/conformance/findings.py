"""Findings, the known bugs of shipping libraries: read from a contract's file. What is known marks failures."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from attnsuite.machine import DISTRIBUTIONS
from attnsuite.model import FAILURES, Outcome, Reason, UsageError

LIBRARIES = ("python", *DISTRIBUTIONS)
"""The names that a finding may give versions of."""


class Known(Protocol):
    """Something that is known to fail: a finding, or a gap in a file of one's own."""

    @property
    def known(self) -> str:
        """What an outcome is marked with: `known as …`."""

    @property
    def about(self) -> str:
        """In the place of a case, of an outcome that says it no longer holds."""

    def covers(self, outcome: Outcome) -> bool:
        """Whether a failure is known by it."""

    def must_fail(self, outcome: Outcome) -> bool:
        """Whether it no longer holds if this outcome is `passed`."""

    def closed(self, passing: str) -> str:
        """The complaint that these pass."""

    def idle(self, outcomes: Iterable[Outcome]) -> str:
        """The complaint that after all of them nothing can fail by it; or empty."""


@dataclass(frozen=True)
class Finding:
    """Cases that a library gets wrong, the versions that do, and a reproduction without this suite.

    Patterns are shell globs. A failure that matches stays a failure in every table, marked as known, and does not fail
    the run. A match that passes is an error, so that a finding is removed when the library is repaired; a match of
    `sometimes` alone may pass.
    """

    id: str
    implementations: tuple[str, ...]
    cases: tuple[str, ...]
    versions: Mapping[str, str]
    says: str
    judgement: str
    reproduction: str
    dtypes: tuple[str, ...] = ("*",)
    devices: tuple[str, ...] = ("*",)
    except_cases: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()
    """Further cases that are wrong at some sizes or in some company: they may fail, and may pass."""
    upstream: str = ""
    notes: str = ""
    concerns_workloads: bool = True
    """Whether whoever fails so may not be timed on a workload that uses no more than such a case. No workload has
    inputs that are strided or misaligned."""

    @property
    def known(self) -> str:
        return self.id

    @property
    def about(self) -> str:
        return f"finding/{self.id}"

    def covers(self, outcome: Outcome) -> bool:
        return _matches(outcome.implementation, self.implementations) and self.covers_case(outcome)

    def covers_case(self, outcome: Outcome) -> bool:
        """Whether it is about the case of an outcome, whoever's outcome that is."""
        return (
            (_matches(outcome.case, self.cases) or _matches(outcome.case, self.sometimes))
            and not _matches(outcome.case, self.except_cases)
            and _matches(outcome.dtype, self.dtypes)
            and _matches(outcome.device, self.devices)
        )

    def covers_surely(self, outcome: Outcome) -> bool:
        """The same without the cases that are wrong `sometimes`."""
        return _matches(outcome.case, self.cases) and self.covers_case(outcome)

    def must_fail(self, outcome: Outcome) -> bool:
        return self.covers(outcome) and self.covers_surely(outcome)

    def closed(self, passing: str) -> str:
        return f"the finding says these fail, but they pass: {passing}; remove or narrow it"

    def idle(self, outcomes: Iterable[Outcome]) -> str:
        return ""

    def applies(self, installed: Mapping[str, str]) -> bool:
        """Whether the installed libraries have the versions in which this was found."""
        return all(
            name in installed and SpecifierSet(specifier).contains(installed[name], prereleases=True)
            for name, specifier in self.versions.items()
        )


def load(path: Path | None, installed: Mapping[str, str]) -> list[Finding]:
    """The findings in a file that apply to the installed versions; none if there is no file.

    Raises UsageError for a file that is not a list of findings, in one line with the file and the entry.
    """
    if path is None or not path.exists():
        return []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no TOML, or no UTF-8
        raise UsageError(f"{path}: {error}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    rows = content.pop("finding", [])
    if content or not isinstance(rows, list):
        raise UsageError(f"{path}: it holds {', '.join(content) or 'finding'}; it should hold [[finding]] tables alone")
    found: dict[str, Finding] = {}
    for number, row in enumerate(rows, 1):
        try:
            finding = _finding(row)
            if finding.id in found:
                raise ValueError("another finding has the same id")
        except ValueError as error:
            identity = row.get("id", "") if isinstance(row, dict) else ""
            raise UsageError(f"{path}, finding {number}{f' ({identity})' if identity else ''}: {error}") from None
        found[finding.id] = finding
    return [finding for finding in found.values() if finding.applies(installed)]


def _finding(row: Any) -> Finding:
    """The finding in one entry of a file. Raises ValueError if the entry is not a finding."""
    if not isinstance(row, dict):
        raise ValueError(f"it should be a table, not {row!r:.80}")
    known = {field.name: field for field in fields(Finding)}
    if unknown := [key for key in row if key not in known]:
        raise ValueError(f"unknown key {unknown[0]!r}; there are: {', '.join(known)}")
    for name, field in known.items():
        if name not in row:
            if field.default is MISSING:
                raise ValueError(f"{name} is missing")
            continue
        due, holds = _KINDS[field.type]
        if not holds(row[name]):
            raise ValueError(f"{name} should be {due}, not {row[name]!r:.80}")
    for library, specifier in row["versions"].items():
        if library not in LIBRARIES:
            raise ValueError(f"no version of {library!r} is recorded; there are: {', '.join(LIBRARIES)}")
        try:
            SpecifierSet(specifier)
        except InvalidSpecifier:
            raise ValueError(f"the version of {library} should be like '>=2.9,<2.14', not {specifier!r}") from None
    frozen: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Finding(**frozen)


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(value, str) for value in values)


_KINDS: Mapping[Any, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", lambda value: isinstance(value, str)),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "tuple[str, ...]": ("a list of texts", lambda value: isinstance(value, list) and _are_texts(value)),
    "Mapping[str, str]": ("a table of texts", lambda value: isinstance(value, dict) and _are_texts(value.values())),
}
"""By the type of a field: what it is in a file, and a test of that."""


def mark(outcome: Outcome, known: Iterable[Known]) -> Outcome:
    """The same outcome, marked as known if it is a failure that a finding or a gap covers."""
    if outcome.status not in FAILURES:
        return outcome
    for each in known:
        if each.covers(outcome):
            return replace(outcome, known=each.known, reason=Reason.NONE if outcome.lenient else outcome.reason)
    return outcome


def passing(known: Known, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes that should fail according to a finding or a gap, and passed."""
    return [outcome for outcome in outcomes if outcome.status == "passed" and known.must_fail(outcome)]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
