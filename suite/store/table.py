"""Rows of finished runs ↔ files: in a fixed order, counted and hashed, so that one that is lost or altered is noticed.

A file of rows does not change when its questions are answered alike again. So a row names its run only where it must:
of the rows of an implementation on a device, the newest run that has any has all but those that name another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite.store import columns, together
from suite.store.files import Damaged, digest, encoded, parsed_rows, row_text
from suite.store.kinds import Kind, Numbers, Record
from suite.store.runs import Block, Counted, Held


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
        tally.add(block, len(records), text[-1], of_row)
    files = {kind.file: encoded("".join(text))}
    for column in kind.columns:
        files[kind.column_file(column)] = columns.packed(each[column] for each in numbers) if numbers else b""
    return files, tally.held()


def read(kind: Kind[Record], folder: Path, held: Held) -> list[tuple[str, Record]]:
    """The records in a folder with their run's id, in file order. Raises Damaged where they are not what runs hold.

    In `held` the newest run is the last.
    """
    path, numbers, owners = folder / kind.file, _numbers_of_rows(kind, folder), _owners(kind, held)
    tally, places, taken = _Tally(), [], 0
    for place, row in parsed_rows(path, together.content(folder, kind.file)):
        with _in_place(path, place):
            block, count = _block(kind, owners, row), kind.count(row)
        places.append((place, row, block, slice(taken, taken + count)))
        tally.add(block, count, row_text(row), numbers[taken : taken + count])
        taken += count
    due = {block: counted for block, counted in held.items() if block.kind == kind.name}
    if taken == sum(counted.rows for counted in due.values()) != len(numbers):
        raise Damaged(path, f"{taken} rows are there, as is due, and numbers for {len(numbers)} in the files beside it")
    _compare(path, due, tally.held())
    found: list[tuple[str, Record]] = []
    for place, row, block, part in places:
        with _in_place(path, place):
            found += ((block.run, record) for record in kind.records(_without_run(row), numbers[part]))
    return found


@contextmanager
def _in_place(path: Path, line: int) -> Iterator[None]:
    """Say where a row is that cannot be read."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise Damaged(path, str(error), line) from None


def _without_run(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "run"}


class _Tally:
    """Counts the records of each block, and hashes their rows and numbers."""

    def __init__(self) -> None:
        self._text: dict[Block, list[str]] = defaultdict(list)
        self._count: dict[Block, int] = defaultdict(int)

    def add(self, block: Block, count: int, row: str, numbers: Sequence[Numbers]) -> None:
        self._text[block] += [row, *(f"{line}\n" for of in numbers for line in of.values())]
        self._count[block] += count

    def held(self) -> dict[Block, Counted]:
        return {block: Counted(self._count[block], digest("".join(text))) for block, text in self._text.items()}


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


def _block(kind: Kind[Record], owners: Mapping[tuple[str, str], str], row: Mapping[str, Any]) -> Block:
    implementation, device = str(row.get("implementation")), str(row.get("device"))
    run = row.get("run", owners.get((implementation, device)))
    if run is None:
        raise ValueError(f"no run says that it holds rows of {implementation:.80} on {device:.80}")
    return Block(str(run), kind.name, device, implementation)


def _compare(path: Path, due: Held, there: Held) -> None:
    """Raises Damaged for the first block that is not as it was written, and says how many others there are."""
    rows = {block: tuple(of[block].rows if block in of else 0 for of in (due, there)) for block in (*due, *there)}
    amiss = sorted((b for b in rows if due.get(b) != there.get(b)), key=lambda b: rows[b][0] == rows[b][1])
    if not amiss:
        return
    block, others = amiss[0], len({each.implementation for each in amiss} - {amiss[0].implementation})
    written, found = rows[block]
    counted = f"{written} row{'s' * (written != 1)} of {block.implementation} on {block.device}"
    told = "what is there is not the same" if written == found else f"{found} are there"
    more = f", and {others} more implementations are amiss" if others else ""
    raise Damaged(path, f"the run {block.run} wrote {counted}, and {told}{more}")
