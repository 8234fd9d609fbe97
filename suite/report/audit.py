"""An audit → audit.md: which family of cases catches which mistake, and whom the suite accuses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from suite.records import EXEMPT, Audit, Run
from suite.report.conformance.page import provenance
from suite.report.text import code, escaped, section, table
from suite.store import replace_file


def write_audit(folder: Path, audit: Audit, run: Run) -> Path:
    """Write audit.md into `folder`, atomically, and return its path."""
    page = ["# The suite against itself", "", *provenance(run), *_summary(audit), *_families(audit)]
    page += [*_strangers(audit), *_deviations(audit)]
    replace_file(folder / "audit.md", "\n".join(page).rstrip("\n") + "\n")
    return folder / "audit.md"


def audit_lines(audit: Audit) -> list[str]:
    """What the audit found, in plain lines: the score, then every complaint."""
    total = len(audit.catches)
    lines = [
        f"mutation score: {total - len(audit.missed)} of {total} deviations caught",
        f"distinct sets of failing cases: {audit.distinct}",
        f"false accusations: {len(audit.accusations)} against {len(audit.strangers)} correct strangers",
        f"families: {len(audit.families)}, unnecessary: {len(audit.unnecessary)}",
    ]
    lines += [f"missed: {name}: {audit.says[name]}" for name in audit.missed]
    lines += [f"unnecessary: {family} catches nothing that no other family catches" for family in audit.unnecessary]
    lines += [f"accused: {o.implementation} {o.case} ({o.dtype}): {o.status}: {o.detail}" for o in audit.accusations]
    lines += [f"wrong without a mistake: {complaint}" for complaint in audit.controls]
    return lines + [f"absent: {name}: {reason}" for name, reason in audit.absent.items()]


def _summary(audit: Audit) -> list[str]:
    return [*(f"- {escaped(line)}" for line in audit_lines(audit)), ""]


def _families(audit: Audit) -> list[str]:
    rows = []
    for family, count in audit.families.items():
        catching = [name for name, families in audit.catches.items() if family in families]
        alone = audit.caught_only_by(family)
        only = ", ".join(map(code, alone[:4])) + (f" and {len(alone) - 4} more" if len(alone) > 4 else "")
        rows.append((code(family), str(count), str(len(catching)), only or ("exempt" if family in EXEMPT else "none")))
    return section("Families", table(("family", "cases", "deviations caught", "that no other family catches"), rows))


def _strangers(audit: Audit) -> list[str]:
    rows = [(code(name), escaped(says)) for name, says in audit.strangers.items()]
    return section("Correct strangers", table(("stranger", "its style"), rows))


def _deviations(audit: Audit) -> list[str]:
    header = ("deviation", "its mistake", "seen in", "caught by (cases)")
    return section("Deviations", table(header, list(_deviation_rows(audit))))


def _deviation_rows(audit: Audit) -> Iterator[tuple[str, ...]]:
    for name, families in audit.catches.items():
        caught = ", ".join(f"{escaped(family)} {len(cases)}" for family, cases in families.items())
        yield code(name), escaped(audit.says[name]), escaped(audit.sources[name]), caught or "nothing"
