"""Outcomes for GitHub Actions: the summary page of a job, and annotations at the files that fail."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnsuite.model import FAILURES, Explanation, Outcome, escaped
from attnsuite.report.page import Page, Section, Table, code, points, section, table, text
from attnsuite.report.tally import breakdown, by_implementation, correctness, count, groups, validation

LONGEST_MESSAGE = 400
"""Characters of a message: five lines of a job's summary."""
PROPERTY = {"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"}
"""Escapes in a property of a workflow command; its message needs the first three."""

Again = Mapping[str, Sequence[str]]
"""Command-line words by full name, for implementations that their registered name does not identify."""


@dataclass(frozen=True)
class Place:
    """The file of an implementation, relative to the repository's root, and its line, or 0."""

    file: str = ""
    line: int = 0


def summary(outcomes: Sequence[Outcome], explanations: Mapping[str, Explanation], again: Again) -> Page:
    """A row per implementation, then the failures of each, with the features that they share."""
    tested = by_implementation(outcomes)
    sections = [_section(name, members, explanations.get(name), again) for (name, _), members in tested.items()]
    return Page("Attention conformance", (_counts(tested), *filter(None, sections)))


def _counts(tested: Mapping[tuple[str, str], Sequence[Outcome]]) -> Table:
    rows = []
    for (name, device), members in tested.items():
        counts, validated = count(correctness(members)), validation(members)
        rows.append(
            ("❌" if counts.failures else "✅" if counts.passed else "➖", code(name), device,
             f"{counts.passed}/{counts.run}", breakdown(members) or "0", counts.known, counts.unsupported,
             counts.missing, f"{validated.refused} of {validated.total}" if validated.total else "–")
        )  # fmt: skip
    heads = ("", "implementation", "device", "passed/run", "failures", "known failures", "unsupported", "missing",
             "bad inputs refused")  # fmt: skip
    return table(heads, rows)


def _section(name: str, outcomes: Sequence[Outcome], explanation: Explanation | None, again: Again) -> Section:
    """The failures of an implementation in groups; an empty section without failures."""
    failures = groups((o for o in outcomes if o.status in FAILURES and not o.lenient), again)
    rows = [(group.count, text(group.message, LONGEST_MESSAGE), code(group.rerun)) for group in failures]
    hints = (explanation.hint, *explanation.where, explanation.uncompared) if explanation else ()
    lenient = points(outcome.detail for outcome in validation(outcomes).lenient)
    return section(name, table(("tests", "failure", "run again"), rows), points(filter(None, hints)), lenient)


def errors(outcomes: Sequence[Outcome], places: Mapping[str, Place], again: Again) -> Iterator[str]:
    """An error annotation at the implementation for each group of unexpected failures."""
    for group in groups((outcome for outcome in outcomes if outcome.fails), again):
        name = group.example.implementation
        place = places.get(name, Place())
        fields = {"file": place.file, "line": str(place.line or ""), "title": f"{name}: {group.where}"}
        properties = ",".join(f"{key}={_written(value, ':,')}" for key, value in fields.items() if value)
        times = f"{group.count} tests: " if group.count > 1 else ""
        yield f"::error {properties}::{_written(f'{times}{group.message[:LONGEST_MESSAGE]}{chr(10)}{group.rerun}')}"


def _written(words: str, besides: str = "") -> str:
    """Words escaped so that they neither end a workflow command nor begin another."""
    return "".join(PROPERTY[sign] if sign in f"%\r\n{besides}" else sign for sign in escaped(words))
