"""Claims → claims.md: what documents say, what was measured, and whether it holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from attnsuite.model import Claimed, Evidence, Holds
from attnsuite.model.statistics import LEVEL
from attnsuite.report import provenance
from attnsuite.report.cells import Cell, Kind, code, number, said, strong, text
from attnsuite.report.page import Column, Page, Table, blocks, note, points, section
from attnsuite.report.page import table as table_of
from attnsuite.report.units import percent, significant
from attnsuite.results.store import Recorded

EVIDENCE = {
    Evidence.EXACT: "computed or counted: the same on every machine, but for rounding",
    Evidence.DRAWN: "a sample of random numbers of fixed seeds",
    Evidence.TRAINED: "a model that was trained, once for each seed",
    Evidence.TIMED: "by the suite's stopwatch, on one thread, round by round in random order",
}
SEVERAL = {Holds.HOLDS: "hold", Holds.DOES_NOT: "do not hold"}
"""What is said of several claims that is said otherwise of one."""
LONGEST_DETAIL = 2000
"""Characters of what a claim's numbers were made of."""


def claims(recorded: Recorded) -> Page:
    """The page: how many hold, a table of all, and how each was measured."""
    of, run = recorded.claimed, recorded.examined_runs[-1]
    shown = blocks(
        provenance.run_table(run),
        note(headline(of)),
        _table(of),
        section("How it was measured", points(_method())),
        section("Numbers on the way", _details(of)),
    )
    return Page(f"Claims of the documents on {recorded.machine}", shown, {"claims": _numbers(recorded)})


def headline(of: Sequence[Claimed]) -> str:
    """How many claims hold: "49 claims: 40 hold, 6 do not hold, 3 unclear"."""
    counts = Counter(each.holds for each in of)
    return f"{len(of)} claim{'s' * (len(of) != 1)}: " + ", ".join(
        f"{counts[holds]} {SEVERAL.get(holds, holds) if counts[holds] > 1 else holds}"
        for holds in Holds
        if counts[holds]
    )


def line(of: Claimed) -> str:
    """A claim in a line of a terminal."""
    return f"{of.claim}  {of.holds}: {of.quantity}: {measured(of) or of.detail} ({of.due} is due)"


def measured(of: Claimed) -> str:
    """The number with its interval: "1.98 (1.95 to 2.03)"; an exact one alone, and nothing where there is none."""
    if of.value is None or of.low is None or of.high is None:
        return ""
    value = _written(of.value)
    return value if of.low == of.high else f"{value} ({_written(of.low)} to {_written(of.high)})"


def _table(of: Sequence[Claimed]) -> Table:
    heads = ("claim", "document", "measured", "", "holds if", "holds?", "evidence", "name")
    return table_of(heads, map(_row, of))


def _row(of: Claimed) -> list[object]:
    place, name = f"{of.document}, {of.section}", code(of.claim)
    return [of.says, place, of.quantity, _value(of), of.due, _holds(of), str(of.evidence), name]


def _value(of: Claimed) -> Cell:
    return number(of.value, measured(of))


def _holds(of: Claimed) -> Cell:
    shown = strong(of.holds) if of.holds == Holds.DOES_NOT else str(of.holds)
    return said(shown, value=str(of.holds), kind=Kind.VERDICT)


def _details(of: Sequence[Claimed]) -> Table:
    """What the numbers were made of, by claim."""
    rows = [(code(each.claim), text(_detail(each), LONGEST_DETAIL)) for each in of if _detail(each)]
    return table_of(("claim", "numbers"), rows)


def _detail(of: Claimed) -> str:
    numbers = ", ".join(f"{name}: {_of_evidence(of, value)}" for name, value in of.numbers.items())
    return "; ".join(filter(None, (of.detail, numbers)))


def _of_evidence(of: Claimed, value: float) -> str:
    """Numbers on the way to a time are seconds."""
    return f"{significant(1000 * value)} ms" if of.evidence == Evidence.TIMED else _written(value)


def _method() -> Iterator[str]:
    yield (
        "A claim is one number and a range. It holds where the interval of the number lies within the range, does not "
        "hold where the interval lies outside, and is unclear where it lies across an end of the range."
    )
    yield (
        f"The interval of a median holds the true one with {percent(LEVEL)}, however the samples are distributed; it "
        "is not corrected for the number of claims. A number that is counted has no interval."
    )
    yield from (f"{evidence}: {says}" for evidence, says in EVIDENCE.items())


def _written(value: float) -> str:
    """A whole number, or one to three digits; a very small or large one by its power of ten."""
    if not math.isfinite(value):
        return significant(value)
    if value.is_integer() and abs(value) < 1e7:
        return f"{value:,.0f}".replace("-", "−")
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}".replace("-", "−")
    return significant(value)


def _numbers(recorded: Recorded) -> Table:
    """A row for each claim, for programs."""
    heads = ("run", "commit", "claim", "document", "section", "says", "quantity", "due", "evidence", "holds", "value",
             "low", "high", "samples", "detail", "seconds")  # fmt: skip
    rows = [
        (identity, recorded.runs[identity].commit, each.claim, each.document, each.section, each.says, each.quantity,
         each.due, str(each.evidence), str(each.holds), each.value, each.low, each.high, len(each.samples), each.detail,
         each.seconds)
        for identity, each in recorded.examined
    ]  # fmt: skip
    return table_of([Column(key=head) for head in heads], rows)
