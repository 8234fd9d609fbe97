"""A machine's folder held against what its runs say of it: every row and number there, in range, and answered once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnsuite.model import Refusal, Run, UsageError
from attnsuite.model.uncollected import uncollected
from attnsuite.results.store import (
    answered,
    between_runs,
    columns,
    contents,
    contradictions,
    facts,
    ranges,
    siblings,
    together,
)
from attnsuite.results.store.contents import JOURNAL, Contents, Placed
from attnsuite.results.store.files import Refused, parsed_rows
from attnsuite.results.store.kinds import CLAIMED, LEARNED, MEASUREMENTS, OUTCOMES
from attnsuite.results.store.recorded import Recorded
from attnsuite.results.store.runs import RUNS

KINDS = (OUTCOMES, MEASUREMENTS, LEARNED, CLAIMED)
MOST_NAMED = 3
"""The most implementations of a run that are named in a line."""
MOST_OF_ONE = 20
"""The most refusals of one file that are listed; of more, the others are counted."""


@dataclass(frozen=True)
class Verified:
    """What was read of a machine's folder, and all that is amiss in it."""

    recorded: Recorded
    refusals: tuple[Refusal, ...]
    placed: tuple[Placed, ...] = ()
    """Every record, with the place of its row."""
    not_checked: tuple[str, ...] = ()


@uncollected()
def verify(folder: Path) -> Verified:
    """Read a machine's folder to the end, whatever is amiss in it."""
    there, placed, refusals = contents.examined(folder)
    found = [
        *refusals,
        *_files(folder),
        *_between_runs(folder),
        *_runs(folder, there),
        *_records(folder, there, placed),
    ]
    return Verified(there.recorded_of(folder.name), tuple(few(found)), tuple(placed), tuple(_unheld(folder, placed)))


def few(refusals: Sequence[Refusal]) -> Iterator[Refusal]:
    """The refusals, of each file the first MOST_OF_ONE and how many more there are."""
    counts = Counter(each.path for each in refusals)
    shown: Counter[str] = Counter()
    for each in dict.fromkeys(refusals):
        shown[each.path] += 1
        if shown[each.path] <= MOST_OF_ONE:
            yield each
        elif shown[each.path] == MOST_OF_ONE + 1:
            yield Refusal(each.path, "", f"{counts[each.path] - MOST_OF_ONE} more are amiss")


def _files(folder: Path) -> Iterator[Refusal]:
    """What is amiss with files, whatever rows they hold."""
    for name in (together.BEGUN, together.COMPLETE):
        if (folder / name).exists():
            yield Refusal(str(folder / name), "", "a process was stopped while it wrote, the next run tidies up")
    for name in (RUNS, JOURNAL, *(kind.file for kind in KINDS)):
        yield from _ended(folder, name)
    for kind in KINDS:
        for column, digits in kind.columns.items():
            yield from _canonical(folder, kind.column_file(column), digits)


def _between_runs(folder: Path) -> Iterator[Refusal]:
    """The first that is amiss with the times of the same code in one run after the other."""
    try:
        between_runs.read(folder)
    except Refused as refused:
        yield refused.refusal


def _ended(folder: Path, name: str) -> Iterator[Refusal]:
    try:
        data = together.content(folder, name)
    except UsageError:
        return  # said already
    if data and not data.endswith(b"\n"):
        yield Refusal(str(folder / name), f"line {len(data.splitlines())}", "the line has no end: it was cut off")


def _canonical(folder: Path, name: str, digits: int) -> Iterator[Refusal]:
    """Numbers that are not written as they are written."""
    try:
        lines = columns.unpacked(folder, name)
    except UsageError:
        return  # said already
    for number, line in enumerate(lines, 1):
        if line and not all(_is_written(each, digits) for each in line.split(" ")):
            yield Refusal(str(folder / name), f"line {number}", f"{line!r:.60} is not a number of {digits} digits")


def _is_written(word: str, digits: int) -> bool:
    try:
        return columns.line(float(word), digits) == word
    except ValueError:
        return False


def _runs(folder: Path, there: Contents) -> Iterator[Refusal]:
    path, lines = str(folder / RUNS), _lines_of_runs(folder)
    for run in there.runs.values():
        where = f"line {lines.get(run.id, 0)}"
        if run.machine.name != folder.name:
            yield Refusal(path, where, f"the run {run.id:.80} is of {run.machine.name!r:.80}, not of {folder.name!r}")
        if run.finished:
            yield from (Refusal(path, where, why) for why in ranges.of_run(run))
        else:
            yield Refusal(path, where, _not_finished(run))
    yield from _unnamed_facts(folder, there.runs)


def _not_finished(run: Run) -> str:
    """What is said of a run that was interrupted, and what is to be done about it."""
    names = ", ".join(sorted(run.sources)[:MOST_NAMED]) + ", …" * (len(run.sources) > MOST_NAMED)
    again = f"the command that began it, {run.asked!r:.200} of {names:.200}, goes on from there with the same --results"
    return f"the run {run.id:.80} is not finished, so nothing says what rows are due; {again}"


def _lines_of_runs(folder: Path) -> dict[str, int]:
    """The line of each run, the last of those that name it."""
    found = parsed_rows(folder / RUNS, together.content(folder, RUNS), appended=True, amiss=_nothing)
    return {str(row.get("id")): line for line, row in found}


def _unnamed_facts(folder: Path, of: Mapping[str, Run]) -> Iterator[Refusal]:
    try:
        noted = facts.read(folder / facts.FACTS, together.content(folder, facts.FACTS), _nothing)
    except UsageError:
        return  # said already
    named = {facts.shared(run.facts)[0] for run in of.values() if run.finished}
    for name in noted.keys() - named:
        yield Refusal(str(folder / facts.FACTS), "", f"no run here names the facts {name:.40}")


def _nothing(refused: Refused) -> None:
    """What is amiss was said by the first who read it."""


def _records(folder: Path, there: Contents, placed: Sequence[Placed]) -> Iterator[Refusal]:
    spent: dict[str, float] = defaultdict(float)
    finished: dict[tuple[object, ...], Placed] = {}
    for each in placed:
        run, path, where = there.runs[each.run], str(folder / each.file), f"line {each.line}"
        yield from (Refusal(path, where, why) for why in ranges.of_record(each.record, run))
        yield from (Refusal(path, where, why) for why in contradictions.of_record(each.record, run))
        spent[each.run] += ranges.timed(each.record)
        if each.file == JOURNAL:
            continue
        first = finished.setdefault((each.file, *each.record.key), each)
        if first.run != each.run:
            why = (
                f"{' '.join(each.record.key):.200} is answered by the run {first.run:.80} as well, in line {first.line}"
            )
            yield Refusal(path, where, why)
    yield from (Refusal(str(folder / file), "", why) for file, why in answered.lost(placed, there.runs))
    for at, why in siblings.unlike_others(placed):
        yield Refusal(str(folder / at.file), f"line {at.line}", why)
    for identity, seconds in spent.items():
        if seconds > (most := ranges.together(there.runs[identity])):
            why = f"the timed calls of the run {identity:.80} are {seconds:.4g} s, and it took {most:.4g} at most"
            yield Refusal(str(folder / MEASUREMENTS.file), "", why)


def _unheld(folder: Path, placed: Sequence[Placed]) -> Iterator[str]:
    if count := siblings.without_ceilings(placed):
        yield f"the rates of {count} time{'s' * (count > 1)} of {folder}, for nothing says what its machine reached"
