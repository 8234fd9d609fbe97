"""What the charts of a benchmark show, as data, without the library that draws them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from attnsuite.model import Machine
from attnsuite.model.statistics import LEVEL
from attnsuite.report import provenance
from attnsuite.report.benchmark import wording
from attnsuite.report.benchmark.growth import LADDER, by_length, growths, power
from attnsuite.report.benchmark.timed_tables import BASELINE, Row, Setting, TimedTable, names, runs_of
from attnsuite.report.benchmark.views import Material, View, by_setting
from attnsuite.report.cells import NOTHING, plain
from attnsuite.report.page import Mark, Panel, Picture
from attnsuite.report.units import percent, rate_unit

MOST_PANELS = 4
"""The most panels that fit into one picture."""
LEAST_ERROR = 1e-3
"""In bounds: where an answer without any error is drawn, for an axis of powers of ten has no 0."""
LONGEST_LABEL = 30
"""Characters of an implementation's name: longer labels would cover the marks of others."""
FRONT = f"filled and joined: no other is better in both; thin lines: {100 * LEVEL:g} % intervals, where rounds suffice"
"""How charts of two quantities explain their marks."""


@dataclass(frozen=True)
class Value:
    """What a chart shows of a row, and its interval where that was timed; None where it has no ends."""

    amount: float
    interval: tuple[float, float] | None = None


def _ends(low: float, high: float) -> tuple[float, float] | None:
    return (low, high) if 0 < low <= high < math.inf else None


def time(row: Row) -> Value | None:
    """The median time with its interval."""
    return Value(row.time.median, _ends(row.time.low, row.time.high)) if row.time else None


def rate(row: Row) -> Value | None:
    """FLOPs per second in the median time, and at the ends of its interval."""
    found = row.rate()
    if not found or not row.time:
        return None
    ends = _ends(row.time.low, row.time.high)
    work = found * row.time.median
    return Value(found, ends and (work / ends[1], work / ends[0]))


def memory(row: Row) -> Value | None:
    """The net peak of memory."""
    return None if row.net_peak is None else Value(row.net_peak)


def speed(row: Row) -> Value | None:
    """The speed-up as tables have it: of the ratios within rounds, 1 for the baseline."""
    if row.verdict == BASELINE:
        return Value(1.0, (1.0, 1.0))
    return Value(row.against.speedup, _ends(row.against.low, row.against.high)) if row.against else None


def relative(row: Row) -> Value | None:
    """The time as a multiple of the baseline's: one over the speed-up."""
    found = speed(row)
    return found and Value(1 / found.amount, found.interval and (1 / found.interval[1], 1 / found.interval[0]))


def pictures(view: View, of: Material) -> dict[str, Picture]:
    """The charts of one view by name; charts with too few points to compare are left out."""
    made = {
        "time": _grown(view, of, "time", time),
        "memory": _grown(view, of, "memory", memory),
        "flash": _flash(view, of),
        "throughput": _throughput(view, of),
        "error": _error(view, of),
        "tradeoff": _tradeoff(view, of),
    }
    contract = wording.contract(view.setting.contract)
    return {name: _of_contract(contract, picture) for name, picture in made.items() if picture.panels}


def _of_contract(contract: str, picture: Picture) -> Picture:
    if not contract:
        return picture
    return replace(picture, title=plain(f"{contract}: {picture.title[0].lower()}{picture.title[1:]}"))


def _grown(view: View, of: Material, what: str, value: Callable[[Row], Value | None]) -> Picture:
    """A quantity over the lengths of the ladder, in a panel for each direction and number of threads."""
    ladder = [table for table in view.related if table.facts.group == LADDER]
    grown = growths(ladder)
    powers = {(each.setting, each.name): each.time if what == "time" else each.memory for each in grown}
    panels = []
    for setting, tables in by_setting(ladder).items():
        labels = {name: _with_power(name, powers.get((setting, name))) for name in names(tables)}
        title = _panel_title(setting, of.recorded.run.machine)
        panels.append(Panel(title, _series(view, tables, value, labels.__getitem__)))
    says = "Time over sequence length" if what == "time" else "Peak memory over sequence length, without inputs"
    why = next((table.facts.why for table in ladder), "")
    subtitle, kept = _subtitle(view, ladder, of, why.partition(":")[0], threads=False), _worth_it(panels)
    return Picture("lines", says, subtitle, "length", what, kept, _how_to_read(kept))


