"""Outcomes → columns: of each implementation, device and dtype the cases with a letter, an error and what was said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from attnsuite.model import Outcome, Status
from attnsuite.report.browser.naming import Naming, rounded

LETTERS = {
    Status.PASSED: "p",
    Status.WRONG: "w",
    Status.RAISED: "r",
    Status.DIED: "x",
    Status.HUNG: "h",
    Status.DECLINED: "d",
    Status.MISSING: "m",
}
"""The letter of each status, as the page's script reads it."""
VALIDATION = "input validation"
"""What stands in place of a finding where bad input was accepted, and no check fails for it."""
DIGITS = 3
"""Digits of errors on the page; the files of rows have all."""


@dataclass
class Names:
    """The names that all machines of a page share."""

    implementations: Naming = field(default_factory=Naming)
    cases: Naming = field(default_factory=Naming)
    details: Naming = field(default_factory=Naming)


def columns(rows: Iterable[tuple[str, Outcome]], runs: list[str], names: Names) -> list[dict[str, Any]]:
    """A block for each implementation, device, dtype and run: `c` cases, `s` letters, `e` errors, and what few have.

    `x` (detail), `k` (finding) and `g` (diagnosis) map the place of a case in the block to what is said of it.
    """
    blocks: dict[tuple[str, ...], list[Outcome]] = defaultdict(list)
    for run, of in rows:
        blocks[of.implementation, of.device, of.dtype, run].append(of)
    return [_block(key, of, runs.index(key[3]), names) for key, of in sorted(blocks.items())]


def _block(key: tuple[str, ...], outcomes: list[Outcome], run: int, names: Names) -> dict[str, Any]:
    name, device, dtype, _ = key
    sparse = {
        "x": {place: names.details.place(of.detail) for place, of in enumerate(outcomes) if of.detail},
        "k": {place: of.known or VALIDATION for place, of in enumerate(outcomes) if of.known or of.lenient},
        "g": {place: list(of.diagnosis) for place, of in enumerate(outcomes) if of.diagnosis},
    }
    return {
        "i": names.implementations.place(name), "v": device, "t": dtype, "r": run,
        "c": [names.cases.place(of.case) for of in outcomes],
        "s": "".join(LETTERS[of.status] for of in outcomes),
        "e": [rounded(of.error_ratio, DIGITS) for of in outcomes],
        **{name: each for name, each in sparse.items() if each},
    }  # fmt: skip
