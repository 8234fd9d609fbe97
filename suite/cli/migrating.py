"""`attnsuite migrate`: results/ of an earlier layout → today's."""

from __future__ import annotations

from pathlib import Path

from attnsuite.model.uncollected import uncollected
from attnsuite.report.stamps import stamp_all
from attnsuite.results.store.migration import migrate as migrated


@uncollected()
def migrate(results: Path) -> None:
    """Bring every machine's folder into today's layout and say what became of each.

    Raises UsageError where there are no results, or for a file that cannot be read.
    """
    for line in (*migrated(results), *stamp_all(results)):
        print(line, flush=True)
    print(f"`attnsuite report --results {results}` makes the pages anew")
