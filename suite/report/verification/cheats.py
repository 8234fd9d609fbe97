"""cheats.md held against itself: what happened is what must, or is said to be another verdict."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from attnsuite.model import MEASURED_STATUSES, MUST, Refusal, UsageError
from attnsuite.model.bounded import NOT_BOUNDED
from attnsuite.report.verification import markdown
from attnsuite.report.verification.texts import text_of

HEADS = ("submission", "what it does", "command", "must", "what happened")
OTHERWISE = "another verdict than it must get: "
PASSES = re.compile(r"passes all [1-9]\d*")
CAUGHT = re.compile(r"caught in ([1-9]\d*) of ([1-9]\d*): ")
COMMIT = re.compile(r"^\| commit \| ([0-9a-f]{7,40}) \|$", re.MULTILINE)
Musts = Mapping[str, tuple[str, str, str]]
"""Of each submission its class, and what must become of it when it is checked and when it is timed."""


def of_cheats(page: Path, musts: Callable[[str], Musts | None]) -> Iterator[Refusal]:
    """Where the page says that something happened which must not. `musts` are what a commit declares; None where it is
    not known.
    """
    try:
        text = text_of(page) or ""
    except UsageError:
        return  # said already
    amiss = [line.removeprefix(OTHERWISE) for _, line in markdown.points(text) if line.startswith(OTHERWISE)]
    commit = COMMIT.search(text)
    declared = musts(commit[1]) if commit else None
    seen: dict[str, list[str]] = {}
    for row in markdown.rows(text, HEADS):
        found = [row.cells.get(head, "") for head in HEADS]
        name, _, command, must, happened = found
        seen.setdefault(name, []).append(command)
        kind = row.sections[-1] if row.sections else ""
        why = _unlike(command, must, happened)
        if why and not any(line.startswith(f"{kind}: {name}: {command}: ") for line in amiss):
            yield Refusal(str(page), row.where, f"{name:.80} {why}, and is not among those with another verdict")
        if declared is not None and (due := declared.get(name)) != (kind, *_both(command, must, due)):
            said = f"{name:.80} of the class {kind:.40} must be {must!r:.40} under {command:.10}"
            its = f"{due[0]}, {due[1]} and {due[2]}" if due else "no such submission"
            yield Refusal(str(page), row.where, f"{said}, and {commit and commit[1]} declares {its}")
    for name, commands in seen.items():
        if sorted(commands) != ["bench", "check"]:
            said = ", ".join(commands)
            yield Refusal(str(page), "", f"{name:.80} stands there under {said:.80}, not once under check and bench")
    if declared is not None and (lost := sorted(declared.keys() - seen.keys())):
        yield Refusal(str(page), "", f"{lost[0]:.80} is not there, which {commit and commit[1]} declares")


def _both(command: str, must: str, due: tuple[str, str, str] | None) -> tuple[str, str]:
    """What must become of it under both commands, the one that the row has and the other as it is declared."""
    _, check, bench = due or ("", "", "")
    return (must, bench) if command == "check" else (check, must)


def _unlike(command: str, must: str, happened: str) -> str:
    """Why what happened is not what must; empty where it may be."""
    if must not in MUST or command not in ("check", "bench"):
        return f"must be {must!r:.40} under {command!r:.20}, which no submission must"
    return (_checked if command == "check" else _timed)(must, happened)


def _checked(must: str, happened: str) -> str:
    caught = CAUGHT.match(happened)
    if caught is None and not PASSES.fullmatch(happened):
        return f"was checked, and {happened!r:.60} is no verdict"
    if caught and int(caught[1]) > int(caught[2]):
        return f"was caught in {caught[1]} of {caught[2]}"
    return "" if must == "either" or (must == "caught") == bool(caught) else f"must be {must}, and {happened:.60}"


def _timed(must: str, happened: str) -> str:
    status, words = re.split(r"[:;]", f"{happened};", maxsplit=1)
    words = words.strip()
    if status not in MEASURED_STATUSES:
        return f"was timed, and {happened!r:.60} is no verdict"
    timed, bounded = status == "measured", not words.startswith(NOT_BOUNDED)
    may = {
        "measured": timed,
        "harmless": timed,
        "caught": not timed or not bounded,
        "no gain": True,
        "shown": timed,
        "walled": True,
    }
    return "" if may.get(must) else f"must be {must}, and {happened:.60}"
