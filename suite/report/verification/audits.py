"""audit.md held against its tables: counts of deviations, families and strangers, and who alone catches what."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from attnsuite.model import DTYPES, EXEMPT, Refusal, UsageError
from attnsuite.report.verification import markdown
from attnsuite.report.verification.texts import text_of

FAMILIES, STRANGERS, DEVIATIONS = "audit_families.csv", "audit_strangers.csv", "audit_deviations.csv"
HEADS = {
    FAMILIES: ["contract", "family", "cases", "caught", "caught_alone"],
    STRANGERS: ["contract", "stranger", "style"],
    DEVIATIONS: ["contract", "deviation", "mistake", "seen_in", "caught_by"],
}
COUNTS = ("contract", "deviations", "caught", "distinct sets of failing cases", "families", "unnecessary", "strangers",
          "accused")  # fmt: skip
MEETINGS = ("levels that meet", "possible", "in some case", "mistakes made there alone", "caught", "for example missed")
DRAWN = ("contract", "what is drawn", "seeds", "correct answers", "accused", "largest error (bounds)")
COMPLAINED = {"accused": "accused: ", "unnecessary": "unnecessary: "}
"""Columns that count complaints, and how these begin."""
CAUGHT_BY = re.compile(r"(\S+) (\d+)")
CUT = "…"
"""How a cell ends that would be too long."""
MORE = re.compile(r"(?:^| and )(\d+) more$")

Rows: TypeAlias = Sequence[tuple[int, dict[str, str]]]
"""The rows of a table with their numbers, each by its columns."""


@dataclass
class Contract:
    """What the tables hold of one contract."""

    caught_by: dict[str, Mapping[str, int]] = field(default_factory=dict)
    """Of each deviation, how many questions (a case in a dtype) of which families catch it."""
    families: dict[str, int] = field(default_factory=dict)
    """Of each family, how many cases it has."""
    strangers: int = 0

    @property
    def caught(self) -> int:
        return sum(bool(families) for families in self.caught_by.values())

    @property
    def distinct(self) -> int:
        """At least so many sets of failing cases differ: the table counts cases, and does not name them."""
        return len({tuple(families.items()) for families in self.caught_by.values() if families})

    @property
    def idle(self) -> int:
        """The families that catch nothing alone, but for those of EXEMPT."""
        return sum(family not in EXEMPT and not self.alone(family) for family in self.families)

    def alone(self, family: str) -> list[str]:
        """The deviations that no other family catches."""
        return [name for name, families in self.caught_by.items() if set(families) - EXEMPT == {family}]


def of_audit(page: Path) -> Iterator[Refusal]:
    """Where the tables contradict each other, and where the page counts otherwise than they have it."""
    read: dict[str, Rows] = {}
    for name, heads in HEADS.items():
        try:
            read[name] = list(_rows(page.with_name(name), heads))
        except (UsageError, csv.Error, ValueError) as error:
            yield Refusal(str(page.with_name(name)), "", str(error))
    if len(read) < len(HEADS):
        return
    contracts: dict[str, Contract] = {}
    yield from _deviations(page.with_name(DEVIATIONS), read[DEVIATIONS], contracts)
    yield from _families(page.with_name(FAMILIES), read[FAMILIES], contracts)
    for _, row in read[STRANGERS]:
        contracts.setdefault(row["contract"], Contract()).strangers += 1
    try:
        text = text_of(page) or ""
    except UsageError:
        return  # said already
    yield from (Refusal(str(page), where, why) for where, why in _page(text, contracts))


def _rows(path: Path, heads: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table, with their numbers. Raises ValueError where its columns are others."""
    found = csv.reader((text_of(path) or "").split("\n"), strict=True)
    for number, cells in enumerate(found, 1):
        if number == 1 and cells != heads:
            raise ValueError(f"its columns are not {', '.join(heads)}")
        if number > 1 and cells:
            if len(cells) != len(heads):
                raise ValueError(f"row {number} has {len(cells)} cells, and {len(heads)} are due")
            yield number, dict(zip(heads, cells, strict=True))


def _deviations(path: Path, rows: Rows, found: dict[str, Contract]) -> Iterator[Refusal]:
    for number, row in rows:
        said = [CAUGHT_BY.fullmatch(each) for each in filter(None, row["caught_by"].split(", "))]
        families = {each[1]: int(each[2]) for each in said if each}
        of = found.setdefault(row["contract"], Contract())
        if len(families) < len(said) or 0 in families.values():
            yield Refusal(str(path), f"row {number}, column caught_by", f"{row['caught_by']!r:.80} are no families")
        if row["deviation"] in of.caught_by:
            yield Refusal(str(path), f"row {number}", f"{row['deviation']:.80} stands there twice")
        of.caught_by[row["deviation"]] = families


