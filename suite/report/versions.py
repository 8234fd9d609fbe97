"""The outcomes of the same cases with several versions of libraries → a page: which version gets what wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnsuite.model import DTYPES, FAILURES, Outcome
from attnsuite.report.cells import NOTHING, Cell, code, said, strong, text
from attnsuite.report.page import Column, Page, Section, Table, blocks, note, points, section

NAME = "versions"
"""The name of the page, without its ending, and of its table for programs."""
LONGEST_SAID = 160
"""Characters of what an outcome says, beside its row."""
Question = tuple[str, str, str, str]


@dataclass(frozen=True)
class Tried:
    """An environment, the versions of its libraries, what was answered in it, and why something is missing."""

    name: str
    versions: Mapping[str, str]
    outcomes: Sequence[Outcome] = ()
    why_not: str = ""


def versions_page(tried: Sequence[Tried]) -> Page:
    """What depends on the version first, then what is wrong with every one; what passes everywhere is counted.

    A row is a case of an implementation, in all dtypes that are alike in it; a column is an environment.
    """
    by_question = _by_question(tried)
    differs = {key: found for key, found in by_question.items() if len({_state(each) for each in found}) > 1}
    fails = {key: found for key, found in by_question.items() if key not in differs and any(map(_is_failure, found))}
    others = len(by_question) - len(differs) - len(fails)
    counts = f"{len(differs):,} depend on the environment, {len(fails):,} fail in all, {others:,} fail in none."
    return Page(
        "Versions",
        blocks(
            note(f"{len(by_question):,} questions in {len(tried)} environments: {counts}"),
            points(_introduced(tried)),
            _section("What depends on the version", tried, differs),
            _section("What fails with every version", tried, fails),
        ),
        {NAME: _data(tried, by_question)},
    )


def _by_question(tried: Sequence[Tried]) -> dict[Question, list[Outcome | None]]:
    """The outcome of each question in each environment, in the order of implementations, cases and dtypes."""
    answers = [{each.key: each for each in of.outcomes} for of in tried]
    keys = sorted({key for of in answers for key in of}, key=lambda key: (key[0], key[1], _order(key[2]), key[3]))
    return {key: [of.get(key) for of in answers] for key in keys}


def _order(dtype: str) -> int:
    return DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES)


def _state(of: Outcome | None) -> str:
    return str(of.status) if of else ""


def _is_failure(of: Outcome | None) -> bool:
    return of is not None and of.status in FAILURES and not of.lenient


def _introduced(tried: Sequence[Tried]) -> Iterator[str]:
    """A line for each environment: in which libraries it differs from the others, and what is missing of it."""
    names = dict.fromkeys(name for of in tried for name in of.versions)
    unlike = [name for name in names if len({of.versions.get(name) for of in tried if of.versions}) > 1]
    for of in tried:
        found = ", ".join(f"{name} {of.versions.get(name, 'not there')}" for name in unlike if of.versions)
        failing = sum(map(_is_failure, of.outcomes))
        counted = f"{len(of.outcomes):,} outcomes, {failing:,} failures"
        yield f"{of.name}: {'; '.join(filter(None, (found, counted, of.why_not)))}"


def _section(title: str, tried: Sequence[Tried], of: Mapping[Question, list[Outcome | None]]) -> Section:
    rows = tuple(_row(*group) for group in _grouped(of))
    heads = ("implementation", "case", "dtypes", *(each.name for each in tried), "it says")
    return section(title, Table(tuple(map(Column, heads)), rows))


def _grouped(
    of: Mapping[Question, list[Outcome | None]],
) -> Iterator[tuple[Question, list[str], list[Outcome | None]]]:
    """Questions that differ in their dtypes alone and have the same outcomes, as one: with all these dtypes."""
    groups: dict[tuple[str, ...], tuple[Question, list[str], list[Outcome | None]]] = {}
    for key, found in of.items():
        name, case, dtype, device = key
        group = groups.setdefault((name, case, device, *map(_state, found)), (key, [], found))
        group[1].append(dtype)
    yield from groups.values()


def _row(key: Question, dtypes: Sequence[str], found: Sequence[Outcome | None]) -> tuple[Cell, ...]:
    first = next((each for each in found if _is_failure(each)), None) or next(filter(None, found))
    words = f"known as {first.known}" if first.known else first.detail
    return (
        said(code(key[0])),
        said(code(key[1])),
        text(", ".join(dtypes)),
        *map(_became, found),
        text(words, LONGEST_SAID),
    )


def _became(of: Outcome | None) -> Cell:
    if of is None:
        return text(NOTHING)
    return said(strong(of.status)) if of.status in FAILURES else text(of.status)


def _data(tried: Sequence[Tried], answers: Mapping[Question, list[Outcome | None]]) -> Table:
    """A row for each question and environment, for programs."""
    keys = ("environment", "implementation", "case", "dtype", "device", "status", "detail", "known")
    rows = tuple(
        tuple(map(text, (of.name, *key, answer.status, answer.detail, answer.known)))
        for key, found in answers.items()
        for of, answer in zip(tried, found, strict=True)
        if answer is not None
    )
    return Table(tuple(Column(None, key) for key in keys), rows)