def _how_to_read(panels: Sequence[Panel]) -> str:
    bars = f"; upright: {100 * LEVEL:g} % intervals" if _has_intervals(panels) else ""
    return f"s^2: with the square of the length; a line is of one run{bars}"


def _has_intervals(panels: Sequence[Panel]) -> bool:
    return any(each for panel in panels for mark in panel.marks for each in mark.intervals)


def _intervals_said(panels: Sequence[Panel]) -> str:
    """How to read the lines through marks, where there are any."""
    return f"thin lines: {100 * LEVEL:g} % intervals" if _has_intervals(panels) else ""


def _with_power(name: str, fitted: float | None) -> str:
    return _short(name) if fitted is None else f"{_short(name)}\N{EN SPACE}{power(fitted)}"


def _flash(view: View, of: Material) -> Picture:
    """FLOPs per second over the lengths of FlashAttention's grid, in a panel for each of its variants."""
    variants: dict[str, list[TimedTable]] = defaultdict(list)
    for table in view.tables:
        if table.facts.group.startswith("flash"):
            variants[table.short.partition("-")[2]].append(table)
    panels = [
        Panel(variant.replace("e", "width ", 1).replace("-", ", "), _series(view, tables, rate, _short))
        for variant, tables in variants.items()
    ]
    title = "Throughput over sequence length, FlashAttention's grid"
    shown = [table for tables in variants.values() for table in tables]
    kept = _worth_it(panels)
    return Picture("lines", title, _subtitle(view, shown, of), "length", "rate", kept, _intervals_said(kept))


def _series(
    view: View,
    tables: Sequence[TimedTable],
    value: Callable[[Row], Value | None],
    label: Callable[[str], str],
) -> tuple[Mark, ...]:
    styles, marks = _styles(view), []
    for name, rows in by_length(tables).items():
        found = {length: each for length, row in rows.items() if (each := value(row)) is not None}
        points = tuple((length, each.amount) for length, each in found.items())
        intervals = tuple(each.interval for each in found.values())
        if points:
            marks.append(Mark(_short(name), styles[name], points, label(name), intervals=_if_any(intervals)))
    return tuple(marks)


def _if_any(intervals: tuple[tuple[float, float] | None, ...]) -> tuple[tuple[float, float] | None, ...]:
    return intervals if any(intervals) else ()


