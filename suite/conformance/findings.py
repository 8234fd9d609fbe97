"""What shipping libraries really get wrong: read from a contract's file, matched against outcomes, strict both ways."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from suite.machine import DISTRIBUTIONS
from suite.records import FAILURES, Outcome, UsageError

LIBRARIES = ("python", *DISTRIBUTIONS)
"""What a finding's versions may speak of."""


@dataclass(frozen=True)
class Finding:
    """A case that a library really gets wrong, with the versions that do and a reproduction without this suite.

    Patterns are shell globs. A failure that matches stays a failure in every table, marked known, and does not fail the
    run; a match that passes is an error, so that findings disappear when libraries are mended.
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
    upstream: str = ""
    notes: str = ""

    def covers(self, outcome: Outcome) -> bool:
        return (
            _matches(outcome.implementation, self.implementations)
            and _matches(outcome.case, self.cases)
            and not _matches(outcome.case, self.except_cases)
            and _matches(outcome.dtype, self.dtypes)
            and _matches(outcome.device, self.devices)
        )

    def applies(self, installed: Mapping[str, str]) -> bool:
        """Whether the installed libraries are of the versions this was found in."""
        return all(
            name in installed and SpecifierSet(specifier).contains(installed[name], prereleases=True)
            for name, specifier in self.versions.items()
        )


def load(path: Path | None, installed: Mapping[str, str]) -> list[Finding]:
    """The findings in a file that apply to the installed versions; none where there is no file.

    Raises UsageError, one line with the file and the entry, for what is no finding.
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
    """One entry of a file. Raises ValueError for what is none."""
    if not isinstance(row, dict):
        raise ValueError("it is no table")
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


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_KINDS: Mapping[Any, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", _is_text),
    "tuple[str, ...]": ("a list of texts", lambda value: isinstance(value, list) and all(map(_is_text, value))),
    "Mapping[str, str]": (
        "a table of texts",
        lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
    ),
}
"""What the types of a finding's fields are in a file."""


def mark(outcome: Outcome, findings: Iterable[Finding]) -> Outcome:
    """The same outcome, marked known when it fails as a finding says."""
    if outcome.status not in FAILURES:
        return outcome
    for finding in findings:
        if finding.covers(outcome):
            return replace(outcome, known=finding.id)
    return outcome


def mended(finding: Finding, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes that the finding says must fail, and that passed."""
    return [outcome for outcome in outcomes if outcome.status == "passed" and finding.covers(outcome)]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
