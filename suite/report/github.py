"""Outcomes as GitHub Actions shows them: a page for the summary of a job, and annotations at the files that fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnsuite.model import FAILURES, Explanation, Outcome, escaped
from attnsuite.report.cells import code, said
from attnsuite.report.page import Page, Section, Table, points, section, table
from attnsuite.report.tally import (
    Group,
    breakdown,
    by_implementation,
    correctness,
    count,
    groups,
    validation,
)

LONGEST_SAID = 400
"""Characters of a message: five lines of a job's summary."""
PROPERTY = {"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"}
"""What GitHub wants written otherwise in a property of a workflow command; of its message the first three."""

Again = Mapping[str, Sequence[str]]
"""The words of a command line that name an implementation whose registered name does not, by full name."""


@dataclass(frozen=True)
class Place:
    """Where an implementation stands in the repository: its file, relative to the root, and a line, or 0."""

    file: str = ""
    line: int = 0


def summary(outcomes: Sequence[Outcome], explanations: Mapping[str, Explanation], again: Again) -> Page:
    """A row for each implementation, then what each fails, why that is known, and what was said of it."""
    found = by_implementation(outcomes)
    sections = [_section(name, members, explanations.get(name), again) for (name, _), members in found.items()]
    return Page("Attention conformance", (_counts(found), *(each for each in sections if each)))


def _counts(found: Mapping[tuple[str, str], Sequence[Outcome]]) -> Table:
    rows = []
    for (name, device), members in found.items():
        of, validated = count(correctness(members)), validation(members)
        rows.append(
            ("❌" if of.failures else "✅" if of.passed else "➖", code(name), device, f"{of.passed}/{of.run}",
             breakdown(members) or "0", of.known, of.unsupported, of.missing,
             f"{validated.refused} of {validated.total}" if validated.total else "–")
        )  # fmt: skip
    heads = ("", "implementation", "device", "passed/run", "failures", "known failures", "unsupported", "missing",
             "bad inputs refused")  # fmt: skip
    return table(heads, rows)


def _section(name: str, outcomes: Sequence[Outcome], explanation: Explanation | None, again: Again) -> Section:
    """What an implementation fails, in groups; without a block if it fails nothing."""
    alike = groups((of for of in outcomes if of.status in FAILURES and not of.lenient), again)
    rows = [(of.count, said(f"{_known(of)}{of.says}", longest=LONGEST_SAID), code(of.rerun)) for of in alike]
    where: list[str] = []
    if explanation:
        where = [*filter(None, [explanation.hint]), *explanation.where, *filter(None, [explanation.uncompared])]
    lenient = points(of.detail for of in validation(outcomes).lenient)
    return section(name, table(("tests", "failure", "run again"), rows), points(where), lenient)


def _known(of: Group) -> str:
    return f"known as {of.example.known}, " if of.example.known else ""


def errors(outcomes: Sequence[Outcome], places: Mapping[str, Place], again: Again) -> Iterator[str]:
    """An error at the implementation for each group of failures that nothing records."""
    for of in groups((outcome for outcome in outcomes if outcome.fails), again):
        name = of.example.implementation
        place = places.get(name, Place())
        shown = {"file": place.file, "line": str(place.line or ""), "title": f"{name}: {of.where}"}
        given = ",".join(f"{key}={_written(value, ':,')}" for key, value in shown.items() if value)
        times = f"{of.count} tests: " if of.count > 1 else ""
        yield f"::error {given}::{_written(f'{times}{of.says[:LONGEST_SAID]}{chr(10)}{of.rerun}')}"


def _written(words: str, besides: str = "") -> str:
    """Words so that a workflow command ends where they do, and no other begins in them."""
    return "".join(PROPERTY[sign] if sign in f"%\r\n{besides}" else sign for sign in escaped(words))
