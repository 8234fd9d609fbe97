"""stopwatch.md held against the comparisons in stopwatch.csv: their verdicts, and the shares counted of them."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from statistics import median

from attnsuite.model import Machine, Refusal, UsageError
from attnsuite.model.statistics import VERDICTS, Interval, judged
from attnsuite.model.stopwatch import DISAGREEMENT, StopwatchAudit, Trial
from attnsuite.report.files import rendered
from attnsuite.report.stopwatch import STOPWATCH, counted, of_trials
from attnsuite.report.verification import markdown
from attnsuite.report.verification.stamped import unlike_stamp
from attnsuite.report.verification.texts import text_of, unlike
from attnsuite.results.store import Recorded

COUNTED = ("## Identical implementations", "## Injected slowdowns")
"""The sections that are counted of the comparisons alone."""
AGREEMENTS = ("stopwatch", "workload")
"""How the table of other stopwatches begins."""
FROM_OURS = re.compile(r"(\S.*?): (\d+\.\d) % from our times in the median(?:, (\d+\.\d) % at most .*)?$")
TABLES = re.compile(r"(\d+) tables were measured as benchmarks are")
HALF = 0.0501
"""Half of the last digit of a share in percent."""
FOUR_DIGITS = 5e-4
"""By what share a ratio of four digits may be off."""
COMMAND = "attnsuite audit --benchmark"
"""What writes both files."""


@dataclass(frozen=True)
class Watched:
    """What is amiss, how many files were compared, and what was not."""

    refusals: tuple[Refusal, ...] = ()
    compared: int = 0
    not_checked: tuple[str, ...] = ()


def of_stopwatch(folder: Path, recorded: Recorded) -> Watched:
    """Hold both files, where there is one of them, against each other and against the page's stamp."""
    page, table = folder / f"{STOPWATCH}.md", folder / f"{STOPWATCH}.csv"
    if not page.exists() and not table.exists():
        return Watched()
    amiss = list(unlike_stamp(page, (table.name,), COMMAND))
    trials, unread = _trials(table)
    amiss += unread or list(unlike(table, rendered(STOPWATCH, [of_trials(trials)])[table.name]))
    machines = {run.machine.name: run.machine for run in recorded.runs.values()}
    if unread:
        return Watched(tuple(amiss), 2)
    amiss += _others(page, trials)
    if folder.name not in machines:
        return Watched(tuple(amiss), 2, (f"what {page} counts, for no run says what machine it is",))
    return Watched((*amiss, *_uncounted(page, trials, machines[folder.name])), 2)


def _uncounted(page: Path, trials: list[Trial], machine: Machine) -> Iterator[Refusal]:
    """Lines of the page that the comparisons do not give."""
    try:
        text = text_of(page)
    except UsageError:
        return  # said already
    due = rendered(STOPWATCH, [counted(StopwatchAudit(trials, ()), machine)])[page.name].split("\n")[2:]
    if text is not None:
        lines = text.split("\n")
        yield from (Refusal(str(page), "", f"{STOPWATCH}.csv gives {line!r:.200}, which is not there")
                    for line in due if line.strip() and line not in lines)  # fmt: skip
        yield from (
            Refusal(str(page), f"line {number}", f"{STOPWATCH}.csv does not give {line!r:.200}")
            for number, line in _of_comparisons(lines)
            if line not in due
        )


