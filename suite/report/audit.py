"""Audits → audit.md: which cases catch which deviation, and which correct strangers the suite accuses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnsuite.model import EXEMPT, Audit, Combinations, Meetings, Run
from attnsuite.report import provenance
from attnsuite.report.cells import LONGEST_CODE, code, joined, listed, plain, said
from attnsuite.report.files import refuse_foreign, texts, write
from attnsuite.report.page import Column, Page, Section, Table, beside_page, blocks, note, points, section, table

TITLE = "The suite against itself"
MOST_NAMED = 4
"""The most mistakes that are named as missed where levels meet; of more, the others are counted."""


def write_audit(folder: Path, audits: Sequence[Audit], run: Run) -> Path:
    """Write audit.md and its tables into `folder`, atomically, and return the page's path."""
    return write(folder, texts("audit", audit_page(audits, run)))[0]


def refuse_foreign_audit(folder: Path) -> None:
    """Raise UsageError where the audit.md of a folder is somebody else's, before the minutes that an audit takes."""
    refuse_foreign(folder / "audit.md", lambda text: text.startswith(f"# {TITLE}\n"))


def audit_lines(audits: Sequence[Audit]) -> list[str]:
    """What the audits found, as plain lines: the score of each contract, then every complaint."""
    return [
        plain(f"{audit.contract}: {line}", LONGEST_CODE)
        for audit in audits
        for line in (*_score(audit), *_amiss(audit))
    ]


def audit_page(audits: Sequence[Audit], run: Run) -> Page:
    """A row per contract, then every complaint; families, strangers and deviations stand in tables for programs."""
    amiss = points(f"{audit.contract}: {line}" for audit in audits for line in _amiss(audit))
    meeting = [(audit.contract, audit.combinations) for audit in audits if audit.combinations]
    data = {
        "audit": _totals(audits),
        "audit_families": _families(audits),
        "audit_strangers": _strangers(audits),
        "audit_deviations": _deviations(audits),
    }
    shown = blocks(
        provenance.run_table(run), _contracts(audits), _redrawn(audits), section("Amiss or absent", amiss),
        section("Features that meet", (section(contract, _combinations(of)) for contract, of in meeting)),
        note("Each family, stranger and deviation: ", joined([beside_page(f"{name}.csv") for name in data]), "."),
    )  # fmt: skip
    return Page(TITLE, shown, data)


def _score(audit: Audit) -> Iterator[str]:
    total = len(audit.catches)
    yield f"mutation score: {total - len(audit.missed)} of {total} deviations caught"
    yield f"distinct sets of failing cases: {audit.distinct}"
    yield f"false accusations: {len(audit.accusations)} against {len(audit.strangers)} correct strangers"
    yield f"families: {len(audit.families)}, unnecessary: {len(audit.unnecessary)}"
    if audit.combinations:
        yield from (
            f"{kind} of levels: {of.met} of {of.possible} meet; of mistakes made only where one meets, "
            f"{of.caught} of {of.mistakes} caught"
            for kind, of in _kinds(audit.combinations)
        )
    for what, of in (("other seeds", audit.redrawn), ("other arrays", audit.rearranged)):
        if of:
            accused = f"{len(of.accusations)} in {of.answers:,} answers"
            yield f"{what}: {of.seeds}, accusations with what they draw: {accused}"


def _amiss(audit: Audit) -> Iterator[str]:
    """A line for each complaint, and for each stranger whose library is missing."""
    yield from (f"missed: {name}: {audit.says[name]}" for name in audit.missed)
    yield from (f"unnecessary: {family} catches nothing that no other family catches" for family in audit.unnecessary)
    yield from (f"accused: {o.implementation} {o.case} ({o.dtype}): {o.status}: {o.detail}" for o in audit.accusations)
    for of in (audit.redrawn, audit.rearranged):
        for number, o in of.accusations if of else ():
            yield f"accused with what seed {number} draws: {o.implementation} {o.case} ({o.dtype}): {o.detail}"
    yield from (f"wrong without a mistake: {complaint}" for complaint in audit.controls)
    yield from (
        f"missed where levels meet: {each}" for each in (audit.combinations.amiss if audit.combinations else ())
    )
    yield from (f"absent: {name}: {reason}" for name, reason in audit.absent.items())


