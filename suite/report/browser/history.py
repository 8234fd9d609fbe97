"""What history says of one quantity over many runs, as the page draws it. Who keeps history makes these of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from attnsuite.report.browser.naming import rounded


@dataclass(frozen=True)
class Moment:
    """One run: when and at which commit, the value, also in words, and its interval, if there is one."""

    when: str
    """A date as ISO 8601 has it."""
    commit: str
    value: float
    words: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """One quantity of one implementation on one machine, the oldest moment first."""

    machine: str
    implementation: str
    what: str
    """The quantity in words: `ladder/1k float32 cpu 1 thread forward hot, time compared with the baseline's`."""
    moments: Sequence[Moment]
    changes: Sequence[int] = ()
    """The places of the moments with which another level begins."""
    releases: Sequence[tuple[str, str]] = ()
    """Dates from which on a library had another version, each with its words: `("2026-11-20", "torch 2.13.0")`."""


def lines(of: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines as data of the page."""
    return [
        {
            "machine": each.machine,
            "implementation": each.implementation,
            "what": each.what,
            "moments": [
                [m.when, m.commit, *(rounded(v, 4) for v in (m.value, m.low, m.high)), m.words] for m in each.moments
            ],
            "changes": list(each.changes),
            "releases": [list(release) for release in each.releases],
        }
        for each in of
    ]
