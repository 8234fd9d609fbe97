"""An audit of cheats → cheats.md: what each tries, what must become of it, and what did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnsuite.model import EXPECTED_VERDICTS, ExploitAudit, ExploitTrial, Run
from attnsuite.report import provenance
from attnsuite.report.cells import LONGEST_CODE, code, plain
from attnsuite.report.files import texts, write
from attnsuite.report.page import Page, Section, Table, blocks, note, points, section, table

LONGEST_COMPLAINT = 160
"""Characters of what happened, in a cell."""


def write_cheats(folder: Path, audit: ExploitAudit, run: Run) -> Path:
    """Write cheats.md into `folder`, atomically, and return its path."""
    return write(folder, texts("cheats", cheats_page(audit, run)))[0]


def cheats_lines(audit: ExploitAudit) -> list[str]:
    """A line for each trial, those that got through last, and how many there were."""
    ordered = sorted(audit.trials, key=lambda trial: not trial.as_expected)
    of = len({trial.cheat.name for trial in audit.trials})
    through = len({trial.cheat.name for trial in audit.unexpected})
    said = f"{of} submissions, {through} with another verdict than they must get, in {audit.seconds:.0f} s"
    return [*(plain(_line(trial), LONGEST_CODE) for trial in ordered), said]


def cheats_page(audit: ExploitAudit, run: Run) -> Page:
    """A row for each submission and command, by class, after those that got another verdict than they must."""
    amiss = points(_line(trial) for trial in audit.unexpected)
    kinds = dict.fromkeys(trial.cheat.kind for trial in audit.trials)
    shown = blocks(
        provenance.run_table(run),
        note(
            "Each submission is a file of its own, checked and timed as any stranger's file is. When they are timed, "
            "all of them count as keeping the contract, so that what is seen is what the timing itself finds."
        ),
        section("What must happen", points(f"{word}: {says}" for word, says in EXPECTED_VERDICTS.items())),
        section("Got another verdict", amiss),
        (_class(kind, [trial for trial in audit.trials if trial.cheat.kind == kind]) for kind in kinds),
    )
    return Page("Submissions that try to fool the suite", shown)


def _class(kind: str, trials: Sequence[ExploitTrial]) -> Section:
    return section(kind, _table(trials))


def _table(trials: Sequence[ExploitTrial]) -> Table:
    return table(("submission", "what it does", "command", "must", "what happened"), _rows(trials))


def _rows(trials: Sequence[ExploitTrial]) -> Iterator[list[object]]:
    for trial in trials:
        happened = plain(trial.happened, LONGEST_COMPLAINT)
        yield [code(trial.cheat.name), trial.cheat.says, code(trial.command), trial.must, happened]


def _line(trial: ExploitTrial) -> str:
    amiss = "" if trial.as_expected else "another verdict than it must get: "
    return f"{amiss}{trial.cheat.kind}: {trial.cheat.name}: {trial.command}: must be {trial.must}; {trial.happened}"
