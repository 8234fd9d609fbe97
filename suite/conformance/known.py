"""Failures that are known: bugs of shipped libraries (findings.toml), and expected failures of submissions (a file).

A file of expected failures has one line each: a pattern as `--case` takes it, dtypes unless all are meant, a colon and
the reason. `finding/` and the id of a known bug mean the cases of that bug, while it applies to the installed versions:

    # numerics are for the next release
    numerics/scores_beyond_float16 float16: scores are stored in float16
    finding/sdpa-cpu-mask-of-rank-1: we forward to PyTorch
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from attnsuite.conformance.selection import matches, nothing_matches
from attnsuite.machine import DISTRIBUTIONS
from attnsuite.model import DTYPES, FAILURES, Outcome, Reason, Status, UsageError
from attnsuite.model.files import read_text

LIBRARIES = ("python", *DISTRIBUTIONS)
"""The names whose versions a known bug may give."""
FINDING = "finding/"
"""How the pattern of an expected failure begins that is the id of a known bug."""
LINE = re.compile(r"(?P<pattern>[^\s:]+)(?P<dtypes>(?:\s+[^\s:]+)*)\s*:(?P<reason>.*)")
"""A line of a file of expected failures: names of cases have no colon and no space."""


class KnownBug(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cases that a library gets wrong, the versions that do, and a reproduction without this suite.

    Patterns are shell globs. A failure that matches is marked as known and does not fail the run. A match that passes
    is an error, so that the entry is removed when the library is repaired.
    """

    id: str
    implementations: tuple[str, ...]
    cases: tuple[str, ...]
    versions: dict[str, str]
    says: str
    judgement: str
    reproduction: str
    dtypes: tuple[str, ...] = ("*",)
    devices: tuple[str, ...] = ("*",)
    except_cases: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()
    """Further cases that may fail and may pass: they are wrong at some sizes or combinations only."""
    upstream: str = ""
    notes: str = ""
    concerns_workloads: bool = True
    """Whether the failure keeps an implementation from being timed. No workload has strided or misaligned inputs."""

    def __post_init__(self) -> None:
        for library, specifier in self.versions.items():
            if library not in LIBRARIES:
                raise ValueError(f"no version of {library!r} is recorded; there are: {', '.join(LIBRARIES)}")
            try:
                SpecifierSet(specifier)
            except InvalidSpecifier:
                raise ValueError(f"the version of {library} should be like '>=2.9,<2.14', not {specifier!r}") from None

    @property
    def known(self) -> str:
        """What a failure is marked with."""
        return self.id

    @property
    def about(self) -> str:
        """The case of the outcome that says it no longer holds."""
        return f"{FINDING}{self.id}"

    def covers(self, outcome: Outcome) -> bool:
        """Whether a failure is known by it."""
        return _matches(outcome.implementation, self.implementations) and self.covers_case(outcome)

    def covers_case(self, outcome: Outcome) -> bool:
        """Whether it is about the case, dtype and device of an outcome of any implementation."""
        return (
            _matches(outcome.case, (*self.cases, *self.sometimes))
            and not _matches(outcome.case, self.except_cases)
            and _matches(outcome.dtype, self.dtypes)
            and _matches(outcome.device, self.devices)
        )

    def always_covers_case(self, outcome: Outcome) -> bool:
        """The same without the cases that are wrong `sometimes`."""
        return _matches(outcome.case, self.cases) and self.covers_case(outcome)

    def must_fail(self, outcome: Outcome) -> bool:
        """Whether it no longer holds if this outcome is `passed`."""
        return self.covers(outcome) and self.always_covers_case(outcome)

    def closed(self, passing: str) -> str:
        """The complaint that these tests pass."""
        return f"the known bug says that these tests fail, but they pass: {passing}; remove or narrow it"

    def idle(self, outcomes: Iterable[Outcome]) -> str:
        """The complaint that no test can fail by it; or empty."""
        return ""

    def applies(self, installed: Mapping[str, str]) -> bool:
        """Whether the installed libraries have the versions in which the bug was found."""
        return all(
            name in installed and SpecifierSet(specifier).contains(installed[name], prereleases=True)
            for name, specifier in self.versions.items()
        )


