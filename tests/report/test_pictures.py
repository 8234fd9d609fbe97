"""What the charts show: what was measured, and no more than one run in a line."""

import re
from dataclasses import replace

import pytest
from builders import BASELINES
from ladders import CHARTED, everything, measured, recorded, shown
from msgspec import structs

from attnsuite.report.benchmark.timed_tables import tables
from attnsuite.report.benchmark.views import material
from attnsuite.report.charts.pictures import pictures


def test_a_line_is_of_one_run():
    """Of two runs with different paces a line would show a bend that no implementation has."""
    rows = everything()
    of = recorded(*rows)
    ladder = [row for row in rows if row.workload.startswith("ladder/") and row.implementation == "attention/matmul"]
    assert len(ladder) > 2
    later = structs.replace(CHARTED, id="later")
    measured = tuple((later.id if row == ladder[0] else run, row) for run, row in of.measured)
    mixed = replace(of, runs={**of.runs, later.id: later}, measured=measured)
    of_both = material(mixed)

    shown_now = pictures(of_both.views[0], of_both)["time"]

    (line,) = [mark for mark in shown_now.panels[0].marks if mark.name == "matmul"]
    assert len(line.points) == len(ladder) - 1
    (whole,) = [mark for mark in shown_now.panels[0].marks if mark.name == "chunked"]
    assert len(whole.points) == len(ladder)
    assert "a line is of one run" in shown_now.note


def test_a_ladder_is_shown_in_panels_by_direction_and_threads():
    rows = [*everything(), *everything(threads=2), *everything(direction="forward_backward")]
    single = measured(workload="ladder/8k", direction="backward")

    found = shown(*rows, single)

    assert set(found) == {"time", "memory", "flash", "throughput", "error", "tradeoff"}
    titles = ["forward, one thread", "forward and backward, one thread", "forward, both cores"]
    assert [panel.title for panel in found["time"].panels] == titles  # one point makes no line, and no panel
    assert [panel.title for panel in found["memory"].panels] == titles


def test_lines_carry_their_power():
    found = shown(*everything())

    labels = {mark.name: mark.label for mark in found["time"].panels[0].marks}
    assert labels["chunked"] == "chunked\N{EN SPACE}s^2.00"
    assert {mark.label.split("s^")[1] for mark in found["memory"].panels[0].marks} == {"1.00"}
    (matmul,) = (mark for mark in found["time"].panels[0].marks if mark.name == "matmul")
    assert [x for x, _ in matmul.points] == [1024, 2048, 4096, 8192]
    assert matmul.points[0][1] == pytest.approx(1e-9 * 1024**2, rel=0.01)


def test_lines_that_end_early_are_explained_only_where_there_are_some():
    rows = everything()
    a_line = (row for row in rows if (row.implementation, row.workload) != ("attention/loops", "ladder/8k"))
    a_panel = (row for row in everything(threads=2) if row.workload != "ladder/8k")

    assert "×" not in shown(*rows)["time"].explained
    assert "×: not measured beyond" in shown(*a_line)["time"].explained
    assert "×" not in shown(*rows, *a_panel)["time"].explained, "no line of that panel goes further"


def test_a_picture_says_machine_dtype_threads_torch_and_date():
    cpu = shown(*everything())
    cuda = shown(*everything(device="cuda", threads=0, dtype="float16"))

    assert cpu["error"].subtitle == "float32 on cpu, one thread · AMD EPYC, 2 cores · torch 2.13.0 · 2026-01-03"
    assert cpu["time"].subtitle.startswith("one head · float32 on cpu · AMD EPYC, 2 cores")
    assert cuda["flash"].subtitle == "float16 on cuda · NVIDIA H200 · torch 2.13.0 · 2026-01-03"


def test_flash_has_a_panel_for_each_variant():
    (wide, causal) = shown(*everything())["flash"].panels

    assert (wide.title, causal.title) == ("width 64", "width 64, causal")
    assert wide.marks[0].points[0][1] == pytest.approx(4e9 / (1e-9 * 1024**2), rel=0.01)


def test_bars_say_their_number_and_share_of_the_roofline():
    panel = next(each for each in shown(*everything())["throughput"].panels if each.title == "vit/b16")

    assert [mark.name for mark in panel.marks] == ["flex", "chunked", "matmul", "loops"]
    seconds = 1.004 * 1e-9 * 197**2
    assert panel.marks[2].points[0][0] == pytest.approx(4e9 / seconds, rel=0.01)
    assert re.fullmatch(r"[\d.,]+ TFLOP/s, [\d.,]+ % of roofline", panel.marks[2].label)