def _of_comparisons(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The lines that say something of comparisons, with their numbers: findings in short, and rows of tables."""
    below = ""
    for number, line in enumerate(lines, 1):
        below = line if line.startswith("#") else below
        in_table = line.startswith("|") and below in COUNTED
        if line.startswith(("- false claims on ", "- slowdowns of ")) or in_table:
            yield number, line


def _others(page: Path, trials: Sequence[Trial]) -> Iterator[Refusal]:
    """What the page says of other stopwatches, and of how much was measured, that its own rows do not give."""
    try:
        text = text_of(page) or ""
    except UsageError:
        return  # said already
    apart: dict[str, list[float]] = {}
    for row in markdown.rows(text, AGREEMENTS):
        tool, ratio, off = (row.cells.get(head, "") for head in ("stopwatch", "ours / theirs", "apart"))
        pairs = markdown.number(row.cells.get("pairs", ""))
        if (due := _number(ratio)) is None or (said := _percent(off)) is None or due <= 0 or not pairs:
            yield Refusal(str(page), row.where, f"{ratio!r:.40} in {pairs} pairs, {off!r:.40} apart, are none")
            continue
        apart.setdefault(tool, []).append(said)
        if abs(100 * abs(due - 1) - said) > HALF + 100 * due * FOUR_DIGITS:
            yield Refusal(str(page), row.where, f"a ratio of {ratio} is not {off} apart")
    amiss = [line for _, line in markdown.points(text) if line.startswith("amiss: ")]
    told = {found[1]: found for _, line in markdown.points(text) if (found := FROM_OURS.match(line))}
    for tool in sorted({*apart, *told}):
        values, found = apart.get(tool, []), told.get(tool)
        middle, most = (median(values), max(values)) if values else (math.nan, math.nan)
        if found is None or not abs(float(found[2]) - middle) <= 2 * HALF:
            says = f"{found[2]} %" if found else "nothing"
            yield Refusal(str(page), "", f"{tool:.80}: its rows are {middle:.1f} % apart in the median, not {says}")
        elif found[3] and not abs(float(found[3]) - most) <= HALF:
            yield Refusal(str(page), "", f"{tool:.80}: its rows are {most:.1f} % apart at most, not {found[3]} %")
        elif middle > 100 * DISAGREEMENT + 2 * HALF and not any(f" {tool} is " in line for line in amiss):
            yield Refusal(str(page), "", f"{tool:.80} is {middle:.1f} % from our times, and nothing is amiss")
    yield from (Refusal(str(page), "", why) for why in _amiss(trials, amiss))
    tables = len({trial.table for trial in trials})
    for number, line in markdown.points(text):
        if (said_tables := TABLES.match(line)) and int(said_tables[1]) != tables:
            yield Refusal(str(page), f"line {number}", f"{STOPWATCH}.csv has {tables} tables, not {said_tables[1]}")


def _amiss(trials: Sequence[Trial], said: Sequence[str]) -> Iterator[str]:
    """Complaints that the comparisons give and the page does not have."""
    of = StopwatchAudit(trials, ())
    for begins in ("false claims: ", "slowdowns of "):
        due = [complaint for complaint in of.complaints if complaint.startswith(begins)]
        if bool(due) != any(line.startswith(f"amiss: {begins}") for line in said):
            wrongly = f"it says that something is amiss with {begins.strip(': ')}, and {STOPWATCH}.csv does not"
            yield f"{STOPWATCH}.csv gives {due[0]!r:.120}, which is not there" if due else wrongly


def _number(words: str) -> float | None:
    try:
        return float(words.replace(",", ""))
    except ValueError:
        return None


def _percent(words: str) -> float | None:
    return _number(words.removesuffix(" %")) if words.endswith(" %") else None


def _trials(table: Path) -> tuple[list[Trial], list[Refusal]]:
    """The comparisons in a table, and what is amiss in it."""
    try:
        text = text_of(table)
        rows = list(csv.reader((text or "").split("\n"), strict=True))
    except (UsageError, csv.Error) as error:
        return [], [Refusal(str(table), "", str(error))]
    heads = [field.name for field in fields(Trial)]
    if not rows or rows[0] != heads:
        return [], [Refusal(str(table), "row 1", f"its columns are not {', '.join(heads)}")]
    trials, amiss = [], []
    for number, row in enumerate(rows[1:], 2):
        try:
            if row:
                trials.append(_trial(row))
        except ValueError as error:
            amiss.append(Refusal(str(table), f"row {number}", str(error)))
    return trials, amiss


def _trial(row: list[str]) -> Trial:
    """A comparison. Raises ValueError for a row that is none, or whose verdict its interval does not give."""
    if len(row) != len(fields(Trial)):
        raise ValueError(f"it has {len(row)} cells, and {len(fields(Trial))} are due")
    table, threads, workload, injected, verdict, speedup, low, high, rounds = row
    of = Trial(
        int(table),
        int(threads),
        workload,
        float(injected),
        verdict,
        float(speedup),
        float(low),
        float(high),
        int(rounds),
    )
    if not 0 <= of.low <= of.speedup <= of.high or not of.speedup < math.inf or of.rounds < 1 or of.threads < 1:
        raise ValueError(f"a speed-up of {speedup} between {low} and {high} in {rounds} rounds is none")
    logs = (math.log(each) if each > 0 else -math.inf for each in (of.speedup, of.low, of.high))
    due = judged(Interval(*logs), of.rounds).verdict
    if verdict != due:
        raise ValueError(f"the verdict is {verdict!r:.20}, and the interval gives {due}, one of {', '.join(VERDICTS)}")
    return of
