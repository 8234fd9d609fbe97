"""Rows of finished runs ↔ files: in a fixed order, counted and hashed, so that one that is lost or altered is noticed.

A file of rows does not change when its questions are answered alike again. So a row names its run only where it must:
of the rows of an implementation on a device, the newest run that has any has all but those that name another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple

from attnsuite.results.store import columns, together
from attnsuite.results.store.files import Amiss, Damaged, Refused, Row, digest, encoded, parsed_rows, raised, row_text
from attnsuite.results.store.kinds import Kind, Numbers, Record
from attnsuite.results.store.runs import Block, Counted, Held


def written(
    kind: Kind[Record], runs: Sequence[str], recorded: Iterable[tuple[str, Record]]
) -> tuple[dict[str, bytes], dict[Block, Counted]]:
    """The contents of the files that hold these records, and how many each run has. `runs` are ids, the newest last."""
    text: list[str] = []
    numbers: list[Numbers] = []
    tally = _Tally()
    for block, row, records in _ordered(kind, runs, recorded):
        of_row = [_numbers(kind, record) for record in records]
        text.append(row_text(row))
        numbers += of_row
        taken = len(numbers)
        tally.add(_Placed(0, row, block, slice(taken - len(records), taken)), text[-1], of_row)
    files = {kind.file: encoded("".join(text))}
    for column in kind.columns:
        files[kind.column_file(column)] = columns.packed(each[column] for each in numbers) if numbers else b""
    return files, tally.held()


class Found(NamedTuple, Generic[Record]):
    """One record, its run's id, and the line on which its row stands."""

    line: int
    run: str
    record: Record


def read(kind: Kind[Record], folder: Path, held: Held, amiss: Amiss = raised) -> list[Found[Record]]:
    """The records in a folder, in file order. What is not as the runs hold it is amiss.

    In `held` the newest run is the last.
    """
    path, owners = folder / kind.file, _owners(kind, held)
    with reporting(path, amiss):
        every = _numbers_of_rows(kind, folder)
        placed, unheld = _placed(kind, folder, owners, amiss)
        numbers = _without(every, unheld, sum(each.part.stop - each.part.start for each in placed))
        _compare_all(kind, path, held, placed, numbers, amiss)
        return _found(kind, path, placed, numbers, amiss)
    return []


class _Placed(NamedTuple):
    """A row with the line on which it stands, its block, and the numbers that are its own."""

    line: int
    row: Row
    block: Block
    part: slice


def _placed(
    kind: Kind[Record], folder: Path, owners: Mapping[tuple[str, str], str], amiss: Amiss
) -> tuple[list[_Placed], list[slice]]:
    """The rows that a run holds; and of the others, where among all numbers theirs would stand."""
    found: list[_Placed] = []
    skipped: list[slice] = []
    unheld: list[tuple[int, Row]] = []
    taken, path = 0, folder / kind.file
    for line, row in parsed_rows(path, together.content(folder, kind.file), amiss=amiss):
        with reporting(path, amiss, line):
            if (block := _block(kind, owners, row)) is None:
                unheld.append((line, row))
                place = taken + sum(each.stop - each.start for each in skipped)
                skipped.append(slice(place, place + kind.count(row)))
                continue
            count = kind.count(row)
            found.append(_Placed(line, row, block, slice(taken, taken + count)))
            taken += count
    if unheld:
        amiss(_of_no_run(path, unheld))
    return found, skipped


def _without(numbers: Sequence[Numbers], unheld: Sequence[slice], held: int) -> list[Numbers]:
    """The numbers without those of rows that no run holds, if these have any: then there are some for all rows."""
    if len(numbers) != held + sum(each.stop - each.start for each in unheld):
        return list(numbers)
    others = {place for each in unheld for place in range(each.start, each.stop)}
    return [each for place, each in enumerate(numbers) if place not in others]


def _of_no_run(path: Path, rows: Sequence[tuple[int, Row]]) -> Damaged:
    """What is amiss with rows that no run says it holds, in one line."""
    (first, row), (last, _) = rows[0], rows[-1]
    implementation, device = str(row.get("implementation")), str(row.get("device"))
    what = f"no run says that it holds rows of {implementation:.80} on {device:.80}"
    if len(rows) == 1:
        return Damaged(path, what, first)
    return Damaged(path, f"{what}, nor any of {len(rows):,} such lines", f"lines {first} to {last}")


def _compare_all(
    kind: Kind[Record], path: Path, held: Held, placed: Sequence[_Placed], numbers: Sequence[Numbers], amiss: Amiss
) -> None:
    """Count and hash what is there, and compare it with what is due."""
    tally, taken = _Tally(), sum(each.part.stop - each.part.start for each in placed)
    for each in placed:
        with reporting(path, amiss, each.line):
            tally.add(each, row_text(each.row), numbers[each.part])
    due = {block: counted for block, counted in held.items() if block.kind == kind.name}
    if taken == sum(counted.rows for counted in due.values()) != len(numbers):
        what = f"{taken} rows are there, as is due, and numbers for {len(numbers)} in the files beside it"
        amiss(Damaged(path, what))
    else:
        _compare(path, due, tally, amiss)