def test_the_front_holds_whoever_is_beaten_in_neither():
    rows = [
        measured("matmul", seconds=0.1, error_ratio=0.1),
        measured("fast", seconds=0.01, error_ratio=0.4),
        measured("exact", seconds=0.2, error_ratio=0.0),
        measured("worse", seconds=0.11, error_ratio=0.2),
        measured("twin", seconds=0.1, error_ratio=0.1),
    ]

    (panel,) = shown(*rows)["error"].panels

    places = {mark.name: mark for mark in panel.marks}
    assert {name for name, mark in places.items() if mark.front} == {"matmul", "fast", "exact", "twin"}
    assert places["fast"].points[0] == (0.4, pytest.approx(10, rel=0.01))
    assert places["exact"].points[0][0] > 0  # an axis of powers has no zero


def test_the_trade_off_is_at_the_greatest_length_at_which_most_were_measured():
    rows = [row for row in everything() if row.workload.startswith("ladder")]
    few = [row for row in rows if row.workload != "ladder/8k" or row.implementation == "attention/flex"]
    without_loops = [row for row in few if row.workload != "ladder/4k" or row.implementation != "attention/loops"]

    found = shown(*without_loops)["tradeoff"]

    assert found.title == "Memory against time at 4,096 tokens: time relative to matmul"
    assert {mark.name: mark.front for mark in found.panels[0].marks} == {
        "chunked": False,
        "flex": True,
        "matmul": False,
    }
    assert found.panels[0].marks[1].points[0][1] == pytest.approx(0.46 * 1e3 * 4096)


def disturbed():
    """A table in which the median ratio is 1, while one median is 1.5 times the other; `few` has five rounds."""
    base = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3]
    other = [0.1, 0.1, 0.1, 0.1, 0.1, 0.15, 0.15, 0.3, 0.3, 0.3, 0.3, 0.15, 0.15]
    samples = {"matmul": base, "other": other, "third": other, "few": other[:5]}
    return [structs.replace(measured(name, "ladder/8k"), seconds=tuple(each)) for name, each in samples.items()]


def test_charts_of_ratios_show_the_statistic_of_tables_with_its_interval():
    rows = disturbed()
    (table,) = tables([("r", row) for row in rows], BASELINES)

    found = shown(*rows)

    slower = {mark.name: mark for mark in found["tradeoff"].panels[0].marks}
    faster = {mark.name: mark for mark in found["error"].panels[0].marks}
    for name in ("other", "third"):
        against = table.row(name).against
        assert table.row(name).median == 0.15 > table.row("matmul").median
        assert faster[name].points[0][1] == against.speedup == 1.0
        assert faster[name].intervals == ((against.low, against.high),)
        assert slower[name].points[0][0] == 1 / against.speedup
        assert slower[name].intervals == ((1 / against.high, 1 / against.low),)
    assert slower["few"].intervals == (), "an interval of five rounds has no ends"
    assert "99 % interval" in found["tradeoff"].note


def test_times_and_rates_have_the_intervals_of_their_medians():
    found = shown(*everything())

    (matmul,) = [mark for mark in found["time"].panels[0].marks if mark.name == "matmul"]
    assert len(matmul.intervals) == len(matmul.points)
    assert all(low <= at <= high for (_, at), (low, high) in zip(matmul.points, matmul.intervals, strict=True))
    for panel in (*found["throughput"].panels, *found["flash"].panels):
        ends = [(mark.points[0], mark.intervals[0]) for mark in panel.marks]
        assert all(low <= (y if y else x) <= high for (x, y), (low, high) in ends)
    assert all(not mark.intervals for panel in found["memory"].panels for mark in panel.marks)


def test_an_implementation_looks_the_same_in_all_charts():
    found = shown(*everything(), measured("another", "ladder/1k"))

    styles = {(mark.name, mark.style) for each in found.values() for panel in each.panels for mark in panel.marks}
    assert dict(styles) == {"matmul": 0, "another": 1, "chunked": 2, "flex": 3, "loops": 4}
    assert len(styles) == 5


def test_rows_that_cannot_be_drawn_are_left_out():
    rows = [
        measured(workload="ladder/1k", memory={}),
        measured(workload="ladder/2k", size=0.0),
        measured(workload="ladder/4k", size=-1.0),
        *(measured("a", f"ladder/{k}k", size=float("inf")) for k in (2, 4)),
        measured("a", "ladder/1k", error_ratio=float("inf"), work={"attended": float("nan")}),
        measured("b", "ladder/1k", error_ratio=None, work={}),
        *(measured(name, "ladder/1k", memory={}) for name in ("d", "e")),
        structs.replace(measured("c", "ladder/1k"), status="refused", seconds=()),
    ]

    found = shown(*rows)

    assert "memory" not in found
    assert {mark.name for mark in found["error"].panels[0].marks} == {"matmul", "d", "e"}
    assert {mark.name for mark in found["throughput"].panels[0].marks} == {"matmul", "d", "e"}