def _contracts(audits: Sequence[Audit]) -> Table:
    """A row of counts per contract."""
    heads = (
        "contract", "deviations", "caught", "distinct sets of failing cases", "families", "unnecessary", "strangers",
        "accused",
    )  # fmt: skip
    return table(heads, map(_row, audits))


def _row(of: Audit) -> list[object]:
    caught = len(of.catches) - len(of.missed)
    families = (len(of.families), len(of.unnecessary))
    return [code(of.contract), len(of.catches), caught, of.distinct, *families, len(of.strangers), len(of.accusations)]


def _redrawn(audits: Sequence[Audit]) -> Section:
    """Where other numbers or other combinations were asked for, what came of that."""
    rows = [
        (code(audit.contract), what, of.seeds, f"{of.answers:,}", len(of.accusations), f"{of.largest:.2f}")
        for audit in audits
        for what, of in (("numbers", audit.redrawn), ("combinations of features", audit.rearranged))
        if of
    ]
    heads = ("contract", "what is drawn", "seeds", "correct answers", "accused", "largest error (bounds)")
    return section("Drawn from other seeds", table(heads, rows))


def _totals(audits: Sequence[Audit]) -> Table:
    """A row of counts per contract, for programs."""
    rows = [
        (of.contract, len(of.catches), len(of.catches) - len(of.missed), len(of.strangers), len(of.accusations))
        for of in audits
    ]
    return _for_programs(("contract", "mutants", "killed", "variants", "accused"), rows)


def _families(audits: Sequence[Audit]) -> Table:
    """A row per family: its cases, how many deviations they catch, and which of these no other family does."""
    heads = ("contract", "family", "cases", "caught", "caught_alone")
    rows = [
        (audit.contract, family, count, sum(family in of for of in audit.catches.values()),
         " ".join(audit.caught_only_by(family)) or ("exempt" if family in EXEMPT else ""))
        for audit in audits for family, count in audit.families.items()
    ]  # fmt: skip
    return _for_programs(heads, rows)


def _strangers(audits: Sequence[Audit]) -> Table:
    """A row per correct stranger."""
    rows = [(audit.contract, name, says) for audit in audits for name, says in audit.strangers.items()]
    return _for_programs(("contract", "stranger", "style"), rows)


def _kinds(of: Combinations) -> tuple[tuple[str, Meetings], ...]:
    return ("pairs", of.pairs), ("fused triples", of.triples)


def _combinations(of: Combinations) -> Table:
    """How many meetings of levels the cases that combine features have, and how many mistakes they catch there."""
    heads = (
        "levels that meet",
        "possible",
        "in some case",
        "mistakes made there alone",
        "caught",
        "for example missed",
    )
    rows = [
        (kind, met.possible, met.met, met.mistakes, met.caught, said(listed(met.missed, MOST_NAMED) or "none"))
        for kind, met in _kinds(of)
    ]
    return table(heads, rows)


def _deviations(audits: Sequence[Audit]) -> Table:
    """A row per deviation: its mistake, where it was seen, and how many cases of which families catch it."""
    rows = [
        (audit.contract, name, audit.says[name], audit.sources[name],
         ", ".join(f"{family} {len(cases)}" for family, cases in families.items()))
        for audit in audits for name, families in audit.catches.items()
    ]  # fmt: skip
    return _for_programs(("contract", "deviation", "mistake", "seen_in", "caught_by"), rows)


def _for_programs(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    return table([Column(key=head) for head in heads], rows)