def _families(path: Path, rows: Rows, found: dict[str, Contract]) -> Iterator[Refusal]:
    """Each family beside what the deviations say of it; and families that only these name."""
    for number, row in rows:
        of, family = found.setdefault(row["contract"], Contract()), row["family"]
        cases, counts = markdown.number(row["cases"]), [by[family] for by in of.caught_by.values() if family in by]
        if family in of.families or cases is None:
            why = f"{family:.80} stands there twice" if cases is not None else f"{row['cases']!r:.40} is no count"
            yield Refusal(str(path), f"row {number}", why)
        of.families[family] = cases or 0
        if max(counts, default=0) > (cases or 0) * len(DTYPES):
            why = f"{max(counts)} of its questions catch a deviation, and it has {cases} cases"
            yield Refusal(str(path), f"row {number}, column cases", why)
        due = {"caught": str(len(counts)), "caught_alone": " ".join(of.alone(family)) or "exempt" * (family in EXEMPT)}
        for column, its in due.items():
            if row[column] != its and not (row[column].endswith(CUT) and its.startswith(row[column][:-1])):
                why = f"{row[column]!r:.80} stands here, and {DEVIATIONS} gives {its!r:.80}"
                yield Refusal(str(path), f"row {number}, column {column}", why)
    for contract, of in found.items():
        for family in sorted({each for by in of.caught_by.values() for each in by} - of.families.keys()):
            yield Refusal(str(path), "", f"it has no family {family:.80} of {contract:.80}, which catches deviations")


def _page(text: str, contracts: Mapping[str, Contract]) -> Iterator[tuple[str, str]]:
    said = [line for _, line in markdown.points(text)]
    there = list(markdown.rows(text, COUNTS))
    counts = [row for row in there if set(row.cells) >= set(COUNTS)]
    for contract in sorted(contracts.keys() ^ {row.cells["contract"] for row in counts}):
        yield "", f"{contract:.80} is not both in the table of counts and in the tables beside the page"
    for row in counts:
        name = row.cells["contract"]
        if (of := contracts.get(name)) is None:
            continue
        complaints = {
            column: sum(line.startswith(f"{name}: {begins}") for line in said) for column, begins in COMPLAINED.items()
        }
        most = len(of.families)
        for column, least, largest in (
            ("deviations", len(of.caught_by), len(of.caught_by)),
            ("caught", of.caught, of.caught),
            ("distinct sets of failing cases", of.distinct, of.caught),
            ("families", most, most),
            ("unnecessary", max(of.idle - 1, 0), of.idle),  # the core may be exempt as well
            ("strangers", of.strangers, of.strangers),
            *((column, count, count) for column, count in complaints.items()),
        ):
            found = markdown.number(row.cells[column])
            if found is None or not least <= found <= largest:
                due = str(least) if least == largest else f"{least} to {largest}"
                yield f"{row.where}, column {column}", f"{row.cells[column]!r:.40} of {name:.80} stands here, not {due}"
        lost = len(of.caught_by) - of.caught
        if (missed := sum(line.startswith(f"{name}: missed: ") for line in said)) != lost:
            yield row.where, f"{lost} deviations of {name:.80} are caught by no family, and the page names {missed}"
    yield from _meetings(text)
    yield from _drawn(text, said)


def _meetings(text: str) -> Iterator[tuple[str, str]]:
    """Levels that meet: no more than can, and of mistakes made there those that are not caught are counted."""
    for row in markdown.rows(text, MEETINGS):
        numbers = [markdown.number(row.cells.get(head, "")) for head in MEETINGS[1:5]]
        possible, met, mistakes, caught = (-1 if each is None else each for each in numbers)
        said = row.cells.get(MEETINGS[5], "none")
        more = MORE.search(said)
        named = 0 if said == "none" else said.count("`, `") + 1
        missed = named + (int(more[1]) if more else 0)
        if not (0 <= met <= possible and 0 <= caught <= mistakes):
            yield row.where, f"{met} of {possible} meet and {caught} of {mistakes} mistakes are caught, which cannot be"
        elif missed != mistakes - caught:
            yield row.where, f"{caught} of {mistakes} mistakes are caught, and {missed} are named or counted as missed"


def _drawn(text: str, said: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Accusations with what other seeds draw: as many as complaints."""
    counted: dict[str, int] = {}
    for row in markdown.rows(text, DRAWN):
        found = markdown.number(row.cells.get("accused", ""))
        if found is None:
            yield f"{row.where}, column accused", f"{row.cells.get('accused')!r:.40} is no count"
        counted[row.cells["contract"]] = counted.get(row.cells["contract"], 0) + (found or 0)
    for contract, count in counted.items():
        complaints = sum(line.startswith(f"{contract}: accused with what seed") for line in said)
        if complaints != count:
            yield "", f"{count} accusations of {contract:.80} are counted, and {complaints} are named"
