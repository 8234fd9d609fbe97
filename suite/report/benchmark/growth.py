"""How time and memory grow with the sequence length: exponents, fitted to the workloads of the ladder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from attnsuite.model import Machine
from attnsuite.model.statistics import exponent
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.timed_tables import Row, Setting, TimedTable
from attnsuite.report.benchmark.views import by_setting
from attnsuite.report.cells import NOTHING, Cell, code, number
from attnsuite.report.page import Column, Section, Table, note, section, table

LADDER = "ladder"
"""The group of workloads that differ in nothing but their length."""
LONG_LENGTH = 8192
"""Tokens. From this length on, the fixed cost of a call is small beside what grows with the length."""

COLUMNS = (
    Column("implementation", "implementation"), Column(key="contract"), Column(key="dtype"), Column(key="device"),
    Column(key="threads"), Column(key="direction"), Column(key="cache"), Column("lengths", "lengths"),
    Column("from", "shortest"), Column("to", "longest"), Column("time", "time"),
    Column(f"time from {LONG_LENGTH:,} on", "time_of_long"), Column("memory", "memory"),
    Column(f"memory from {LONG_LENGTH:,} on", "memory_of_long"),
)  # fmt: skip
"""The columns of a table of growth, for the page and for benchmark_growth.csv."""


@dataclass(frozen=True)
class Growth:
    """The powers of the length by which one implementation's time and memory grow; None if they cannot be fitted.

    `long_time` and `long_memory` are fitted to the lengths from LONG_LENGTH on. Memory is what a call takes beyond what
    the meter reads for a call that allocates nothing.
    """

    setting: Setting
    name: str
    lengths: tuple[int, ...]
    time: float | None
    long_time: float | None
    memory: float | None
    long_memory: float | None


def growths(tables: Sequence[TimedTable]) -> list[Growth]:
    """The growth of every implementation that was measured at two or more lengths of the ladder in one run."""
    ladder = by_setting(table for table in tables if table.facts.group == LADDER)
    found = [_growth(of, name, rows) for of, rungs in ladder.items() for name, rows in by_length(rungs).items()]
    return sorted((of for of in found if len(of.lengths) > 1), key=lambda of: (of.setting.order, of.name))


def by_length(tables: Sequence[TimedTable]) -> dict[str, dict[int, Row]]:
    """The rows of each implementation by length, the shortest first, in tables of one setting.

    All rows of an implementation are of one run, because a machine's speed differs from run to run: the run that
    measured most lengths, or the newest of these.
    """
    found: dict[str, dict[str, dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
    for of in tables:
        if length := of.facts.length:
            for row in of.measured:
                found[row.name][row.run][length] = row
    most = {name: max(runs.items(), key=lambda of: (len(of[1]), of[0]))[1] for name, runs in found.items()}
    return {name: dict(sorted(rows.items())) for name, rows in most.items()}


def growth_section(found: Sequence[Growth], machine: Machine) -> Section:
    """A table of exponents for each setting."""
    tables = []
    for setting in dict.fromkeys(of.setting for of in found):
        title = ", ".join(filter(None, (wording.contract(setting.contract), wording.setting(setting, machine))))
        tables.append(section(title, growth_table([of for of in found if of.setting == setting])))
    says = (
        "The power of the length s by which a call's time and memory grow: 2 is quadratic, 1 is linear, 0 is the same "
        "for every length. Fitted by least squares on logarithms to the rows of one run, the one that has most; memory "
        "is without what its meter says of a call that allocates nothing."
    )
    return section("Growth with the length", note(says) if tables else (), tables)


def growth_table(found: Sequence[Growth]) -> Table:
    """A row for each implementation and setting."""
    return table(COLUMNS, map(_row, found))


def power(of: float | None) -> str:
    """An exponent to two decimals: "s^1.98"."""
    return NOTHING if of is None else f"s^{of:.2f}".replace("-0.00", "0.00").replace("-", "−")


def _growth(setting: Setting, name: str, rows: dict[int, Row]) -> Growth:
    long = {length: row for length, row in rows.items() if length >= LONG_LENGTH}
    powers = (_fitted(of, value) for value in (lambda row: row.median, lambda row: row.net_peak) for of in (rows, long))
    return Growth(setting, name, tuple(rows), *powers)


def _fitted(rows: dict[int, Row], value: Callable[[Row], float | None]) -> float | None:
    points = {length: found for length, row in rows.items() if (found := value(row)) is not None}
    return exponent(list(points), list(points.values())) if len(points) > 1 else None


def _row(of: Growth) -> list[object]:
    at, name = of.setting, Cell((code(of.name),), f"{of.setting.contract}/{of.name}")
    lengths = (len(of.lengths), *(number(each, f"{each:,}") for each in (of.lengths[0], of.lengths[-1])))
    powers = (number(each, power(each)) for each in (of.time, of.long_time, of.memory, of.long_memory))
    return [name, at.contract, at.dtype, at.device, at.threads, at.direction, at.cache, *lengths, *powers]
