"""`attnsuite claims`: measure claims of the source documents, store a row for each, and write their page."""

from collections import Counter
from collections.abc import Sequence

from attnsuite import machine
from attnsuite.cli.ending import FAILED
from attnsuite.cli.report import report
from attnsuite.cli.requests import Claims
from attnsuite.cli.targets import print_hint, single_threaded
from attnsuite.model import ClaimResult, Facts
from attnsuite.report import refuse_foreign_index
from attnsuite.report.report_page import claim_value
from attnsuite.results import open_run


def run(options: Claims) -> int:
    """Measure the claims of these names and kinds of evidence; an interrupted run is resumed.

    Returns 1 if a claim could not be measured; a claim that does not hold is no failure. Raises UsageError for an
    unknown name.
    """
    refuse_foreign_index(options.results)
    single_threaded()
    from attnsuite.documents.claims import claims

    chosen = claims(options.patterns, options.evidence)
    request = " ".join(("claims", *(claim.name for claim in chosen)))
    with open_run(options.results, machine.new_run({}, machine.suite_hash(), request)) as writer:
        rows = list(writer.stored(ClaimResult).values())
        if writer.resumed:
            print_hint(f"resuming the run of {writer.run.started}: {len(rows)} claims are stored")
        for claim in chosen:
            if claim.key not in writer.stored(ClaimResult):
                rows.append(claim.examine())
                writer.write(rows[-1])
                print(_line(rows[-1]), flush=True)
        writer.finish(Facts(claims=tuple(claim.name for claim in claims())))
    report(options.results, writer.run.machine.name)
    print(_counted(rows))
    return FAILED if any(row.fails for row in rows) else 0


def _line(result: ClaimResult) -> str:
    """A claim as a line of output."""
    value = claim_value(result) or result.detail
    why = f"\n  {result.why}" if result.why else ""
    return f"{result.claim}  {result.holds}: {result.quantity}: {value} (expected {result.expected}){why}"


def _counted(rows: Sequence[ClaimResult]) -> str:
    """The counts, as "49 claims: 40 holds, 6 does not hold"."""
    counts = Counter(str(row.holds) for row in rows)
    return (
        f"{len(rows)} claim{'s' * (len(rows) != 1)}: {', '.join(f'{count} {word}' for word, count in counts.items())}"
    )
