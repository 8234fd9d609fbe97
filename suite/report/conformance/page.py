"""Outcomes → the page of conformance, one section per question that a reader has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from suite.records import EVERY_CASE, FAILURES, Outcome, Run, Status
from suite.report import facts, provenance
from suite.report.cells import Cell, code, emphasis, listed, said, spans, status, text
from suite.report.conformance import features
from suite.report.conformance.examples import example_table, given
from suite.report.conformance.strangers import strangers
from suite.report.conformance.tally import COUNTS, Group, breakdown, by_implementation, count, dtypes, groups
from suite.report.page import Block, Column, Note, Page, Section, Table, blocks, note, points, section, table
from suite.store import Recorded

MOST_NAMED = 12
"""The most implementations that are named beside an earlier run; of more, the others are counted."""
WORDS = {
    Status.PASSED: "the answer is within the bound",
    Status.WRONG: "it is not; what is said in quotes is a known mistake that gives the same answer",
    Status.RAISED: "an exception came instead of an answer",
    Status.DIED: "the process ended: a crash, or the system killed it",
    Status.HUNG: "no answer came in time",
    Status.DECLINED: "the implementation does not support this, and says why",
    Status.MISSING: "a library that it requires is not installed",
    "known failure": "a finding records that this library fails here; a check does not fail for it",
}
"""The words that this page uses for what became of a case, each explained."""
LONGEST_FINDING = 600
"""Characters of a finding: it explains a row of failures, and the longest that ships is shorter."""


def conformance(recorded: Recorded) -> Page:
    """The page and its tables for programs."""
    outcomes, run = recorded.outcomes, recorded.checked_run or recorded.run
    declared, contracts = facts.declared(recorded), facts.contracts(recorded)
    again = {name: of.again.get(name, ()) for name, of in declared.items()}
    failures = [outcome for outcome in outcomes if outcome.status in FAILURES]
    new = groups((outcome for outcome in failures if not outcome.known), again)
    known = groups((outcome for outcome in failures if outcome.known), again)
    of_documents = facts.examples(recorded)
    matrix, examples = features.feature_matrix(outcomes, contracts), example_table(of_documents)
    words = [spans(emphasis(word), f": {means}.") for word, means in WORDS.items()]
    shown = blocks(
        provenance.run_table(run),
        _several(recorded.checked_runs),
        headline(outcomes),
        section("Rows of an earlier run", _earlier(recorded.earlier)),
        section("Failures", failure_table(new)),
        section("Known failures", failure_table(known, facts.findings(recorded))),
        _reasons("Missing", outcomes, Status.MISSING),
        features.feature_section(matrix, contracts),
        section("Declared gaps", features.gaps(declared)),
        section("Declared conventions", features.conventions(declared)),
        section("Strangers", strangers(declared)),
        _reasons("Declined", outcomes, Status.DECLINED),
        section("The documents' examples", given(of_documents), examples),
        section("What the words mean", points(words)) if outcomes else (),
    )
    data = {
        "conformance": _counts(outcomes),
        "conformance_features": features.feature_counts(matrix),
        "conformance_failures": failure_table(groups(failures, again)),
        "conformance_examples": examples,
    }
    return Page(f"Conformance on {run.machine.name}", shown, data)


def _several(runs: Sequence[Run]) -> Note:
    """The dates and versions of torch of all runs, if the rows are from several."""
    if len(runs) < 2:
        return note()
    used = " with ".join(filter(None, (provenance.when(runs), provenance.torch(runs))))
    return note(f"Checked in {len(runs)} runs {used}: above is the newest, and below stands what is of an earlier one.")


def headline(outcomes: Sequence[Outcome]) -> Iterator[Block]:
    """Implementation × dtype: passed/asked, and beside it how many were declined or failed."""
    found, columns = by_implementation(outcomes), dtypes(outcomes)
    if not found:
        yield note("Nothing is recorded yet.")
        return
    rows: list[list[object]] = [
        [code(name), device, *_headline_cells(members, columns)]
        for (name, device), members in found.items()
        if count(members).asked
    ]
    if len(rows) > 1:
        rows.append(["all", "", *_headline_cells(outcomes, columns)])
    yield table(("implementation", "device", *columns, "all", "declined", "failures", "known failures"), rows)
    yield from _not_asked([name for (name, _), members in found.items() if not count(members).asked])
    yield note("Passed/asked. What was declined or is missing was not asked: it counts as neither.")


def _not_asked(names: Sequence[str]) -> Iterator[Note]:
    """A line for those that could be asked nothing on this machine, such as kernels of a device that it lacks."""
    if names:
        yield note("Asked nothing here, for all was declined or a library is missing: ", listed(names, MOST_NAMED), ".")


def _headline_cells(outcomes: Sequence[Outcome], columns: Sequence[str]) -> list[object]:
    total = count(outcomes)
    cells = [str(count(outcome for outcome in outcomes if outcome.dtype == dtype)) for dtype in columns]
    return [*cells, str(total), total.declined, breakdown(outcomes) or "0", total.known]


def _earlier(earlier: Mapping[str, Run]) -> Table:
    """The earlier runs that have rows on this page, and the implementations whose rows they are."""
    whose: dict[str, list[str]] = defaultdict(list)
    for name, run in sorted(earlier.items(), key=lambda of: (of[1].started, of[0])):
        whose[run.id].append(name)
    rows = [(*provenance.of_run(earlier[names[0]]), said(listed(names, MOST_NAMED))) for names in whose.values()]
    return table((*provenance.OF_RUN, "of"), rows)


def failure_table(found: Sequence[Group], findings: Mapping[str, str] | None = None) -> Table:
    """A row per group of failures; `findings`, if given, add a column that says what is known about each."""
    columns = [
        Column("implementation", "implementation"), Column(key="device"), Column(key="status"), Column(key="finding"),
        Column("count", "count"), Column("what"), Column(key="detail"), Column("for example"), Column(key="case"),
        Column(key="dtype"), Column("ask again", "ask_again"),
    ]  # fmt: skip
    more = [] if findings is None else [Column("finding")]
    return table([*columns, *more], [[*_failure(of), *(_finding(of, findings or {}) for _ in more)] for of in found])


def _failure(of: Group) -> list[object]:
    one = of.example
    who = (code(one.implementation), one.device, status(one.status), one.known, of.count)
    return [*who, of.says, one.detail, of.where, one.case, one.dtype, code(of.rerun)]


def _finding(of: Group, findings: Mapping[str, str]) -> Cell:
    name = of.example.known
    return text(f"{name}: {findings[name]}" if name in findings else name, LONGEST_FINDING)


def _reasons(title: str, outcomes: Sequence[Outcome], of: Status) -> Section:
    """A section that says why outcomes have this status, by implementation."""
    rows: list[Sequence[object]] = []
    for group in groups(outcome for outcome in outcomes if outcome.status is of):
        example = group.example
        reason = example.detail or "no reason given"
        if group.others:
            reason = f"{group.others} other reasons, such as {reason}"
        asked = "every case" if example.case == EVERY_CASE else group.count
        rows.append((code(example.implementation), example.device, asked, reason))
    return section(title, table(("implementation", "device", "questions", "reason"), rows))


def _counts(outcomes: Sequence[Outcome]) -> Table:
    """A row per implementation, device and dtype, for programs."""
    rows = [
        (name, device, dtype, *count(outcome for outcome in members if outcome.dtype == dtype).numbers)
        for (name, device), members in by_implementation(outcomes).items()
        for dtype in sorted({outcome.dtype for outcome in members})
    ]
    return table([Column(key=key) for key in ("implementation", "device", "dtype", *COUNTS)], rows)
