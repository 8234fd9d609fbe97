"""Audits → audit.md: which cases kill which mutant, and which correct variants fail a test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnsuite.model import EXEMPT, Audit, Combinations, LevelCoverage, Run
from attnsuite.report import provenance
from attnsuite.report.cells import LONGEST_CODE, Cell, code, joined, name_list, plain, spans
from attnsuite.report.files import refuse_foreign, texts, write
from attnsuite.report.page import (
    Column,
    Page,
    Section,
    Table,
    blocks,
    data_table,
    file_link,
    note,
    points,
    section,
    table,
)

TITLE = "The suite against itself"
MOST_NAMED = 4
"""Survivors that a row of combinations names; further ones are counted."""


def write_audit(folder: Path, audits: Sequence[Audit], run: Run) -> Path:
    """Write audit.md and its tables into `folder`, atomically, and return the page's path."""
    return write(folder, texts("audit", audit_page(audits, run)))[0]


def refuse_foreign_audit(folder: Path) -> None:
    """Raise UsageError for an audit.md that attnsuite did not write, before an audit takes minutes."""
    refuse_foreign(folder / "audit.md", lambda text: text.startswith(f"# {TITLE}\n"))


def audit_lines(audits: Sequence[Audit]) -> list[str]:
    """The results of the audits as plain lines: the score of each contract, then every complaint."""
    lines = ((audit, line) for audit in audits for line in (*_score(audit), *_complaints(audit)))
    return [plain(f"{audit.contract}: {line}", LONGEST_CODE) for audit, line in lines]


def audit_page(audits: Sequence[Audit], run: Run) -> Page:
    """A row per contract, then every complaint; families, variants and mutants are CSV files."""
    complaints = points(f"{audit.contract}: {line}" for audit in audits for line in _complaints(audit))
    combined = (section(audit.contract, _combinations(audit.combinations)) for audit in audits if audit.combinations)
    data = {
        "audit": _contracts(audits),
        "audit_families": _families(audits),
        "audit_variants": _variants(audits),
        "audit_mutants": _mutants(audits),
    }
    content = blocks(
        provenance.run_table(run), data["audit"], _redrawn(audits), section("Complaints", complaints),
        section("Combinations of features", combined),
        note("Each family, variant and mutant: ", joined([file_link(f"{name}.csv") for name in data]), "."),
    )  # fmt: skip
    return Page(TITLE, content, data)


def _score(audit: Audit) -> Iterator[str]:
    total = len(audit.kills)
    yield f"mutation score: {total - len(audit.survived)} of {total} mutants killed"
    yield f"distinct sets of failing cases: {audit.distinct}"
    yield f"correct variants: {len(audit.variants)}, tests that they fail: {len(audit.accusations)}"
    yield f"families: {len(audit.families)}, unnecessary: {len(audit.unnecessary)}"
    for kind, meetings in _kinds(audit.combinations) if audit.combinations else ():
        yield (
            f"{kind} of features: {meetings.met} of {meetings.possible} are in a case; "
            f"{meetings.killed} of {meetings.mutants} mutants that are wrong for one of them alone are killed"
        )
    for kind, redrawn in (("other numbers", audit.redrawn), ("other combinations", audit.rearranged)):
        if redrawn:
            failed = f"correct variants fail {len(redrawn.accusations)} of {redrawn.results:,} tests"
            yield f"{kind}, {redrawn.seeds} seeds: {failed}"


def _complaints(audit: Audit) -> Iterator[str]:
    """A line for each complaint, and for each variant whose library is missing."""
    yield from (f"survived: {name}: {audit.mistakes[name]}" for name in audit.survived)
    yield from (f"unnecessary: {family} kills no mutant that no other family kills" for family in audit.unnecessary)
    yield from (f"accused: {o.implementation} {o.case} ({o.dtype}): {o.status}: {o.detail}" for o in audit.accusations)
    for redrawn in filter(None, (audit.redrawn, audit.rearranged)):
        for seed, o in redrawn.accusations:
            yield f"accused with seed {seed}: {o.implementation} {o.case} ({o.dtype}): {o.detail}"
    yield from (f"wrong without a mutation: {complaint}" for complaint in audit.controls)
    combined = audit.combinations.survived if audit.combinations else ()
    yield from (f"survived a combination: {name}" for name in combined)
    yield from (f"missing: {name}: {reason}" for name, reason in audit.absent.items())


def _contracts(audits: Sequence[Audit]) -> Table:
    """A row of counts per contract."""
    columns = (
        Column("contract", "contract"), Column("mutants", "mutants"), Column("killed", "killed"),
        Column("distinct sets of failing cases"), Column("families"), Column("unnecessary"),
        Column("correct variants", "variants"), Column("accused", "accused"),
    )  # fmt: skip
    rows = [
        (code(audit.contract), len(audit.kills), len(audit.kills) - len(audit.survived), audit.distinct,
         len(audit.families), len(audit.unnecessary), len(audit.variants), len(audit.accusations))
        for audit in audits
    ]  # fmt: skip
    return table(columns, rows)


def _redrawn(audits: Sequence[Audit]) -> Section:
    """The results of correct variants on other numbers and other combinations of features."""
    rows = [
        (code(audit.contract), kind, redrawn.seeds, f"{redrawn.results:,}", len(redrawn.accusations),
         f"{redrawn.largest:.2f}")
        for audit in audits
        for kind, redrawn in (("numbers", audit.redrawn), ("combinations of features", audit.rearranged))
        if redrawn
    ]  # fmt: skip
    heads = ("contract", "redrawn", "seeds", "tests", "accused", "largest error (bounds)")
    return section("Drawn from other seeds", table(heads, rows))


def _families(audits: Sequence[Audit]) -> Table:
    """A row per family: its cases, the mutants that they kill, and those that no other family kills."""
    rows = [
        (audit.contract, family, count, sum(family in killers for killers in audit.kills.values()),
         " ".join(audit.killed_only_by(family)) or ("exempt" if family in EXEMPT else ""))
        for audit in audits for family, count in audit.families.items()
    ]  # fmt: skip
    return data_table(("contract", "family", "cases", "killed", "killed_alone"), rows)


def _variants(audits: Sequence[Audit]) -> Table:
    """A row per correct variant."""
    rows = [(audit.contract, name, style) for audit in audits for name, style in audit.variants.items()]
    return data_table(("contract", "variant", "style"), rows)


def _kinds(combinations: Combinations) -> tuple[tuple[str, LevelCoverage], ...]:
    return ("pairs", combinations.pairs), ("fused triples", combinations.triples)


def _combinations(combinations: Combinations) -> Table:
    """The combinations of features that the cases cover, and the mutants that they kill there."""
    heads = ("features combined", "possible", "in a case", "mutants wrong there alone", "killed", "survivors")
    rows = [
        (kind, meetings.possible, meetings.met, meetings.mutants, meetings.killed,
         Cell(name_list(meetings.survived, MOST_NAMED) or spans("none")))
        for kind, meetings in _kinds(combinations)
    ]  # fmt: skip
    return table(heads, rows)


def _mutants(audits: Sequence[Audit]) -> Table:
    """A row per mutant: its mistake, its source, and the number of cases that kill it, by family."""
    rows = [
        (audit.contract, name, audit.mistakes[name], audit.sources[name],
         ", ".join(f"{family} {len(cases)}" for family, cases in families.items()))
        for audit in audits for name, families in audit.kills.items()
    ]  # fmt: skip
    return data_table(("contract", "mutant", "mistake", "seen_in", "killed_by"), rows)
