"""The files of `--junit` and `--json`: outcomes as JUnit XML, which CI services show, and a JSON object per row."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from attnsuite.model import FAILURES, Outcome, Status, UsageError, escaped
from attnsuite.model.files import replace_bytes
from attnsuite.report.tally import groups

NAME = "attnsuite"
"""The name of the root element of JUnit XML."""
JUNIT, ROW = b'<testsuites name="attnsuite"', b'{"implementation": '
"""The opening of files of --junit, and of --json; in rows of results/ the space is missing."""
MOST_OPENING = 200
"""Bytes at the start of a file in which its opening is searched."""


def refuse_foreign(path: Path, opening: bytes) -> None:
    """Raise UsageError for a file without this opening: attnsuite did not write it, and it may be the submission.

    An empty file has nothing to lose.
    """
    try:
        if not path.parent.is_dir() or (path.is_symlink() and not path.exists()):
            raise UsageError(f"{path} cannot be written: name a file in a folder that exists")
        with path.open("rb") as file:
            beginning = file.read(MOST_OPENING) if path.is_file() else b"a device"
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    if beginning and opening not in beginning:
        raise UsageError(f"{path} exists and was not written by attnsuite; name another file")


def write_interrupted_junit(path: Path) -> None:
    """Write that a check was stopped before any test ran. A file that attnsuite did not write stays as it is."""
    with suppress(UsageError):
        refuse_foreign(path, JUNIT)
        write_junit(path, [], {}, "interrupted before any test was run")


def write_junit(
    path: Path, outcomes: Sequence[Outcome], again: Mapping[str, Sequence[str]], interrupted: str = ""
) -> None:
    """Write the outcomes as a whole file: a suite per implementation, a test case per case and dtype.

    A known bug is skipped, as are unsupported and missing ones. Bad input that was accepted where no check fails for it
    passed, and its output says so. `again` has the words of a command line that name an implementation. `interrupted`
    says that not all tests ran; it is an error of its own, so that no reader takes the file for a complete one. Raises
    UsageError if the file cannot be written.
    """
    replace_bytes(path, junit_document(outcomes, again, interrupted))


def junit_document(outcomes: Sequence[Outcome], again: Mapping[str, Sequence[str]], interrupted: str = "") -> bytes:
    """The XML document."""
    root = Element("testsuites", {"name": NAME, **_counts(outcomes, bool(interrupted))})
    written = datetime.now(UTC).isoformat(timespec="seconds").removesuffix("+00:00")  # the schema allows no zone
    if interrupted:
        suite = SubElement(root, "testsuite", {"name": NAME, "timestamp": written, **_counts([], True)})
        case = SubElement(suite, "testcase", classname=NAME, name="check", time=_seconds(0))
        SubElement(case, "error", message=interrupted, type="interrupted")
    for name in dict.fromkeys(outcome.implementation for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.implementation == name]
        suite = SubElement(root, "testsuite", {"name": escaped(name), "timestamp": written, **_counts(own)})
        for outcome in own:
            _case(suite, outcome, again)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _counts(outcomes: Sequence[Outcome], interrupted: bool = False) -> dict[str, str]:
    kinds = [*map(_kind, outcomes), *["error"] * interrupted]
    counted = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    counts = {name: str(kinds.count(kind)) for name, kind in counted.items()}
    return {"tests": str(len(kinds)), **counts, "time": _seconds(sum(outcome.seconds or 0 for outcome in outcomes))}


def _kind(outcome: Outcome) -> str:
    """The element of a test case that did not pass; empty for one that passed."""
    if outcome.status == Status.PASSED or outcome.lenient:
        return ""
    if outcome.status not in FAILURES or outcome.known:
        return "skipped"
    return "failure" if outcome.status == Status.FAILED else "error"


def _case(suite: Element, outcome: Outcome, again: Mapping[str, Sequence[str]]) -> None:
    implementation, kind = escaped(outcome.implementation.replace("/", ".")), _kind(outcome)
    name = escaped(f"{outcome.case}[{outcome.dtype}]")
    case = SubElement(suite, "testcase", classname=implementation, name=name, time=_seconds(outcome.seconds or 0))
    if outcome.lenient:
        SubElement(case, "system-out").text = escaped(outcome.detail)
    if not kind:
        return
    known = f"known as {outcome.known}, " if outcome.known else ""
    element = SubElement(case, kind, message=escaped(f"{known}{outcome.says}"))
    if kind != "skipped":
        element.set("type", str(outcome.status))
        (group,) = groups([outcome], again)
        element.text = escaped(group.rerun)


def _seconds(number: float) -> str:
    return f"{number:.6f}"


class JsonRows:
    """Writes rows as JSON lines and flushes each one, so that a crash loses no final row."""

    def __init__(self, target: str | None) -> None:
        self.target = target
        self._file: IO[str] | None = None

    def __enter__(self) -> JsonRows:
        if self.target == "-":
            self._file = sys.stdout
        elif self.target is not None:
            refuse_foreign(Path(self.target), ROW)
            try:
                self._file = Path(self.target).open("w", encoding="utf-8")
            except OSError as error:
                raise UsageError(f"{self.target} cannot be written: {error.strerror}") from None
        return self

    def write(self, row: Mapping[str, object]) -> None:
        """Write one row as a line of JSON."""
        if self._file is None:
            return
        try:
            printable = {name: escaped(value) if isinstance(value, str) else value for name, value in row.items()}
            self._file.write(json.dumps(printable, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise UsageError(f"{self.target} cannot be written: {error.strerror}; the rows before stay") from None

    def __exit__(self, *_: object) -> None:
        if self._file is not None and self._file is not sys.stdout:
            with suppress(OSError):
                self._file.close()
