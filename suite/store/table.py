"""Rows of finished runs ↔ files: in a fixed order, counted and hashed, so that one that is lost or altered is noticed.

A file of rows does not change when its questions are answered alike again. So a row names its run only where it must:
of the rows of an implementation on a device, the newest run that has any has all but those that name another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
        tally.add(block, text[-1], of_row)
    files = {kind.file: encoded("".join(text))}
    for column in kind.columns:
        files[kind.column_file(column)] = columns.packed(each[column] for each in numbers) if numbers else b""
    return files, tally.held()


def read(kind: Kind[Record], folder: Path, held: Held) -> list[tuple[str, Record]]:
    """The records in a folder with their run's id, in file order. `held` is what runs hold, those of the newest last.

    Raises Damaged where it is not what is there.
    """
    path = folder / kind.file
    unread, owners, tally = _numbers_of_rows(kind, folder), _owners(kind, held), _Tally()
    found: list[tuple[str, Record]] = []
    for number, row in parsed_rows(path, together.content(folder, kind.file)):
        try:
            block, of_row = _block(kind, owners, row), [next(unread, {}) for _ in range(kind.count(row))]
            records = kind.records({name: value for name, value in row.items() if name != "run"}, of_row)
        except KeyError:
            raise Damaged(path, f"line {number}: its numbers are missing in the files beside it") from None
        except (ValueError, TypeError) as error:
            raise Damaged(path, f"line {number}: {error}") from None
        tally.add(block, row_text(row), of_row)
        found += ((block.run, record) for record in records)
    _compare(path, {block: counted for block, counted in held.items() if block.kind == kind.name}, tally.held())
    if next(unread, None):
        raise Damaged(path, "there are more numbers in the files beside it than rows")
    return found


class _Tally:
    """Counts the records of each block, and hashes their rows and numbers."""

    def __init__(self) -> None:
        self._text: dict[Block, list[str]] = defaultdict(list)
        self._count: dict[Block, int] = defaultdict(int)

    def add(self, block: Block, row: str, numbers: Sequence[Numbers]) -> None:
        self._text[block] += [row, *(f"{line}\n" for of in numbers for line in of.values())]
        self._count[block] += len(numbers)

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


def _numbers_of_rows(kind: Kind[Record], folder: Path) -> Iterator[Numbers]:
    unpacked = {column: columns.unpacked(folder, kind.column_file(column)) for column in kind.columns}
    if len({len(lines) for lines in unpacked.values()}) > 1:
        said = ", ".join(f"{kind.column_file(column)} has {len(lines)}" for column, lines in unpacked.items())
        raise Damaged(folder / kind.file, f"the files beside it should have as many lines as each other, and {said}")
    for lines in zip(*unpacked.values(), strict=True):
        yield dict(zip(unpacked, lines, strict=True))


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
    amiss = [block for block in dict.fromkeys((*due, *there)) if due.get(block) != there.get(block)]
    if not amiss:
        return
    block, others = amiss[0], len({each.implementation for each in amiss} - {amiss[0].implementation})
    counts = [of[block].rows if block in of else 0 for of in (due, there)]
    what = f"{counts[0]} rows of {block.implementation} on {block.device} were written by the run {block.run}"
    told = "they are not as they were" if counts[0] == counts[1] else f"{counts[1]} are there"
    more = f", and {others} more implementations are amiss" if others else ""
    raise Damaged(path, f"{what} and {told}{more}")


def files(kinds: Collection[Kind[Any]]) -> list[str]:
    """All files that hold records of these kinds."""
    return [name for kind in kinds for name in (kind.file, *map(kind.column_file, kind.columns))]
