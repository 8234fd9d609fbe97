"""`attnsuite claims`: claims are measured one by one; rows go to results/, a page is made of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from attnsuite import machine
from attnsuite.cli.checking import single_threaded
from attnsuite.cli.reporting import report
from attnsuite.report import refuse_foreign_index
from attnsuite.results.store import Results


def claim(patterns: Sequence[str], evidence: Sequence[str], results: Path) -> int:
    """Measure the claims of these names and kinds of evidence (all by default); an interrupted run is resumed.

    Returns 1 where one could not be measured; that a claim does not hold is no failure. Raises UsageError for a name
    that no claim has.
    """
    refuse_foreign_index(results)
    single_threaded()
    from attnsuite.documents.claims import claims
    from attnsuite.report.claims import headline, line

    chosen = claims(patterns, evidence)
    asked = " ".join(("claims", *(each.name for each in chosen)))
    with Results(results).open_run(machine.new_run({}, machine.suite_hash(), asked)) as writer:
        found = list(writer.recorded_claims)
        if writer.resumed:
            print(f"resuming the run of {writer.run.started}: {len(found)} claims are there already", file=sys.stderr)
        for each in chosen:
            if each.key not in writer.examined:
                found.append(each.examine())
                writer.write(found[-1])
                print(line(found[-1]), flush=True)
        writer.finish(claims=[each.name for each in claims()])
    report(results, writer.run.machine.name)
    print(headline(found))
    return 1 if any(each.fails for each in found) else 0