def _found(
    kind: Kind[Record], path: Path, placed: Sequence[_Placed], numbers: Sequence[Numbers], amiss: Amiss
) -> list[Found[Record]]:
    found: list[Found[Record]] = []
    once: Once[Record] = Once()
    for line, row, block, part in placed:
        with reporting(path, amiss, line):
            if part.stop > len(numbers):
                raise ValueError("the files beside it hold no numbers of this row")
            for record in kind.records(_without_run(row), numbers[part]):
                once.add(line, block.run, record)
                found.append(Found(line, block.run, record))
    return found


class Once(Generic[Record]):
    """Every question has one answer in a run: two that differ contradict each other, and neither is the later one."""

    def __init__(self) -> None:
        self._first: dict[tuple[object, ...], tuple[int, Record]] = {}

    def add(self, line: int, run: str, record: Record, again: bool = False) -> None:
        """Note an answer; one that was asked `again` takes the place of the first. Raises ValueError for another."""
        key = (type(record), run, *record.key)
        first, earlier = self._first.get(key, (line, record))
        if earlier != record and not again:
            asked = " ".join(record.key)
            raise ValueError(f"{asked:.200} has another answer in line {first}, and both are of the run {run:.80}")
        self._first[key] = line, record


@contextmanager
def reporting(path: Path, amiss: Amiss, line: int = 0, remedy: str = "") -> Iterator[None]:
    """Say where a row is that cannot be read."""
    try:
        yield
    except Refused as refused:
        amiss(refused)
    except (ValueError, TypeError, RecursionError) as error:
        amiss(Damaged(path, str(error), line, remedy))


def _without_run(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "run"}


class _Tally:
    """Counts the records of each block, and hashes their rows and numbers."""

    def __init__(self) -> None:
        self._text: dict[Block, list[str]] = defaultdict(list)
        self._count: dict[Block, int] = defaultdict(int)
        self._lines: dict[Block, list[int]] = defaultdict(list)

    def add(self, of: _Placed, row: str, numbers: Sequence[Numbers]) -> None:
        self._text[of.block] += [row, *(f"{line}\n" for of in numbers for line in of.values())]
        self._count[of.block] += of.part.stop - of.part.start
        self._lines[of.block].append(of.line)

    def held(self) -> dict[Block, Counted]:
        return {block: Counted(self._count[block], digest("".join(text))) for block, text in self._text.items()}

    def lines(self, block: Block) -> str:
        """Where the rows of a block stand: `lines 3 to 17`."""
        of = self._lines.get(block, [])
        return "" if not of else f"line {of[0]}" if len(of) == 1 else f"lines {min(of)} to {max(of)}"


def _ordered(
    kind: Kind[Record], runs: Sequence[str], recorded: Iterable[tuple[str, Record]]
) -> Iterator[tuple[Block, dict[str, Any], Sequence[Record]]]:
    """Each row with its block and its records: by implementation and device, the run that need not be named first."""
    blocks: dict[tuple[str, str], dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for run, record in recorded:
        blocks[record.implementation, record.device][run].append(record)
    for (implementation, device), of_runs in sorted(blocks.items()):
        owner, *others = sorted(of_runs, key=runs.index, reverse=True)
        for run in (owner, *others):
            named = {} if run == owner else {"run": run}
            for line in kind.lines(of_runs[run]):
                yield Block(run, kind.name, device, implementation), {**named, **line.row}, line.records


def _numbers(kind: Kind[Record], record: Record) -> Numbers:
    return {column: columns.line(getattr(record, column), digits) for column, digits in kind.columns.items()}


def _numbers_of_rows(kind: Kind[Record], folder: Path) -> list[Numbers]:
    unpacked = {column: columns.unpacked(folder, kind.column_file(column)) for column in kind.columns}
    if len({len(lines) for lines in unpacked.values()}) > 1:
        said = " and ".join(f"{kind.column_file(column)} has {len(lines)} lines" for column, lines in unpacked.items())
        raise Damaged(folder / kind.file, f"beside it {said}")
    return [dict(zip(unpacked, lines, strict=True)) for lines in zip(*unpacked.values(), strict=True)]


def _owners(kind: Kind[Record], held: Held) -> dict[tuple[str, str], str]:
    """Of each implementation and device the newest run that holds rows of it."""
    return {(block.implementation, block.device): block.run for block in held if block.kind == kind.name}


def _block(kind: Kind[Record], owners: Mapping[tuple[str, str], str], row: Mapping[str, Any]) -> Block | None:
    """The block that a row is of; None where no run says that it holds such rows."""
    implementation, device = str(row.get("implementation")), str(row.get("device"))
    run = row.get("run", owners.get((implementation, device)))
    return None if run is None else Block(str(run), kind.name, device, implementation)


def _compare(path: Path, due: Held, tally: _Tally, amiss: Amiss) -> None:
    """Each block that is not as it was written is amiss; first those of which rows are lost or too many."""
    there = tally.held()
    rows = {block: tuple(of[block].rows if block in of else 0 for of in (due, there)) for block in (*due, *there)}
    unlike = sorted((b for b in rows if due.get(b) != there.get(b)), key=lambda b: rows[b][0] == rows[b][1])
    others = len({each.implementation for each in unlike} - {unlike[0].implementation}) if unlike else 0
    for block in unlike:
        written, found = rows[block]
        counted = f"{written} row{'s' * (written != 1)} of {block.implementation} on {block.device}"
        told = "what is there is not the same" if written == found else f"{found} are there"
        more = f", and {others} more implementations are amiss" if others and block == unlike[0] else ""
        amiss(Damaged(path, f"the run {block.run} wrote {counted}, and {told}{more}", tally.lines(block)))
