"""Audits → audit.md: which cases kill which mutant, and which correct variants fail a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnsuite.model import EXEMPT, Audit, Combinations, LevelCoverage, Run
from attnsuite.report import provenance
from attnsuite.report.cells import LONGEST_CODE, code, joined, name_list, plain, said
from attnsuite.report.files import refuse_foreign, texts, write
from attnsuite.report.page import Column, Page, Section, Table, blocks, file_link, note, points, section, table

TITLE = "The suite against itself"
MOST_NAMED = 4
"""Mutants that are named as survivors where levels meet; of more, the others are counted."""


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
        for line in (*_score(audit), *_complaints(audit))
    ]


def audit_page(audits: Sequence[Audit], run: Run) -> Page:
    """A row per contract, then every complaint; families, variants and mutants stand in CSV files."""
    complaints = points(f"{audit.contract}: {line}" for audit in audits for line in _complaints(audit))
    meeting = [(audit.contract, audit.combinations) for audit in audits if audit.combinations]
    data = {
        "audit": _totals(audits),
        "audit_families": _families(audits),
        "audit_variants": _variants(audits),
        "audit_mutants": _mutants(audits),
    }
    shown = blocks(
        provenance.run_table(run), _contracts(audits), _redrawn(audits), section("Complaints", complaints),
        section("Features that meet", (section(contract, _combinations(of)) for contract, of in meeting)),
        note("Each family, variant and mutant: ", joined([file_link(f"{name}.csv") for name in data]), "."),
    )  # fmt: skip
    return Page(TITLE, shown, data)


def _score(audit: Audit) -> Iterator[str]:
    total = len(audit.kills)
    yield f"mutation score: {total - len(audit.survived)} of {total} mutants killed"
    yield f"distinct sets of failing cases: {audit.distinct}"
    yield f"correct variants: {len(audit.variants)}, tests that they fail: {len(audit.accusations)}"
    yield f"families: {len(audit.families)}, unnecessary: {len(audit.unnecessary)}"
    if audit.combinations:
        yield from (
            f"{kind} of levels: {of.met} of {of.possible} meet; of mutants that are wrong only where one meets, "
            f"{of.killed} of {of.mutants} are killed"
            for kind, of in _kinds(audit.combinations)
        )
    for what, of in (("other seeds", audit.redrawn), ("other arrays", audit.rearranged)):
        if of:
            yield f"{what}: {of.seeds}; correct variants fail {len(of.accusations)} of {of.results:,} tests"


def _complaints(audit: Audit) -> Iterator[str]:
    """A line for each complaint, and for each variant whose library is missing."""
    yield from (f"survived: {name}: {audit.mistakes[name]}" for name in audit.survived)
    yield from (f"unnecessary: {family} kills no mutant that no other family kills" for family in audit.unnecessary)
    yield from (f"accused: {o.implementation} {o.case} ({o.dtype}): {o.status}: {o.detail}" for o in audit.accusations)
    for of in (audit.redrawn, audit.rearranged):
        for number, o in of.accusations if of else ():
            yield f"accused with what seed {number} draws: {o.implementation} {o.case} ({o.dtype}): {o.detail}"
    yield from (f"wrong without a mistake: {complaint}" for complaint in audit.controls)
    yield from (
        f"survived where levels meet: {each}" for each in (audit.combinations.survived if audit.combinations else ())
    )
    yield from (f"absent: {name}: {reason}" for name, reason in audit.absent.items())


def _contracts(audits: Sequence[Audit]) -> Table:
    """A row of counts per contract."""
    heads = (
        "contract", "mutants", "killed", "distinct sets of failing cases", "families", "unnecessary",
        "correct variants", "accused",
    )  # fmt: skip
    return table(heads, map(_row, audits))


def _row(of: Audit) -> list[object]:
    killed = len(of.kills) - len(of.survived)
    families = (len(of.families), len(of.unnecessary))
    return [code(of.contract), len(of.kills), killed, of.distinct, *families, len(of.variants), len(of.accusations)]


def _redrawn(audits: Sequence[Audit]) -> Section:
    """The results of correct variants on other numbers and other combinations of features."""
    rows = [
        (code(audit.contract), what, of.seeds, f"{of.results:,}", len(of.accusations), f"{of.largest:.2f}")
        for audit in audits
        for what, of in (("numbers", audit.redrawn), ("combinations of features", audit.rearranged))
        if of
    ]
    heads = ("contract", "what is drawn", "seeds", "correct results", "accused", "largest error (bounds)")
    return section("Drawn from other seeds", table(heads, rows))


def _totals(audits: Sequence[Audit]) -> Table:
    """A row of counts per contract, for programs."""
    rows = [
        (of.contract, len(of.kills), len(of.kills) - len(of.survived), len(of.variants), len(of.accusations))
        for of in audits
    ]
    return _for_programs(("contract", "mutants", "killed", "variants", "accused"), rows)


def _families(audits: Sequence[Audit]) -> Table:
    """A row per family: its cases, how many mutants they kill, and which of these no other family kills."""
    heads = ("contract", "family", "cases", "killed", "killed_alone")
    rows = [
        (audit.contract, family, count, sum(family in of for of in audit.kills.values()),
         " ".join(audit.killed_only_by(family)) or ("exempt" if family in EXEMPT else ""))
        for audit in audits for family, count in audit.families.items()
    ]  # fmt: skip
    return _for_programs(heads, rows)


def _variants(audits: Sequence[Audit]) -> Table:
    """A row per correct variant."""
    rows = [(audit.contract, name, style) for audit in audits for name, style in audit.variants.items()]
    return _for_programs(("contract", "variant", "style"), rows)


def _kinds(of: Combinations) -> tuple[tuple[str, LevelCoverage], ...]:
    return ("pairs", of.pairs), ("fused triples", of.triples)


def _combinations(of: Combinations) -> Table:
    """How many meetings of levels the cases that combine features have, and how many mutants they kill there."""
    heads = (
        "levels that meet",
        "possible",
        "in some case",
        "mutants wrong there alone",
        "killed",
        "survivors",
    )
    rows = [
        (kind, met.possible, met.met, met.mutants, met.killed, said(name_list(met.survived, MOST_NAMED) or "none"))
        for kind, met in _kinds(of)
    ]
    return table(heads, rows)


def _mutants(audits: Sequence[Audit]) -> Table:
    """A row per mutant: its mistake, where it was seen, and how many cases of which families kill it."""
    rows = [
        (audit.contract, name, audit.mistakes[name], audit.sources[name],
         ", ".join(f"{family} {len(cases)}" for family, cases in families.items()))
        for audit in audits for name, families in audit.kills.items()
    ]  # fmt: skip
    return _for_programs(("contract", "mutant", "mistake", "seen_in", "killed_by"), rows)


def _for_programs(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
    return table([Column(key=head) for head in heads], rows)
