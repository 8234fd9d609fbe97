"""time.svg and memory.svg: time and memory over sequence length, by Altair, where the extra `charts` is installed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attnsuite.report.charting import COLOURS, CONFIG, missing_packages, svg_of
from attnsuite.report.files import write
from attnsuite.report.timed import ATTENTION, Row, Setting, TimedTable, setting_words, tables_of
from attnsuite.results import MachineRecord

LEAST_LENGTHS = 3
"""The fewest lengths of a drawn series."""
MOST_PANELS = 4
QUANTITIES: dict[str, tuple[str, Callable[[Row], float | None], float]] = {
    "time": ("milliseconds of a call", lambda row: row.median, 1e-3),
    "memory": ("MiB at the peak of a call", lambda row: row.reported_peak or None, 2.0**20),
}
"""By chart: the title of its axis, the value of a row, and the unit of the axis."""

BASES = {"time": 10, "memory": 2}
"""The base of each chart's logarithmic axis."""


def write_charts(folder: Path, recorded: MachineRecord) -> list[Path]:
    """Draw time.svg and memory.svg into `folder` and return their paths; no path without a series or Altair."""
    series = series_of(tables_of(recorded))
    if missing_packages() or not series:
        return []
    return write(folder, {f"{name}.svg": _drawn(name, series, recorded) for name in QUANTITIES})


def series_of(tables: Sequence[TimedTable]) -> dict[Setting, list[TimedTable]]:
    """Attention's tables of the ladder by setting, sorted by length, where there are enough lengths."""
    series: dict[Setting, list[TimedTable]] = defaultdict(list)
    for table in tables:
        if (
            (table.setting.contract, table.facts.group) == (ATTENTION, "ladder")
            and table.facts.length
            and table.measured
        ):
            series[table.setting].append(table)
    return {
        setting: sorted(members, key=lambda table: table.facts.length)
        for setting, members in series.items()
        if len({table.facts.length for table in members}) >= LEAST_LENGTHS
    }


def _drawn(name: str, series: dict[Setting, list[TimedTable]], recorded: MachineRecord) -> str:
    """One panel per series. × marks the end of a line that stops before the longest length."""
    import altair

    title, value, unit = QUANTITIES[name]
    rows: list[dict[str, Any]] = []
    for setting, tables in list(series.items())[:MOST_PANELS]:
        longest = {row.name: table.facts.length for table in tables for row in table.measured if value(row)}
        for table in tables:
            rows += [
                {
                    "panel": setting_words(setting, recorded.run.machine), "implementation": row.name,
                    "tokens": table.facts.length, "value": (value(row) or 0.0) / unit,
                    "stops": longest[row.name] == table.facts.length < tables[-1].facts.length,
                }
                for row in table.measured if value(row)
            ]  # fmt: skip
    names = sorted({row["implementation"] for row in rows})
    colours = altair.Scale(domain=names, range=[COLOURS[place % len(COLOURS)] for place in range(len(names))])
    base = altair.Chart(altair.Data(values=rows)).encode(
        x=altair.X("tokens:Q", scale=altair.Scale(type="log", base=2), axis=altair.Axis(title="tokens", format="~s")),
        y=altair.Y("value:Q", scale=altair.Scale(type="log", base=BASES[name]), axis=altair.Axis(title=title)),
        color=altair.Color("implementation:N", scale=colours),
        shape=altair.condition("datum.stops", altair.value("cross"), altair.value("circle")),
        strokeDash=altair.StrokeDash("implementation:N", legend=None),
    )
    lines = base.mark_line() + base.mark_point(size=50)
    facets = lines.properties(width=360, height=260).facet(altair.Facet("panel:N", title=None), columns=2)
    return svg_of(facets.configure(**CONFIG))
