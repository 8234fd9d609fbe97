"""Runs ↔ the rows of runs.jsonl, which also say how many rows a run has in the other files, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import fields

from attnsuite.model import Facts, Machine, Run, UsageError
from attnsuite.results.store import facts
from attnsuite.results.store.files import Amiss, Damaged, Refused, Row, digest, parsed_rows, raised, row_text
from attnsuite.results.store.typed import each_of, object_of, typed

RUNS = "runs.jsonl"
FORMAT, FORMER = 2, 1
"""The format that is written and read, and the one before, which `attnsuite migrate` brings into it."""


class Block(NamedTuple):
    """The rows of one kind (`conformance` or `benchmark`) that a run has of an implementation on a device."""

    run: str
    kind: str
    device: str
    implementation: str


class Counted(NamedTuple):
    """How many outcomes or measurements a block has, and the digest of their text."""

    rows: int
    digest: str


Held = Mapping[Block, Counted]


def open_row(run: Run) -> dict[str, Any]:
    """A run that is not finished, as a JSON object: its facts with it, its rows in the journal."""
    return {**_row(run), **({"facts": noted} if (noted := facts.facts_row(run.facts)) else {})}


def finished_row(run: Run, held: Held) -> dict[str, Any]:
    """A finished run as a JSON object: its facts by their digest, how many rows it has, and a digest of its own."""
    row = _row(run) | {"facts": facts.shared(run.facts)[0]}
    row |= {name: dict(value) if name == "seconds" else value for name, value in _spent(run.facts).items() if value}
    rows: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for block, counted in sorted(held.items()):
        if block.run == run.id:
            rows.setdefault(block.kind, {}).setdefault(block.device, {})[block.implementation] = list(counted)
    row["rows"] = rows
    return {**row, "digest": digest(row_text(row))}


def read(
    path: Path, data: bytes, noted: Mapping[str, Mapping[str, Any]], amiss: Amiss = raised
) -> tuple[dict[str, Run], dict[Block, Counted]]:
    """The runs in the data of a file, the one whose row was written last at the end, and what the finished ones hold.

    `noted` are the facts of finished runs by their digests. What is no such row is amiss, and left out.
    """
    runs: dict[str, Run] = {}
    held: dict[Block, Counted] = {}
    for number, row in parsed_rows(path, data, appended=True, amiss=amiss):
        refuse_former(path.parent, row)
        try:
            found = run(_with_facts(path, number, row, noted))
            of_run = _held(found.id, object_of("rows", row.get("rows", {})))
            _check_once(path, number, found, runs.get(found.id))
        except Refused as refused:
            amiss(refused)
        except (ValueError, TypeError) as error:
            amiss(Refused(path, str(error), number))
        else:
            held |= of_run
            runs.pop(found.id, None)  # the row that was written last goes to the end
            runs[found.id] = found
    return runs, held


def _check_once(path: Path, number: int, found: Run, earlier: Run | None) -> None:
    """Raises Damaged where a run has another row already. One that is resumed has the same row once more."""
    if earlier is None or (not earlier.finished and found == earlier):
        return
    said = "stands here twice" if earlier.finished else "stands here twice, with other facts"
    raise Damaged(path, f"the run {found.id!r:.80} {said}", number)


def run(row: Row) -> Run:
    """The run that a row holds, with its facts in it. Raises ValueError for another format and for what is no row."""
    _check_format(row.get("format"))
    of_facts = {**object_of("facts", row.get("facts", {})), **{name: row[name] for name in _OF_FACTS if name in row}}
    own = {name: value for name, value in row.items() if name not in ("format", "rows", "digest", *_OF_FACTS)}
    own = {"commit": "", "versions": {}, "sources": {}, "suite": "", **own, "facts": facts.facts(of_facts)}
    if "machine" in own:
        own["machine"] = typed(Machine, {"accelerators": [], **object_of("machine", own["machine"])})
    return typed(Run, own)


_OF_FACTS = ("profile", "seconds")
"""The facts that a finished run does not share with others: they stand in its row."""


def _spent(of: Facts) -> dict[str, Any]:
    return {name: getattr(of, name) for name in _OF_FACTS}


def _row(run: Run) -> dict[str, Any]:
    """What both kinds of row have, without what is empty."""
    row = {field.name: getattr(run, field.name) for field in fields(run) if field.name != "facts"}
    row = {name: dict(value) if isinstance(value, Mapping) else value for name, value in row.items() if value}
    row["machine"] = {field.name: getattr(run.machine, field.name) for field in fields(Machine)}
    return {"format": FORMAT, **row}


def _with_facts(path: Path, number: int, row: Row, noted: Mapping[str, Mapping[str, Any]]) -> Row:
    """The row with its facts in place of their digest, where it is as it was written."""
    if row.get("format") != FORMAT or not row.get("finished"):
        return row
    if digest(row_text({name: value for name, value in row.items() if name != "digest"})) != row.get("digest"):
        raise Damaged(path, "this run is not as it was written", number)
    name = str(row.get("facts"))
    if name not in noted:
        raise Damaged(path, f"{facts.FACTS} has no facts {name:.40}", number)
    return {**row, "facts": noted[name]}


def _held(identity: str, rows: Mapping[str, Any]) -> dict[Block, Counted]:
    """What a run holds. Raises ValueError for what is of another form."""
    return {
        Block(identity, kind, device, implementation): counted
        for kind, devices in each_of(each_of(each_of(_counted)))("rows", rows).items()
        for device, implementations in devices.items()
        for implementation, counted in implementations.items()
    }


def _counted(name: str, value: Any) -> Counted:
    count, hashed = value if isinstance(value, list) and len(value) == 2 else (None, None)
    if not isinstance(count, int) or not isinstance(hashed, str):
        raise ValueError(f"{name} should be a count and a digest, not {value!r:.80}")
    return Counted(count, hashed)


def refuse_former(folder: Path, row: Row) -> None:
    """Raises UsageError for the row of a run in a machine's folder that has the layout of an earlier version."""
    if row.get("format") == FORMER:
        raise UsageError(
            f"{folder} has the layout of an earlier attnsuite: `attnsuite migrate --results {folder.parent}` brings it "
            "into today's, and nothing is lost"
        )


def _check_format(found: Any) -> None:
    if found == FORMAT:
        return
    newer = isinstance(found, int) and found > FORMAT
    remedy = "a newer attnsuite wrote it, update yours" if newer else "move the folder away and run anew"
    raise ValueError(f"the format is {found!r:.80} and this attnsuite reads {FORMAT}: {remedy}")
