"""`attnsuite claims`: measures claims one by one; rows go to results/, a page is made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attnsuite import machine
from attnsuite.cli.exit_status import FAILED
from attnsuite.cli.report import report
from attnsuite.cli.requests import Claims
from attnsuite.cli.targets import single_threaded, told
from attnsuite.model import ClaimResult, Facts
from attnsuite.report import refuse_foreign_index
from attnsuite.report.report_page import claim_value
from attnsuite.results import open_run


def run(options: Claims) -> int:
    """Measure the claims of these names and kinds of evidence; an interrupted run is resumed.

    Returns 1 where one could not be measured; that a claim does not hold is no failure. Raises UsageError for a name
    that no claim has.
    """
    refuse_foreign_index(options.results)
    single_threaded()
    from attnsuite.documents.claims import claims

    chosen = claims(options.patterns, options.evidence)
    request = " ".join(("claims", *(each.name for each in chosen)))
    with open_run(options.results, machine.new_run({}, machine.suite_hash(), request)) as writer:
        rows = list(writer.stored(ClaimResult).values())
        if writer.resumed:
            told(f"resuming the run of {writer.run.started}: {len(rows)} claims are there already")
        for claim in chosen:
            if claim.key not in writer.stored(ClaimResult):
                rows.append(claim.examine())
                writer.write(rows[-1])
                print(_line(rows[-1]), flush=True)
        writer.finish(Facts(claims=tuple(each.name for each in claims())))
    report(options.results, writer.run.machine.name)
    print(_counted(rows))
    return FAILED if any(row.fails for row in rows) else 0


def _line(of: ClaimResult) -> str:
    """A claim in a line of a terminal."""
    return f"{of.claim}  {of.holds}: {of.quantity}: {claim_value(of) or of.detail} (expected {of.expected})"


def _counted(rows: Sequence[ClaimResult]) -> str:
    """How many claims hold: "49 claims: 40 holds, 6 does not hold"."""
    counts = Counter(str(of.holds) for of in rows)
    return (
        f"{len(rows)} claim{'s' * (len(rows) != 1)}: {', '.join(f'{count} {word}' for word, count in counts.items())}"
    )
