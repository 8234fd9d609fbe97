"""What stood around the submissions that do not ship, and which operators they ran."""

from __future__ import annotations

from collections.abc import Mapping

from attnsuite.model import Facts
from attnsuite.report.cells import code, text
from attnsuite.report.page import Table, table

LONGEST = 600
"""Characters of a cell: all walls in words, or the operators of a long submission."""


def strangers(declared: Mapping[str, Facts]) -> Table:
    """`declared` are the facts of the run that each implementation was last checked in."""
    rows = [
        (code(name), text(of.walls[name].removeprefix("walls: "), LONGEST), text(_ran(of, name), LONGEST))
        for name, of in sorted(declared.items())
        if name in of.walls
    ]
    return table(("implementation", "walls", "operators that ran"), rows)


def _ran(of: Facts, name: str) -> str:
    ran = of.operators.get(name)
    return ran.whole.removeprefix("operators: ") if ran else ""
