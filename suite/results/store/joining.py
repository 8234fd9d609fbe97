"""Several parts of one request on one machine → one run with the records of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from attnsuite.model import Facts, Measurement, Operators, Outcome, Run, UsageError
from attnsuite.results.store.contents import AnyRecord
from attnsuite.results.store.parts import Part

OF_ALL = ("contracts", "gaps", "conventions", "findings", "again", "baselines")
"""The facts about contracts and implementations that all parts of a request note alike."""
Keyed = dict[tuple[object, ...], tuple[Path, AnyRecord]]


def joined(parts: Sequence[Part]) -> Part:
    """One run of all these parts, whose machine is that of the first. Copies of a run count once.

    A run that is kept already stays the same run. Raises UsageError where one question has two answers.
    """
    ordered = sorted(parts, key=lambda part: (not part.kept, part.age))
    records = records_of(ordered)
    return Part(ordered[0].folder, _run([part.run for part in ordered]), [record for _, record in records.values()])


def records_of(parts: Iterable[Part]) -> Keyed:
    """The records of these parts by what was asked, of each question the first.

    Raises UsageError, which names both folders, where a question was answered otherwise in another part.
    """
    found: Keyed = {}
    for part in parts:
        for record in part.records:
            folder, earlier = found.setdefault((type(record), *record.key), (part.folder, record))
            if _said(earlier) != _said(record):
                asked = " ".join(record.key)
                raise UsageError(
                    f"{asked:.200} has one answer in {folder} ({_in_words(earlier)}) and another in {part.folder} "
                    f"({_in_words(record)}), yet both are of one run: leave one of the two out"
                )
    return found


def _said(record: AnyRecord) -> object:
    """What two answers to one question must agree in."""
    match record:
        case Outcome():
            return record.status
        case Measurement():
            return record.status, record.seconds
        case _:
            return record


def _in_words(record: AnyRecord) -> str:
    match record:
        case Outcome():
            return str(record.status)
        case Measurement():
            return f"{record.status}, {len(record.seconds)} samples"
        case _:
            return type(record).__name__.lower()


def _run(runs: Sequence[Run]) -> Run:
    """One run in place of these, or the only one where nothing was divided."""
    first, commits = runs[0], [run.commit for run in runs if run.commit]
    parts = {name: identity for run in runs for name, identity in run.covers.items()}
    if not parts:
        return first
    return replace(
        first,
        id=first.id if first.shards else min(run.id for run in runs),
        started=min(run.started for run in runs),
        finished=max(run.finished for run in runs),
        commit=next((each for each in commits if not each.endswith("-dirty")), first.commit),
        facts=_facts([run.facts for run in _once(runs)]),
        shard="",
        shards=dict(sorted(parts.items(), key=lambda part: int(part[0].partition("/")[0]))),
    )


def _once(runs: Sequence[Run]) -> list[Run]:
    """The runs without those of which every part is in one before: copies, and what was merged already."""
    there: set[tuple[str, str]] = set()
    found = []
    for run in runs:
        if not run.covers.items() <= there:
            found.append(run)
        there |= run.covers.items()
    return found


def _facts(noted: Sequence[Facts]) -> Facts:
    """What one run notes in place of these: of what all of them note the first, all that only some do, and sums."""
    return replace(
        noted[0],
        **{name: _first([getattr(each, name) for each in noted]) for name in OF_ALL},
        examples=tuple({each.id: each for of in noted for each in of.examples}.values()),
        workloads=_first_of_each([each.workloads for each in noted]),
        profile=next((each.profile for each in noted if each.profile), ""),
        walls={name: " or ".join(dict.fromkeys(of)) for name, of in _all([each.walls for each in noted]).items()},
        operators={name: _added(of) for name, of in _all([each.operators for each in noted]).items()},
        whole=tuple(dict.fromkeys(name for each in noted for name in each.whole)),
        seconds=_sums([each.seconds for each in noted]),
    )


def _first(noted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each name what was noted first."""
    return {name: value for each in reversed(noted) for name, value in each.items()}


def _first_of_each(noted: Sequence[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The same of mappings within mappings."""
    return {name: _first(of) for name, of in _all(noted).items()}


def _all(noted: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Of each name all that was noted."""
    return {name: [each[name] for each in noted if name in each] for name in _first(noted)}


def _added(of: Sequence[Operators]) -> Operators:
    """What ran in the questions that any of them looked at."""
    return Operators(sum(each.looked_at for each in of), _sums([each.ran for each in of]))


def _sums(noted: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: sum(each.get(name, 0) for each in noted) for name in _first(noted)}
