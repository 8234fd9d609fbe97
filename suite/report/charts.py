"""The look of all charts and figures; time.svg and memory.svg: time and memory over sequence length, by Altair."""

import io
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

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


NEEDED = {"altair": "altair", "vl_convert": "vl-convert-python"}
"""The modules that draw, and the package that installs each."""

INK = "#1f2328"
"""The colour of text and of the baseline."""
MUTED = "#59636e"
"""The colour of axes and subtitles."""
GRID = "#e4e7eb"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8a8f98")
"""The palette of Okabe and Ito for colour-blind readers, with grey in place of yellow, which is faint on white."""
FONT = "Liberation Sans, Helvetica, Arial, sans-serif"
"""The fonts of text, by preference; vl-convert brings Liberation Sans."""

CONFIG = {
    "background": "white",
    "padding": 14,
    "font": FONT,
    "aria": False,
    "view": {"stroke": None},
    "title": {"fontSize": 17, "color": INK, "subtitleFontSize": 13, "subtitleColor": MUTED, "subtitlePadding": 6},
    "axis": {
        "labelFontSize": 12,
        "labelColor": MUTED,
        "titleFontSize": 12,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "gridColor": GRID,
        "domainColor": MUTED,
        "tickColor": MUTED,
    },
}


def missing_packages() -> list[str]:
    """The packages that drawing needs and that are not installed."""
    missing = []
    for module, package in NEEDED.items():
        try:
            import_module(module)
        except ImportError:
            missing.append(package)
    return missing


def svg_of(chart: Any) -> str:
    """An Altair chart as the text of an SVG file, equal for equal charts."""
    written = io.StringIO()
    chart.save(written, format="svg")
    return _numbered(written.getvalue())


def _numbered(svg: str) -> str:
    """The drawing with clip paths and gradients numbered from 1; Altair numbers them across charts."""
    places: dict[str, dict[str, str]] = {"clip": {}, "gradient_": {}}

    def renumbered(match: re.Match[str]) -> str:
        numbers = places[match[1]]
        return numbers.setdefault(match[0], f"{match[1]}{len(numbers) + 1}")

    return re.sub(r'(?:(?<=id=")|(?<=url\(#))(clip|gradient_)\d+', renumbered, svg)
