"""Why questions have no answer: what implementations decline, and what is missing, in their own words."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from attnsuite.model import EVERY_CASE, Outcome, Status
from attnsuite.report.cells import code, listed, said
from attnsuite.report.conformance.tally import pattern
from attnsuite.report.page import Column, Table, table

MOST_NAMED = 4
"""The most implementations that are named beside a reason; of more, the others are counted."""


def reasons(outcomes: Sequence[Outcome], *statuses: Status) -> Table:
    """A row per implementation, device and reason, the most frequent reason of each implementation first."""
    alike: dict[tuple[str, str, str, str], list[Outcome]] = defaultdict(list)
    for of in outcomes:
        if of.status in statuses:
            alike[of.implementation, of.device, of.status, pattern(of.detail)].append(of)
    ordered = sorted(alike, key=lambda key: (*key[:2], -len(alike[key]), key))
    columns = (
        Column("implementation", "implementation"), Column("device", "device"), Column(key="status"),
        Column("questions", "questions"), Column("reason", "reason"),
    )  # fmt: skip
    rows = [(code(key[0]), *key[1:3], _questions(alike[key]), _example(alike[key])) for key in ordered]
    return table(columns, rows)


def reasons_together(outcomes: Sequence[Outcome], *statuses: Status) -> Table:
    """A row per reason, the most frequent first, with all implementations that have it."""
    alike: dict[str, list[Outcome]] = defaultdict(list)
    for of in outcomes:
        if of.status in statuses:
            alike[pattern(bare(of.detail))].append(of)
    ordered = sorted(alike, key=lambda key: (-len(alike[key]), key))
    rows = [(_questions(alike[key]), _who(alike[key]), bare(_example(alike[key]))) for key in ordered]
    return table(("questions", "of", "reason"), rows)


def bare(reason: str) -> str:
    """A declared reason without the attention that a plugged one quotes, and without what was raised beside it."""
    return re.sub(r"^(lacks \w+: )\w+/[\w.]+: ", r"\1", reason.partition("; in its own words: ")[0])


def _questions(of: Sequence[Outcome]) -> int | str:
    return "every case" if of[0].case == EVERY_CASE else len(of)


def _example(of: Sequence[Outcome]) -> str:
    return min(each.detail for each in of) or "no reason given"


def _who(of: Sequence[Outcome]) -> object:
    names = sorted({each.implementation for each in of})
    return said(listed(names, MOST_NAMED if len(names) <= MOST_NAMED else MOST_NAMED - 1))
