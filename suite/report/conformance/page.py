"""Outcomes → the page of conformance, one section per question that a reader has."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnsuite.model import FAILURES, ContractFacts, Example, Facts, Outcome, Run, Status
from attnsuite.report import facts, provenance
from attnsuite.report.benchmark.wording import ATTENTION
from attnsuite.report.cells import Cell, code, emphasis, joined, listed, said, spans, status, text
from attnsuite.report.conformance import features
from attnsuite.report.conformance.examples import example_table, given, reproduced
from attnsuite.report.conformance.reasons import reasons, reasons_together
from attnsuite.report.conformance.strangers import strangers
from attnsuite.report.conformance.tally import (
    COUNTS,
    Group,
    breakdown,
    by_implementation,
    count,
    dtypes,
    grouped,
    groups,
    validation,
)
from attnsuite.report.page import (
    Block,
    Column,
    Note,
    Page,
    Table,
    beside_page,
    blocks,
    first,
    note,
    points,
    section,
    table,
)
from attnsuite.results.store import Recorded

MOST_NAMED = 12
"""The most implementations that are named beside an earlier run; of more, the others are counted."""
MOST_ASKED = 100
"""The most implementations in the table of who passes; of more, the others are counted."""
MOST_FAILURES = 60
"""The most groups of failures; of more, the others are counted."""
MOST_REASONS = 30
"""The most lines of reasons and conventions on the shorter page."""
DECLINED, DECLARED = "conformance_declined.csv", "conformance_declared.csv"
"""The tables of what was declined and why, and of what implementations declare, beside the page."""
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


def conformance(recorded: Recorded) -> Iterator[Page]:
    """The page in two lengths, each with its tables for programs: with every feature, gap, reason and example, or not.

    The shorter one is for when nobody would read the longer: what it leaves out stands in the tables for programs.
    """
    of = _Found.of(recorded)
    return (_page(of, details) for details in (_all_details, _few_details))


@dataclass(frozen=True)
class _Found:
    """What the page is made of."""

    recorded: Recorded
    run: Run
    outcomes: Sequence[Outcome]
    declared: Mapping[str, Facts]
    contracts: Mapping[str, ContractFacts]
    matrix: features.Matrix
    examples: Sequence[Example]

    @classmethod
    def of(cls, recorded: Recorded) -> _Found:
        outcomes, run = recorded.outcomes, recorded.checked_run or recorded.run
        declared, contracts = facts.declared(recorded), facts.contracts(recorded)
        matrix = features.feature_matrix(outcomes, contracts)
        return cls(recorded, run, outcomes, declared, contracts, matrix, facts.examples(recorded))

    @cached_property
    def headline(self) -> list[Block]:
        """Who passes what."""
        return list(headline(self.outcomes, facts.sampled(self.recorded)))

    @cached_property
    def groups(self) -> tuple[list[Group], list[Group], list[Group]]:
        """The failures in groups: all, those that no finding records, those that one does."""
        again = {name: of.again.get(name, ()) for name, of in self.declared.items()}
        failures = [of for of in self.outcomes if of.status in FAILURES and not of.lenient]
        new, known = ([of for of in failures if bool(of.known) is found] for found in (False, True))
        return groups(failures, again), groups(new, again), groups(known, again)

    @cached_property
    def data(self) -> dict[str, Table]:
        """The tables for programs."""
        return {
            "conformance": _counts(self.outcomes),
            "conformance_features": features.feature_counts(self.matrix),
            "conformance_failures": failure_table(self.groups[0]),
            "conformance_declined": reasons(self.outcomes, Status.DECLINED, Status.MISSING),
            "conformance_declared": features.declarations(self.declared),
            "conformance_examples": example_table(self.examples),
        }


def _page(of: _Found, details: Callable[[_Found], Iterable[Block]]) -> Page:
    _, new, known = of.groups
    words = [spans(emphasis(word), f": {means}.") for word, means in WORDS.items()]
    shown = blocks(
        provenance.run_table(of.run),
        _several(of.recorded.checked_runs),
        of.headline,
        note("For programs and spreadsheets: ", joined([beside_page(f"{name}.csv") for name in of.data]), "."),
        section("Rows of an earlier run", _earlier(of.recorded.earlier)),
        section("Failures", first(failure_table(new), MOST_FAILURES, "conformance_failures.csv")),
        section(
            "Known failures",
            first(failure_table(known, facts.findings(of.recorded)), MOST_FAILURES, "conformance_failures.csv"),
        ),
        section("Input validation", input_validation(of.outcomes)),
        details(of),
        section("What the words mean", points(words)) if of.outcomes else (),
    )
    return Page(f"Conformance on {of.run.machine.name}", shown, of.data)


def _all_details(of: _Found) -> Iterator[Block]:
    """Each feature, gap, convention, reason and example."""
    yield section("Missing", reasons(of.outcomes, Status.MISSING))
    yield features.feature_section(of.matrix, of.contracts)
    yield section("Declared gaps", features.gaps(of.declared))
    yield section("Declared conventions", features.conventions(of.declared))
    yield section("Strangers", strangers(of.declared))
    yield section("Declined", reasons(of.outcomes, Status.DECLINED))
    yield section("The documents' examples", given(of.examples), of.data["conformance_examples"])


def _few_details(of: _Found) -> Iterator[Block]:
    """The features of the first contract, reasons of all implementations together, and examples that somebody fails."""
    yield section("Missing", first(reasons_together(of.outcomes, Status.MISSING), MOST_REASONS, DECLINED))
    chosen = min((contract for contract, _, _ in of.matrix), key=lambda name: (name != ATTENTION, name), default="")
    only = {key: counts for key, counts in of.matrix.items() if key[0] == chosen}
    others = len({contract for contract, _, _ in of.matrix}) - 1
    yield features.feature_section(only, of.contracts)
    yield note(f"Of {others} more contracts: ", beside_page("conformance_features.csv"), ".") if others > 0 else note()
    yield section("Declared conventions", first(features.conventions(of.declared), MOST_REASONS, DECLARED))
    yield section("Strangers", first(strangers(of.declared), MOST_REASONS, DECLARED))
    yield section("Declined", first(reasons_together(of.outcomes, Status.DECLINED), MOST_REASONS, DECLINED))
    yield section("The documents' examples", given(of.examples), reproduced(of.examples))


def _several(runs: Sequence[Run]) -> Note:
    """The dates and versions of torch of all runs, if the rows are from several."""
    if len(runs) < 2:
        return note()
    used = " with ".join(filter(None, (provenance.when(runs), provenance.torch(runs))))
    return note(f"Checked in {len(runs)} runs {used}: above is the newest, and below stands what is of an earlier one.")


def headline(outcomes: Sequence[Outcome], sampled: Mapping[str, tuple[int, int]]) -> Iterator[Block]:
    """Implementation × dtype: passed/asked, and beside it how many were declined or failed.

    `sampled` has the implementations that were tested on a sample, with their tests in it and in all.
    """
    found, columns = by_implementation(outcomes), dtypes(outcomes)
    if not found:
        yield note("Nothing is recorded yet.")
        return
    rows: list[list[object]] = [
        [code(name), device, *_headline_cells(members, columns, name in sampled)]
        for (name, device), members in found.items()
        if count(members).asked
    ]
    if len(rows) > MOST_ASKED:
        rest = f"{len(rows) - MOST_ASKED} more, which stand in conformance.csv"
        rows = [*rows[:MOST_ASKED], [rest]]
    if len(rows) > 1:
        rows.append(["all", "", *_headline_cells(outcomes, columns)])
    yield table(("implementation", "device", *columns, "all", "declined", "failures", "known failures"), rows)
    yield from _not_asked([name for (name, _), members in found.items() if not count(members).asked])
    yield sample_note({name: sampled[name] for name, _ in found if name in sampled})
    yield note("Passed/asked. What was declined or is missing was not asked: it counts as neither.")


def _not_asked(names: Sequence[str]) -> Iterator[Note]:
    """A line for those that could be asked nothing on this machine, such as kernels of a device that it lacks."""
    if names:
        yield note("Asked nothing here, for all was declined or a library is missing: ", listed(names, MOST_NAMED), ".")


def sample_note(sampled: Mapping[str, tuple[int, int]]) -> Note:
    """The implementations that the newest run tested on a sample; nothing where it tested all of all."""
    if not sampled:
        return note()
    named = [part for name, of in sampled.items() for part in (", ", code(name), " {:,} of {:,} tests".format(*of))]
    said = "Tested on a sample by their newest run, every feature once ("
    return note(said, code("attnsuite run --full"), " tests everything): ", *named[1:], ".")


def _headline_cells(outcomes: Sequence[Outcome], columns: Sequence[str], sample: bool = False) -> list[object]:
    total, by_dtype = count(outcomes), grouped(outcomes, lambda outcome: (outcome.dtype,))
    cells = [str(count(by_dtype.get((dtype,), ()))) for dtype in columns]
    return [*cells, f"{total}{' (sample)' * sample}", total.declined, breakdown(outcomes) or "0", total.known]


def input_validation(outcomes: Sequence[Outcome]) -> Table:
    """A row per implementation that accepted bad input where no check fails for it."""
    found = {key: validation(members) for key, members in by_implementation(outcomes).items()}
    rows = [
        (code(name), device, f"{of.refused} of {of.given}", said(listed(cases, MOST_NAMED)))
        for (name, device), of in found.items()
        if (cases := [each.case for each in of.lenient])
    ]
    return table(("implementation", "device", "bad inputs refused", "accepted"), rows)


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
    return table(
        [*columns, *more], [[*_failure(of), *(finding(of.example.known, findings or {}) for _ in more)] for of in found]
    )


def _failure(of: Group) -> list[object]:
    one = of.example
    who = (code(one.implementation), one.device, status(one.status), one.known, of.count)
    return [*who, of.says, one.detail, of.where, one.case, one.dtype, code(of.rerun)]


def finding(name: str, findings: Mapping[str, str]) -> Cell:
    """A finding with its words, where they are noted."""
    return text(f"{name}: {findings[name]}" if name in findings else name, LONGEST_FINDING)


def _counts(outcomes: Sequence[Outcome]) -> Table:
    """A row per implementation, device and dtype, for programs."""
    rows = [
        (*key, *count(members).numbers)
        for key, members in grouped(outcomes, lambda of: (of.implementation, of.device, of.dtype)).items()
    ]
    return table([Column(key=key) for key in ("implementation", "device", "dtype", *COUNTS)], rows)
