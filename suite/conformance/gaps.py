"""A file of known gaps: cases that an implementation of one's own is known to fail, each with the reason.

    # numerics are for the next release
    numerics/scores_beyond_float16 float16: scores are kept in float16
    bad_input/lengths_*: the caller checks lengths
    finding/sdpa-cpu-mask-of-rank-1: we forward to PyTorch

A line is a pattern as `--case` takes it, dtypes unless all are meant, a colon and the reason. `finding/` before the id
of a finding means the cases of that finding, as long as it applies to the installed versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnsuite.cases import Contract
from attnsuite.conformance.findings import Finding
from attnsuite.conformance.selection import matches, nothing_matches
from attnsuite.model import DTYPES, Outcome, Status, UsageError
from attnsuite.model.regular import read_text

FINDING = "finding/"
"""How a pattern begins that is the id of a finding."""
LINE = re.compile(r"(?P<pattern>[^\s:]+)(?P<dtypes>(?:\s+[^\s:]+)*)\s*:(?P<reason>.*)")
"""No case has a colon or a space in its name."""


@dataclass(frozen=True)
class Gap:
    """One line of a file."""

    file: str
    line: int
    pattern: str
    dtypes: tuple[str, ...]
    reason: str

    @property
    def place(self) -> str:
        """Where it stands, for people: `gaps.txt:3`."""
        return f"{Path(self.file).name}:{self.line}"

    @property
    def of_finding(self) -> str:
        """The id of the finding that is meant, or empty."""
        return self.pattern.removeprefix(FINDING) if self.pattern.startswith(FINDING) else ""


@dataclass(frozen=True)
class KnownGap:
    """A gap in one contract: the `Known` that marks failures of an implementation of one's own."""

    gap: Gap
    finding: Finding | None = None
    """The finding whose cases are meant, if the line names one."""

    @property
    def known(self) -> str:
        return f"a gap ({self.gap.reason})"

    @property
    def about(self) -> str:
        return f"gap/{self.gap.pattern}"

    def covers(self, outcome: Outcome) -> bool:
        asked = not self.gap.dtypes or outcome.dtype in self.gap.dtypes
        if self.finding is not None:
            return asked and self.finding.covers_case(outcome)
        return asked and matches(outcome.case, self.gap.pattern)

    def must_fail(self, outcome: Outcome) -> bool:
        if self.finding is not None and not self.finding.covers_surely(outcome):
            return False
        return self.covers(outcome)

    def closed(self, passing: str) -> str:
        return f"{self.gap.place} says these fail, but they pass: {passing}; remove or narrow the line"

    def idle(self, outcomes: Iterable[Outcome]) -> str:
        """The complaint about a line that covers only what is declined, which needs no line; or empty."""
        covered = [outcome for outcome in outcomes if self.covers(outcome)]
        if not covered or any(outcome.status != Status.DECLINED for outcome in covered):
            return ""
        covered_questions = f"{len(covered)} question{'s' * (len(covered) > 1)}"
        return (
            f"{self.gap.place} covers {covered_questions}, declined without exception: none can fail; remove the line"
        )


def read(file: str | Path) -> tuple[Gap, ...]:
    """The gaps in a file. Raises UsageError for what is no file of gaps, in one line with the file and the line."""
    try:
        lines = read_text(Path(file)).splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8; a file of known gaps has lines `case pattern: reason`") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        raise UsageError(f"the file of known gaps {file} cannot be read: {_words(error)}") from None
    said = {number: line.strip() for number, line in enumerate(lines, 1)}
    found: dict[tuple[str, tuple[str, ...]], Gap] = {}
    for number, line in said.items():
        if line and not line.startswith("#"):
            gap = _gap(str(file), number, line)
            twin = found.setdefault((gap.pattern, gap.dtypes), gap)
            if twin is not gap:
                raise UsageError(f"{gap.place} repeats line {twin.line}: {gap.pattern}")
    return tuple(found.values())


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _gap(file: str, number: int, line: str) -> Gap:
    parts, place = LINE.fullmatch(line), f"{file}:{number}"
    if parts is None:
        raise UsageError(f"{place}: {line!r:.80} should be `case pattern: reason`, or `case pattern float16: reason`")
    dtypes, reason = tuple(parts["dtypes"].split()), parts["reason"].strip()
    if unknown := [each for each in dtypes if each not in DTYPES]:
        raise UsageError(f"{place}: unknown dtype {unknown[0]!r}; there are: {', '.join(DTYPES)}")
    if not reason:
        raise UsageError(f"{place}: a gap has a reason; write it after the colon")
    return Gap(file, number, parts["pattern"], dtypes, reason)


def of_contract(gaps: Iterable[Gap], contract: Contract, findings: Sequence[Finding]) -> Iterator[KnownGap]:
    """The gaps in a contract whose `findings` apply to the installed versions; lines about other contracts are not."""
    by_id = {each.id: each for each in findings}
    for gap in gaps:
        if not gap.of_finding:
            yield KnownGap(gap)
        elif gap.of_finding in by_id:
            yield KnownGap(gap, by_id[gap.of_finding])


def refuse_unmatched(gaps: Iterable[Gap], names: Mapping[str, Iterable[str]], findings: Iterable[Finding]) -> None:
    """Raise UsageError for a line that means no case of any contract. `names` are those of cases by contract."""
    ids, everything = [each.id for each in findings], [name for of in names.values() for name in of]
    for gap in gaps:
        if gap.of_finding:
            if gap.of_finding not in ids:
                raise UsageError(f"{gap.place}: {_no_finding(gap.of_finding, ids)}")
        elif not any(matches(name, gap.pattern) for name in everything):
            families = list(dict.fromkeys(name.partition("/")[0] for name in everything))
            raise UsageError(f"{gap.place}: {nothing_matches(gap.pattern, everything, families, ' or '.join(names))}")


def _no_finding(name: str, ids: Sequence[str]) -> str:
    return f"no finding of the installed versions is called {name!r}; there are: {', '.join(ids) or 'none'}"
