"""Runs of one machine → how many questions each implementation passed, and which it answers otherwise than before."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from attnsuite.model import FAILURES, LETTERS, NOT_ASKED, Answered, Answers, Changed, Conformance, Snapshot

FAILED = frozenset(letter for letter, status in LETTERS.items() if status in FAILURES)
"""The letters of failures that nothing records; known ones are capitals."""


def conformance_of(kept: Sequence[Snapshot]) -> Iterator[Conformance]:
    """The answers of each implementation on each device of one machine."""
    found: dict[tuple[str, str], list[tuple[str, Answered]]] = defaultdict(list)
    for of in kept:
        for answered in of.answered:
            found[answered.key].append((of.run.id, answered))
    machine = kept[0].run.machine.name
    for (implementation, device), over in sorted(found.items()):
        points = tuple(_counted(run, of.letters) for run, of in over)
        yield Conformance(machine, implementation, device, points, tuple(_changes(over)))


def said(letter: str) -> str:
    """What a letter stands for: `wrong`, or `wrong (known)` where it is a capital."""
    status = str(LETTERS[letter.lower()])
    return status if letter.islower() else f"{status} (known)"


def _counted(run: str, letters: str) -> Answers:
    counts = Counter(letters)
    known = sum(counts[letter.upper()] for letter in FAILED)
    failed = sum(counts[letter] for letter in FAILED) + known
    return Answers(run, len(letters) - counts[NOT_ASKED], counts["p"], failed, known)


def _changes(over: Sequence[tuple[str, Answered]]) -> Iterator[Changed]:
    """What each run answers otherwise than the last before it that was asked the same."""
    last: dict[str, tuple[str, str]] = {}
    before: Answered | None = None
    for run, of in over:
        alike = before is not None and (before.letters, before.questions) == (of.letters, of.questions)
        for question, letter in zip(of.questions, of.letters, strict=True):
            if letter == NOT_ASKED:
                continue
            if not alike and before is not None:
                yield from _changed(run, question, letter, last.get(question))
            last[question] = letter, run
        before = of


def _changed(run: str, question: str, letter: str, last: tuple[str, str] | None) -> Iterator[Changed]:
    case, _, dtype = question.rpartition(" ")
    if last is None:
        if letter.lower() in FAILED:
            yield Changed(run, "", case, dtype, "", said(letter))
    elif last[0] != letter:
        yield Changed(run, last[1], case, dtype, said(last[0]), said(letter))
