"""Runs ↔ the rows of runs.jsonl, which also say how many rows a run has in the other files, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from suite.records import Facts, Machine, Run, UsageError
from suite.store import facts
from suite.store.files import Damaged, Row, digest, parsed_rows, row_text
from suite.store.rows import made, object_of, text_of

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
    path: Path, data: bytes, noted: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Run], dict[Block, Counted]]:
    """The runs in the data of a file, the one whose row was written last at the end, and what the finished ones hold.

    `noted` are the facts of finished runs by their digests. Raises UsageError for what is no such row.
    """
    runs: dict[str, Run] = {}
    held: dict[Block, Counted] = {}
    for number, row in parsed_rows(path, data, appended=True):
        refuse_former(path.parent, row)
        try:
            found = run(_with_facts(path, number, row, noted))
            held |= _held(found.id, object_of("rows", row.get("rows", {})))
        except (ValueError, TypeError) as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
        if found.id in runs and runs.pop(found.id).finished:
            raise Damaged(path, f"the run {found.id!r:.80} stands here twice", number)
        runs[found.id] = found
    return runs, held


def run(row: Row) -> Run:
    """The run that a row holds, with its facts in it. Raises ValueError for another format and for what is no row."""
    _check_format(row.get("format"))
    row = {"commit": "", "versions": {}, "sources": {}, "suite": "", **row}
    for field in fields(Run):
        if field.type == "str" and field.name in row:
            text_of(field.name, row[field.name])
        elif field.name in ("machine", "versions", "sources"):
            object_of(field.name, row.get(field.name, {}))
    machine = dict(row["machine"]) if "machine" in row else {}
    machine["accelerators"] = tuple(machine.get("accelerators", ()))
    own = {name: value for name, value in row.items() if name not in ("format", "rows", "digest", *_OF_FACTS)}
    noted = facts.facts({**row.get("facts", {}), **{name: row[name] for name in _OF_FACTS if name in row}})
    return made(Run, {**own, "machine": made(Machine, machine), "facts": noted})


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
    return {
        Block(identity, kind, device, implementation): Counted(*counted)
        for kind, devices in rows.items()
        for device, implementations in devices.items()
        for implementation, counted in implementations.items()
    }


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
