"""What lies beside the machines' folders: the index of all, and the audits of the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from attnsuite.model import Refusal
from attnsuite.report.browser.files import report_text
from attnsuite.report.browser.past import past
from attnsuite.report.files import rendered
from attnsuite.report.index import AUDIT, AUDIT_TABLES, CHEATS, INDEX, REPORT, index, there
from attnsuite.report.verification.audits import of_audit
from attnsuite.report.verification.cheats import Musts, of_cheats
from attnsuite.report.verification.stamped import unlike_stamp
from attnsuite.report.verification.texts import unlike
from attnsuite.results.store import Recorded

FILES = (f"{INDEX}.md", AUDIT, *AUDIT_TABLES, CHEATS, REPORT)
"""What lies beside the machines' folders."""


def of_results(
    results: Path,
    machines: Mapping[str, Recorded] | None,
    musts: Callable[[str], Musts | None] = lambda commit: None,
) -> Iterator[Refusal]:
    """Hold the index and the audits against what is recorded; without the machines, the audits alone.

    `musts` says what a commit declares that must become of submissions which try to fool the suite.
    """
    if machines is not None:
        for name, text in rendered(INDEX, [index(machines, there(results, machines))]).items():
            yield from unlike(results / name, text)
        if (results / REPORT).exists():  # earlier versions wrote none
            yield from unlike(results / REPORT, report_text(results, machines, past(results)))
    tables = [name for name in AUDIT_TABLES if (results / name).exists()]
    if tables or (results / AUDIT).exists():
        amiss = list(unlike_stamp(results / AUDIT, tables, "attnsuite audit"))
        yield from amiss
        if not amiss and len(tables) == len(AUDIT_TABLES):  # an audit of an earlier version has none
            yield from of_audit(results / AUDIT)
    if (results / CHEATS).exists():
        amiss = list(unlike_stamp(results / CHEATS, (), "attnsuite audit --cheats"))
        yield from amiss or of_cheats(results / CHEATS, musts)
