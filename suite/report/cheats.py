"""An audit of exploits → cheats.md: the description of each, the expected verdict, and the actual one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnsuite.model import EXPECTED_VERDICTS, ExploitAudit, ExploitTrial, Run
from attnsuite.report import provenance
from attnsuite.report.cells import LONGEST_CODE, code, plain
from attnsuite.report.files import texts, write
from attnsuite.report.page import Page, Section, blocks, note, points, section, table

LONGEST_COMPLAINT = 160
"""Characters of a verdict in a cell."""


def write_cheats(folder: Path, audit: ExploitAudit, run: Run) -> Path:
    """Write cheats.md into `folder`, atomically, and return its path."""
    return write(folder, texts("cheats", cheats_page(audit, run)))[0]


def cheats_lines(audit: ExploitAudit) -> list[str]:
    """A line per trial, unexpected verdicts last, then the totals."""
    ordered = sorted(audit.trials, key=lambda trial: not trial.as_expected)
    submissions = len({trial.cheat.name for trial in audit.trials})
    through = len({trial.cheat.name for trial in audit.unexpected})
    total = f"{submissions} submissions, {through} with an unexpected verdict, in {audit.seconds:.0f} s"
    return [*(plain(_line(trial), LONGEST_CODE) for trial in ordered), total]


def cheats_page(audit: ExploitAudit, run: Run) -> Page:
    """A row per submission and command, by class, after a list of unexpected verdicts."""
    unexpected = points(_line(trial) for trial in audit.unexpected)
    kinds = dict.fromkeys(trial.cheat.kind for trial in audit.trials)
    content = blocks(
        provenance.run_table(run),
        note(
            "Each submission is one file, which is checked and timed like a user's file. Timing takes all of them as "
            "correct, so that `bench` shows what it detects without `check`."
        ),
        section("Expected verdicts", points(f"{word}: {says}" for word, says in EXPECTED_VERDICTS.items())),
        section("Unexpected verdicts", unexpected),
        (_class(kind, [trial for trial in audit.trials if trial.cheat.kind == kind]) for kind in kinds),
    )
    return Page("Submissions that try to fool the suite", content)


def _class(kind: str, trials: Sequence[ExploitTrial]) -> Section:
    heads = ("submission", "description", "command", "expected", "actual")
    return section(kind, table(heads, _rows(trials)))


def _rows(trials: Sequence[ExploitTrial]) -> Iterator[list[object]]:
    for trial in trials:
        verdict = plain(trial.happened, LONGEST_COMPLAINT)
        yield [code(trial.cheat.name), trial.cheat.says, code(trial.command), trial.must, verdict]


def _line(trial: ExploitTrial) -> str:
    prefix = "" if trial.as_expected else "unexpected verdict: "
    return f"{prefix}{trial.cheat.kind}: {trial.cheat.name}: {trial.command}: expected {trial.must}; {trial.happened}"