def known_bugs(path: Path | None, installed: Mapping[str, str]) -> list[KnownBug]:
    """The known bugs in a file that apply to the installed versions; none if there is no file.

    Raises UsageError for an invalid file, in one line with the file and the entry.
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
    bugs: dict[str, KnownBug] = {}
    for number, row in enumerate(rows, 1):
        identity = f" ({row['id']})" if isinstance(row, dict) and "id" in row else ""
        try:
            bug = msgspec.convert(row, KnownBug)
        except msgspec.ValidationError as error:
            raise UsageError(f"{path}, finding {number}{identity}: {error}") from None
        if bugs.setdefault(bug.id, bug) is not bug:
            raise UsageError(f"{path}, finding {number}{identity}: another finding has the same id")
    return [bug for bug in bugs.values() if bug.applies(installed)]


class Xfail(msgspec.Struct, frozen=True):
    """One line of a file of expected failures."""

    file: str
    line: int
    pattern: str
    dtypes: tuple[str, ...]
    reason: str
    bug: KnownBug | None = None
    """The known bug whose cases are meant, if the pattern names one that applies here."""

    def __post_init__(self) -> None:
        if unknown := [dtype for dtype in self.dtypes if dtype not in DTYPES]:
            raise UsageError(f"{self.file}:{self.line}: unknown dtype {unknown[0]!r}; there are: {', '.join(DTYPES)}")
        if not self.reason:
            raise UsageError(f"{self.file}:{self.line}: an expected failure has a reason; write it after the colon")

    @property
    def where(self) -> str:
        """`gaps.txt:3`."""
        return f"{Path(self.file).name}:{self.line}"

    @property
    def bug_id(self) -> str:
        """The id of the known bug that is meant, or empty."""
        return self.pattern.removeprefix(FINDING) if self.pattern.startswith(FINDING) else ""

    @property
    def known(self) -> str:
        """The mark of a failure that it covers."""
        return f"an expected failure ({self.reason})"

    @property
    def about(self) -> str:
        """The case of the outcome that says it no longer holds."""
        return f"gap/{self.pattern}"

    def covers(self, outcome: Outcome) -> bool:
        """Whether it expects this failure."""
        if self.dtypes and outcome.dtype not in self.dtypes:
            return False
        return self.bug.covers_case(outcome) if self.bug else matches(outcome.case, self.pattern)

    def must_fail(self, outcome: Outcome) -> bool:
        """Whether it no longer holds if this outcome is `passed`."""
        return self.covers(outcome) and (self.bug is None or self.bug.always_covers_case(outcome))

    def closed(self, passing: str) -> str:
        """The complaint that these tests pass."""
        return f"{self.where} says these fail, but they pass: {passing}; remove or narrow the line"

    def idle(self, outcomes: Iterable[Outcome]) -> str:
        """The complaint that a line covers only tests that are unsupported."""
        covered = [outcome for outcome in outcomes if self.covers(outcome)]
        if not covered or any(outcome.status != Status.UNSUPPORTED for outcome in covered):
            return ""
        tests = f"{len(covered)} test{'s' * (len(covered) > 1)}"
        return f"{self.where} covers {tests}, all of them unsupported: none can fail; remove the line"


Known = KnownBug | Xfail


def read_xfails(file: str | Path) -> tuple[Xfail, ...]:
    """The expected failures in a file. Raises UsageError for an invalid file, with the file and the line."""
    try:
        lines = read_text(Path(file)).splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8; a file of expected failures has lines `case pattern: reason`") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"the file of expected failures {file} cannot be read: {reason}") from None
    xfails: dict[tuple[str, tuple[str, ...]], Xfail] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        parts = LINE.fullmatch(line)
        if parts is None:
            expected = "`case pattern: reason`, or `case pattern float16: reason`"
            raise UsageError(f"{file}:{number}: {line!r:.80} should be {expected}")
        xfail = Xfail(str(file), number, parts["pattern"], tuple(parts["dtypes"].split()), parts["reason"].strip())
        first = xfails.setdefault((xfail.pattern, xfail.dtypes), xfail)
        if first is not xfail:
            raise UsageError(f"{xfail.where} repeats line {first.line}: {xfail.pattern}")
    return tuple(xfails.values())


def xfails_of(xfails: Iterable[Xfail], bugs: Sequence[KnownBug]) -> Iterator[Xfail]:
    """The expected failures in a contract with these `bugs`, without lines about bugs of other contracts."""
    by_id = {bug.id: bug for bug in bugs}
    for xfail in xfails:
        if not xfail.bug_id or xfail.bug_id in by_id:
            yield msgspec.structs.replace(xfail, bug=by_id.get(xfail.bug_id))


def refuse_unmatched(xfails: Iterable[Xfail], contracts: Mapping[str, Iterable[str]], bugs: Sequence[KnownBug]) -> None:
    """Raise UsageError for a line that matches no case. `contracts` has the names of the cases by contract."""
    ids, names = [bug.id for bug in bugs], [name for cases in contracts.values() for name in cases]
    for xfail in xfails:
        if xfail.bug_id:
            if xfail.bug_id not in ids:
                known = ", ".join(ids) or "none"
                says = f"no known bug of the installed versions is called {xfail.bug_id!r}; there are: {known}"
                raise UsageError(f"{xfail.where}: {says}")
        elif not any(matches(name, xfail.pattern) for name in names):
            families = list(dict.fromkeys(name.partition("/")[0] for name in names))
            raise UsageError(
                f"{xfail.where}: {nothing_matches(xfail.pattern, names, families, ' or '.join(contracts))}"
            )


def mark(outcome: Outcome, known: Iterable[Known]) -> Outcome:
    """The same outcome, marked as known if it is a failure that a known bug or an expected failure covers."""
    if outcome.status in FAILURES:
        for entry in known:
            if entry.covers(outcome):
                return msgspec.structs.replace(
                    outcome, known=entry.known, reason=Reason.NONE if outcome.lenient else outcome.reason
                )
    return outcome


def passing(known: Known, outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes that should fail according to a known failure, and passed."""
    return [outcome for outcome in outcomes if outcome.status == Status.PASSED and known.must_fail(outcome)]


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