def _worth_it(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """The panels in which some line has two points, at most MOST_PANELS of them."""
    return tuple(panel for panel in panels if any(len(mark.points) > 1 for mark in panel.marks))[:MOST_PANELS]


def _throughput(view: View, of: Material) -> Picture:
    """A bar of FLOPs per second for each implementation, in a panel for each representative workload."""
    styles, panels = _styles(view), []
    for table in view.representatives:
        rates = [(found, row) for row in table.measured if (found := rate(row))]
        unit = rate_unit(found.amount for found, _ in rates)
        bars = []
        for found, row in sorted(rates, key=lambda each: (-each[0].amount, each[1].name)):
            share = f", {percent(row.roofline)} of roofline" if row.roofline else ""
            said, ends = unit.of(found.amount) + share, _if_any((found.interval,))
            bars.append(Mark(_short(row.name), styles[row.name], ((found.amount, 0.0),), said, intervals=ends))
        panels.append(Panel(plain(table.workload, 60), tuple(bars)))
    kept = tuple(panel for panel in panels if panel.marks)
    subtitle = _subtitle(view, view.representatives, of)
    title = "Throughput" if view.is_model else "Throughput, by the pairs attended"
    return Picture("bars", title, subtitle, "rate", "", kept, _intervals_said(kept))


def _error(view: View, of: Material) -> Picture:
    """Speed against error, in a panel for each representative workload in which three can be compared."""
    panels = []
    for table in view.representatives:
        places = {}
        for row in table.measured:
            found, error = speed(row), row.of.error_ratio
            if found and error is not None and math.isfinite(error):
                places[row.name] = Value(max(error, LEAST_ERROR)), found
        panels.append(Panel(plain(table.workload, 60), _placed(view, places, better=(-1, 1))))
    kept = tuple(panel for panel in panels if len(panel.marks) > 2)[:MOST_PANELS]
    title = f"Speed against error: speed relative to {_baseline(view)}, error in units of its bound"
    return Picture("points", title, _subtitle(view, view.representatives, of), "error", "speed", kept, FRONT)


def _tradeoff(view: View, of: Material) -> Picture:
    """Memory against time at the longest rung of the ladder at which more than half of all were measured beside the
    baseline: time as a multiple of the baseline's, so that it is the ratio of tables.
    """
    ladder = {table.facts.length: table for table in view.tables if table.facts.group == LADDER and table.facts.length}
    rungs = {
        length: {row.name: (at, peak) for row in table.measured if (at := relative(row)) and (peak := memory(row))}
        for length, table in ladder.items()
    }
    most = max(map(len, rungs.values()), default=0)
    length = max((length for length, places in rungs.items() if 2 * len(places) > most), default=0)
    panel = Panel("", _placed(view, rungs.get(length, {}), better=(-1, -1)))
    title = f"Memory against time at {length:,} tokens: time relative to {_baseline(view)}"
    panels = (panel,) if len(panel.marks) > 1 else ()
    shown = [ladder[length]] if panels else []
    return Picture("points", title, _subtitle(view, shown, of), "relative", "memory", panels, FRONT)


def _placed(view: View, places: Mapping[str, tuple[Value, Value]], better: tuple[int, int]) -> tuple[Mark, ...]:
    """The points by name, in front those that none beats. `better` is 1 for an axis where more is better, else -1."""
    styles = _styles(view)
    good = {name: (better[0] * across.amount, better[1] * up.amount) for name, (across, up) in places.items()}
    marks = []
    for name, (across, up) in sorted(places.items()):
        front = not any(_beats(good[other], good[name]) for other in good)
        ends = _if_any((across.interval or up.interval,))
        marks.append(Mark(_short(name), styles[name], ((across.amount, up.amount),), _short(name), front, ends))
    return tuple(marks)


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] >= other[0] and one[1] >= other[1] and one != other


def _styles(view: View) -> dict[str, int]:
    """0 for the baseline, and a number for each of the others."""
    first = _baseline(view)
    others = [name for name in names(view.related) if name != first]
    return {first: 0, **{name: place for place, name in enumerate(others, 1)}}


def _baseline(view: View) -> str:
    return view.tables[0].baseline


def _panel_title(setting: Setting, machine: Machine) -> str:
    said = wording.direction(setting.direction), wording.threads(setting.threads, machine)
    return plain(", ".join(filter(None, said)))


def _subtitle(view: View, shown: Sequence[TimedTable], of: Material, what: str = "", threads: bool = True) -> str:
    """Dtype, device, machine, torch and dates, and the number of threads unless the panels say it."""
    runs = runs_of(shown, of.recorded)
    setting, machine = view.setting, (runs[-1] if runs else of.recorded.run).machine
    said = wording.threads(setting.threads, machine) if threads else ""
    on = machine.accelerators[0] if setting.device != "cpu" and machine.accelerators else machine.processor
    parts = (
        what,
        ", ".join(filter(None, (f"{setting.dtype} on {setting.device}", said))),
        f"{on}, {machine.cores} cores" if setting.device == "cpu" else on,
        provenance.torch(runs),
        provenance.dates(runs),
    )
    return plain(" · ".join(filter(None, parts)), 200)


def _short(name: str) -> str:
    return plain(name, LONGEST_LABEL) or NOTHING
