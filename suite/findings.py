"""What shipping libraries really get wrong: read from a contract's file, matched against outcomes, strict both ways."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.specifiers import SpecifierSet

from suite.records import FAILURES, Outcome


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
    notes: str = field(default="")

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


def load(path: Path, installed: Mapping[str, str]) -> list[Finding]:
    """The findings in a file that apply to the installed versions; none where there is no file."""
    if not path.exists():
        return []
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("finding", [])
    lists = ("implementations", "cases", "dtypes", "devices", "except_cases")
    found = [Finding(**{key: tuple(value) if key in lists else value for key, value in row.items()}) for row in rows]
    return [finding for finding in found if finding.applies(installed)]


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
