"""The files of a run, `results/<machine>/<run>/`: encoding, decoding, and their verification."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import structs

from attnsuite.model import (
    MEASURED_STATUSES,
    STATUSES,
    ClaimResult,
    Facts,
    Measurement,
    Outcome,
    Refusal,
    Repetition,
    Run,
    Status,
    TrainingRow,
    UsageError,
)
from attnsuite.model.files import LARGEST, file_errors, read_bytes
from attnsuite.model.rows import lean

FORMAT = 4
"""The format that is written and read."""
RUN, FACTS = "run.json", "facts.json.gz"
KINDS: Mapping[str, type[AnyRow]] = {
    "outcomes": Outcome,
    "measurements": Measurement,
    "trainings": TrainingRow,
    "claims": ClaimResult,
    "repeats": Repetition,
}
"""The files of rows of a run, without their suffixes, and the type of their rows."""
SUFFIXES = (".jsonl.gz", ".jsonl")
"""The suffixes of rows of a finished run, and of the journal of an unfinished one."""
SHOWN_ERRORS = 20
"""Errors of one file that are listed; further ones are counted."""
Header = TypeVar("Header", Run, Facts)
AnyRow: TypeAlias = Outcome | Measurement | TrainingRow | ClaimResult | Repetition


class DamagedFile(UsageError):
    """A file of results that was edited or truncated; `refusal` has its path and line."""

    def __init__(self, path: Path, why: str, where: str = "") -> None:
        self.refusal = Refusal(str(path), where, why)
        remedy = f"`git checkout HEAD -- {path.parent}` restores what was committed; or move {path.parent} away"
        super().__init__(f"{self.refusal}; {remedy}")


def line_of(row: AnyRow) -> bytes:
    """The line of a row. Raises ValueError for a row that could not be read again."""
    line = msgspec.json.encode(lean(row))
    try:
        _checked(msgspec.json.decode(line, type=type(row)))
    except msgspec.ValidationError as error:
        raise ValueError(f"the row {row.key} breaks its type: {error}") from None
    return line + b"\n"


def _checked(row: AnyRow) -> AnyRow:
    """Return the row. Raises ValidationError for fields that contradict each other, which types cannot express."""
    if isinstance(row, Outcome) and row.status not in STATUSES:
        raise msgspec.ValidationError(f"no outcome has the status {row.status} - at `$.status`")
    if isinstance(row, Measurement):
        if row.status not in MEASURED_STATUSES:
            raise msgspec.ValidationError(f"no measurement has the status {row.status} - at `$.status`")
        if (row.status == Status.MEASURED) != bool(row.seconds):
            raise msgspec.ValidationError(f"status is {row.status}, with {len(row.seconds)} samples - at `$.seconds`")
        if row.processes and len(row.processes) != len(row.seconds):
            raise msgspec.ValidationError("Expected a digit for each sample - at `$.processes`")
    return row


def packed(data: bytes) -> bytes:
    """The data in gzip format without a name and a date, so that equal data gives equal bytes."""
    return gzip.compress(data, 9, mtime=0)


def unpacked(path: Path) -> bytes:
    """The content of a file, decompressed if its name ends in .gz. Raises DamagedFile if decompression fails."""
    with file_errors(path, "read"):
        data = read_bytes(path)
    if path.suffix != ".gz":
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFile(path, f"it cannot be unpacked ({error})") from None
    if len(content) > LARGEST:
        raise DamagedFile(path, f"it holds more than {LARGEST / 2**20:.0f} MiB")
    return content


def read_run(folder: Path) -> Run:
    """The run in a folder, with its facts. Its id and its machine's name are those of the folders.

    Raises DamagedFile for an invalid file, and UsageError for another format.
    """
    path = folder / RUN
    with file_errors(path, "read"):
        data = read_bytes(path)
    run = _decoded(path, data, Run)
    file = folder / FACTS
    facts = _decoded(file, unpacked(file), Facts) if file.exists() else Facts()
    folder = folder.absolute()
    machine = structs.replace(run.machine, name=folder.parent.name)
    return structs.replace(run, id=folder.name, facts=facts, machine=machine)


def _decoded(path: Path, data: bytes, kind: type[Header]) -> Header:
    try:
        version = msgspec.json.decode(data).get("format", FORMAT)
        if version == FORMAT or kind is Facts:
            return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError, RecursionError) as error:
        raise DamagedFile(path, *_message(error)) from None
    raise UsageError(f"{path}: format {version!r:.40} is not format {FORMAT}, which is read here; update attnsuite")


def run_text(run: Run) -> bytes:
    """The content of run.json; facts have a file of their own."""
    row = lean(structs.replace(run, format=FORMAT, facts=Facts()), LARGEST)
    return msgspec.json.format(msgspec.json.encode(row), indent=1) + b"\n"


def facts_text(facts: Facts) -> bytes:
    """The content of the file of facts."""
    return packed(msgspec.json.encode(lean(facts, LARGEST)) + b"\n")


def read_rows(folder: Path, kind: str, refusals: list[Refusal] | None = None) -> list[AnyRow]:
    """The rows of one kind of a run, in file order.

    Raises DamagedFile for the first invalid line; with `refusals`, all invalid lines are added to that list instead.
    """
    paths = (folder / f"{kind}{suffix}" for suffix in SUFFIXES)
    return [row for path in paths if path.exists() for row in _rows(path, KINDS[kind], refusals)]


def _rows(path: Path, kind: type[AnyRow], refusals: list[Refusal] | None) -> list[Any]:
    data = unpacked(path)
    if path.suffix != ".gz":
        data = data[: data.rfind(b"\n") + 1]  # the last row of a journal was cut off when its writer was killed
    decoder = msgspec.json.Decoder(kind)
    try:
        return [_checked(row) for row in decoder.decode_lines(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # line by line, to name the line
    rows, errors = [], list[DamagedFile]()
    for number, line in enumerate(data.removesuffix(b"\n").split(b"\n"), 1):
        try:
            rows.append(_checked(decoder.decode(line)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why, where = _message(error)
            errors.append(DamagedFile(path, why, ", ".join(filter(None, (f"line {number}", where)))))
    if refusals is None:
        raise errors[0]
    refusals += [error.refusal for error in errors[:SHOWN_ERRORS]]
    if len(errors) > SHOWN_ERRORS:
        refusals.append(Refusal(str(path), "", f"{len(errors) - SHOWN_ERRORS} more lines are damaged"))
    return rows


def _message(error: Exception) -> tuple[str, str]:
    """The message and the field of a JSON error, as ("Expected `str`, got `int`", "field status")."""
    why, _, place = str(error).partition(" - at `")
    return why, f"field {place.strip('`').removeprefix('$').removeprefix('.')}" if place.strip(
        "`"
    ) != "$" and place else ""


def altered(folder: Path, run: Run) -> list[Refusal]:
    """The files of a finished run that were altered, are missing or are unknown."""
    actual, expected = hashes(folder), run.files if run.finished else hashes(folder)
    refusals = [
        Refusal(str(folder / name), "", f"{RUN} names no such file; move it away")
        for name in actual.keys() - expected.keys()
    ]
    for name, digest in expected.items():
        if name not in actual:
            refusals.append(Refusal(str(folder / name), "", "the file is missing"))
        elif actual[name] != digest:
            refusals.append(Refusal(str(folder / name), "", f"the file was altered: its SHA-256 is not that in {RUN}"))
    return refusals


def hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file of a run except run.json, by name."""
    files = sorted(path for path in folder.iterdir() if path.name != RUN and path.name[0] != ".")
    return {path.name: hashlib.sha256(read_bytes(path)).hexdigest() for path in files}


def verify(machine: Path) -> list[Refusal]:
    """The errors in a machine's folder: altered, missing and unknown files, and damaged rows."""
    refusals: list[Refusal] = []
    for folder in sorted(path.parent for path in machine.glob(f"*/{RUN}")):
        try:
            run = read_run(folder)
        except DamagedFile as damaged:
            refusals.append(damaged.refusal)
        except UsageError as error:
            refusals.append(Refusal(str(folder / RUN), "", str(error).removeprefix(f"{folder / RUN}: ")))
        else:
            refusals += [*_file_errors(folder, run), *_row_errors(folder)]
    return refusals


def _file_errors(folder: Path, run: Run) -> Iterator[Refusal]:
    if not run.finished:
        again = f"the command that began it ({run.request[:200]!r}) goes on with the same --results"
        yield Refusal(str(folder / RUN), "", f"the run is not finished; {again}")
        return
    yield from altered(folder, run)


def _row_errors(folder: Path) -> Iterator[Refusal]:
    for kind in KINDS:
        refusals: list[Refusal] = []
        try:
            read_rows(folder, kind, refusals)
        except DamagedFile as damaged:
            refusals.append(damaged.refusal)
        yield from refusals
