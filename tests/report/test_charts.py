"""The charts: they show what was measured, legibly, harmlessly, and the same bytes for the same rows."""

import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from suite.records import Machine, Measurement, Run, UsageError
from suite.report import write_benchmark, write_charts
from suite.report.benchmark.speed import tables
from suite.report.benchmark.views import shapes, views
from suite.report.charts import files as charts_of
from suite.report.charts.files import Charts, chart_lines
from suite.report.charts.pictures import Mark, Panel, Picture, pictures
from suite.report.charts.placing import LINE, beside, nearest, spread
from suite.store import Recorded

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 2, 8 * 2**30, "Linux 6.1", ("NVIDIA H200",))
LADDER = (1, 2, 4, 8)
FACTS = {
    "vit/b16": {"group": "vit", "shape": "x", "why": "y", "length": 197},
    **{f"ladder/{k}k": {"group": "ladder", "shape": "x", "why": "one head: z", "length": 1024 * k} for k in LADDER},
    **{f"flash/{k}k-e64": {"group": "flash", "shape": "x", "why": "y", "length": 1024 * k} for k in LADDER},
    **{f"flash/{k}k-e64-causal": {"group": "flash", "shape": "x", "why": "y", "length": 1024 * k} for k in LADDER},
}
RUN = Run(
    *("r1", "2026-01-02T03:04:05+00:00", MACHINE, {"python": "3.12.1", "torch": "2.13.0"}, "abc123", {}, "s"),
    finished="2026-01-03T04:00:00+00:00",
    notes={"facts": {"workloads": {"attention": FACTS}}},
)
IMPLEMENTATIONS = {"matmul": 1.0, "chunked": 0.5, "flex": 0.46, "loops": 9.0}
HOSTILE = "<script>alert('1')</script>&amp;]]>\x1b[31m\x00\udc80\u202e"


def measured(name="matmul", workload="vit/b16", seconds=0.1, size=2.0**22, **others):
    fields = {
        "dtype": "float32",
        "device": "cpu",
        "threads": 1,
        "direction": "forward",
        "cache": "hot",
        "status": "measured",
        "seconds": tuple(seconds * (1 + 0.002 * (number % 5)) for number in range(16)),
        "memory": {"resident": size + 2.0**16, "retained": 0.0, "constant": 2.0**16},
        "work": {"attended": 4e9, "convention": 4e9, "bytes": 1e6},
        "ceilings": {"flops": 8e10, "bytes": 1e10},
        "error_ratio": 0.1,
        **others,
    }
    return Measurement(f"attention/{name}", "attention", workload, **fields)


def everything(**others):
    """Rows of every group: times grow with the square of the length, memory with the length."""
    rows = []
    for workload, facts in FACTS.items():
        for place, (name, factor) in enumerate(IMPLEMENTATIONS.items()):
            length, error = facts["length"], 0.02 * 1.05**place
            given = {"error_ratio": error, "size": factor * 1e3 * length, **others}
            rows.append(measured(name, workload, factor * 1e-9 * length**2, **given))
    return rows


def recorded(*rows, run=RUN):
    ordered = tuple((run.id, row) for row in sorted(rows, key=lambda row: row.key))
    return Recorded(MACHINE.name, {run.id: run}, (), ordered)


def shown(*rows, run=RUN):
    """The pictures of the first view, by name."""
    of = recorded(*rows, run=run)
    named = shapes(of)
    return pictures(views(tables(of.measured), named)[0], named, of)


@pytest.fixture
def drawing():
    """The module that draws, where its libraries are installed."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from suite.report.charts import drawing

    return drawing


@pytest.fixture
def without_libraries(monkeypatch):
    monkeypatch.setattr(charts_of, "_absent", lambda: ["altair", "vl-convert-python"])


@pytest.fixture
def quick(monkeypatch):
    """A library that draws nothing, so that tests of files are quick."""
    monkeypatch.setattr(charts_of, "_absent", list)
    monkeypatch.setattr(charts_of, "_drawn", lambda picture: f"<svg>{picture.title}</svg>")


def texts(svg):
    """Every line of text of an SVG file, which has to be well-formed."""
    found = [node for node in ElementTree.fromstring(svg).iter() if node.tag.rpartition("}")[2] in ("text", "tspan")]
    return [node.text or "" for node in found]


# What is shown


def test_a_line_is_of_one_run():
    """Of two runs with different paces a line would show a bend that no implementation has."""
    rows = everything()
    of = recorded(*rows)
    ladder = [row for row in rows if row.workload.startswith("ladder/") and row.implementation == "attention/matmul"]
    assert len(ladder) > 2
    later = replace(RUN, id="later")
    measured = tuple((later.id if row == ladder[0] else run, row) for run, row in of.measured)
    mixed = replace(of, runs={**of.runs, later.id: later}, measured=measured)
    named = shapes(mixed)

    shown_now = pictures(views(tables(mixed.measured), named)[0], named, mixed)["time"]

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

    assert "dotted" not in shown(*rows)["time"].note
    assert "dotted" in shown(*a_line)["time"].note
    assert "dotted" in shown(*rows, *a_panel)["time"].note


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

    assert found.title == "Memory against time at 4,096 tokens"
    assert {mark.name: mark.front for mark in found.panels[0].marks} == {
        "chunked": False,
        "flex": True,
        "matmul": False,
    }
    assert found.panels[0].marks[1].points[0][1] == pytest.approx(0.46 * 1e3 * 4096)


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
        replace(measured("c", "ladder/1k"), status="refused", seconds=()),
    ]

    found = shown(*rows)

    assert "memory" not in found
    assert {mark.name for mark in found["error"].panels[0].marks} == {"matmul", "d", "e"}
    assert {mark.name for mark in found["throughput"].panels[0].marks} == {"matmul", "d", "e"}


# Where labels go


def test_labels_of_lines_keep_their_distance_and_their_order():
    wanted = [10.0, 10.5, 11.0, 200.0, 11.2, 299.0, 298.0]

    found = spread(wanted, LINE, LINE / 2, 300 - LINE / 2)

    ordered = sorted(found)
    assert all(high - low >= LINE - 1e-9 for low, high in pairwise(ordered))
    assert sorted(range(7), key=found.__getitem__) == sorted(range(7), key=wanted.__getitem__)
    assert ordered[0] >= LINE / 2
    assert ordered[-1] <= 300 - LINE / 2 + 1e-9
    assert found[3] == 200.0  # whoever has room stays


def test_labels_of_points_lie_on_nothing():
    points = [(100.0, 100.0), (104.0, 103.0), (108.0, 98.0), (100.0, 112.0), (370.0, 10.0), (372.0, 30.0), (8.0, 300.0)]
    names = ["torch_sdpa.automatic", "torch_sdpa.flash", "matmul", "chunked", "jax_nn", "onnx_operator", "loops"]

    boxes = beside(points, names, (380, 320))

    for (left, top, right, bottom), (x, y, end, floor) in combinations(boxes, 2):
        assert right <= x or end <= left or bottom <= y or floor <= top
    for box in boxes:
        assert not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)
        assert box[0] >= 0
        assert 0 <= box[1] < box[3] <= 320
    for (x, y), box in zip(points, boxes, strict=True):
        to_x, to_y = nearest((x, y), box)
        assert abs(to_x - x) + abs(to_y - y) < 120


def test_labels_keep_off_the_line_that_joins_the_front():
    line = [(20.0, 50.0), (200.0, 50.0)]

    (box,) = beside([(100.0, 50.0)], ["chunked"], (380, 320), line)

    assert not box[1] < 50 < box[3]


# Drawing


def test_the_same_rows_give_the_same_bytes_in_every_process(drawing, tmp_path):
    picture = shown(*everything())["error"]
    program = f"""
from suite.report.charts.drawing import svg
from suite.report.charts.pictures import *
print(svg({picture!r}), end="")
"""

    others = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(Path(charts_of.__file__).parents[3])},
        ).stdout
        for seed in ("1", "2")
    ]

    assert others[0] == others[1] == drawing.svg(picture)


@pytest.mark.parametrize("name", ["time", "memory", "flash", "throughput", "error", "tradeoff"])
def test_a_chart_is_a_picture_on_white_that_names_everybody(name, drawing):
    picture = shown(*everything(), *everything(threads=2))[name]

    svg = drawing.svg(picture)

    said = texts(svg)
    assert 'fill="white"' in svg[:600]
    assert picture.title in said
    assert picture.subtitle in said
    for panel in picture.panels:
        assert not panel.title or panel.title in said
        for mark in panel.marks:
            assert mark.label in said, (name, mark)
            assert mark.name in " ".join(said)


@pytest.mark.parametrize("name", ["time", "memory", "flash", "throughput", "error", "tradeoff"])
def test_no_two_texts_of_a_chart_lie_on_each_other(name, drawing):
    """Each text's own place, from the translations around it; widths as the drawing estimates them."""
    svg = drawing.svg(shown(*everything(), *everything(threads=2))[name])

    boxes = {}
    for text, x, y, anchor, size in _placed(ElementTree.fromstring(svg)):
        width = 0.5 * size * len(text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        boxes.setdefault(
            (round(x), round(y), text), (left, y - 0.6 * size, left + width, y)
        )  # a halo is no second text

    for (one, (left, top, right, bottom)), (other, (x, y, end, floor)) in combinations(boxes.items(), 2):
        assert right <= x or end <= left or bottom <= y or floor <= top, (one, other)


def _placed(node, x=0.0, y=0.0):
    """Each visible text with its position, anchor and size; turned ones, which name an axis, left out."""
    moved = re.match(r"translate\(([-\d.e]+),\s*([-\d.e]+)\)", node.get("transform", ""))
    if moved:
        x, y = x + float(moved.group(1)), y + float(moved.group(2))
    if node.tag.endswith("text") and node.get("opacity") != "0" and "rotate" not in node.get("transform", ""):
        lines = [child for child in node if child.tag.endswith("tspan")]
        size = float(node.get("font-size", "12px").removesuffix("px"))
        for row, line in enumerate(lines or [node]):
            text = "".join(line.itertext())
            if text:
                yield text, x, y + 1.2 * size * row, node.get("text-anchor", "start"), size
        return
    for child in node:
        yield from _placed(child, x, y)


def test_whatever_a_submission_says_is_text_in_a_chart(drawing):
    machine = replace(MACHINE, processor=HOSTILE, name=HOSTILE)
    run = replace(RUN, machine=machine, versions={"torch": HOSTILE})
    rows = [replace(row, implementation=row.implementation.replace("flex", HOSTILE)) for row in everything()]
    rows += [measured(name, HOSTILE, error_ratio=0.1 * place) for place, name in enumerate(("matmul", "a", HOSTILE), 1)]

    found = shown(*rows, run=run)

    assert len(found) == 6
    for picture in found.values():
        svg = drawing.svg(picture)
        tags = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(svg).iter()}
        assert tags <= {"svg", "g", "path", "rect", "line", "text", "tspan", "defs", "clipPath"}
        assert any("<script>alert('1')</script>" in text for text in texts(svg))
        assert not any(ord(character) < 32 for character in svg.replace("\n", ""))
        assert not re.search(r"\bon\w+=|href", svg)


def test_no_two_of_forty_implementations_look_alike(drawing):
    marks = [Mark(str(number), number, ((1.0, 1.0),)) for number in range(40)]

    colours, shapes_, _ = (each.to_dict()["scale"]["range"] for each in drawing._styles(marks))

    assert len(set(zip(colours, shapes_, strict=True))) == 40
    assert colours[0] == drawing.INK
    assert "#F0E442" not in colours


@pytest.mark.parametrize(
    ("what", "low", "high"),
    [
        ("time", 1e-6, 1e2),
        ("time", 1e-3, 2e-3),
        ("memory", 1e3, 1e10),
        ("memory", 1e6, 2e6),
        ("error", 1e-3, 1.0),
        ("error", 0.11, 0.12),
    ],
)
def test_an_axis_has_a_few_ticks_all_within_it(what, low, high, drawing):
    axis = drawing._Axis(what, [low, high], 1.3)

    assert 2 <= len(axis.ticks) <= 10
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    assert axis.value(axis.pixel(low, 300, down=True), 300, down=True) == pytest.approx(low)
    assert axis.pixel(axis.low, 300, down=True) == pytest.approx(300)


def test_ticks_have_units(drawing):
    said = texts(drawing.svg(shown(*everything())["time"]))
    also = texts(drawing.svg(shown(*everything())["tradeoff"]))

    assert {"1k", "2k", "4k", "8k", "10 ms", "100 ms"} <= set(said)
    assert any(re.fullmatch(r"\d+ MiB", text) for text in also)


def test_one_implementation_at_two_lengths_is_enough(drawing):
    picture = shown(measured(workload="ladder/1k"), measured(workload="ladder/2k", seconds=0.4))["time"]

    assert "matmul\N{EN SPACE}s^2.00" in texts(drawing.svg(picture))


# Files


def test_charts_are_written_and_shown_on_the_page(quick, tmp_path):
    of = recorded(*everything())

    charts = write_charts(tmp_path, of)
    text = write_benchmark(tmp_path, of, charts)[0].read_text()

    names = ["time.svg", "memory.svg", "flash.svg", "throughput.svg", "error.svg", "tradeoff.svg"]
    assert [path.name for path in charts.paths] == names
    assert charts.note == ""
    assert "![Time over sequence length](time.svg)" in text
    assert re.match(r"<svg><!-- attnsuite [0-9a-f]{16} [0-9a-f]{16} -->", (tmp_path / "time.svg").read_text())


def test_a_chart_is_drawn_again_only_where_it_would_come_out_otherwise(quick, tmp_path, monkeypatch):
    of, drawn = recorded(*everything()), []
    write_charts(tmp_path, of)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    draw = charts_of._drawn
    monkeypatch.setattr(charts_of, "_drawn", lambda picture: drawn.append(picture.title) or draw(picture))

    write_charts(tmp_path, of)
    assert drawn == []

    touched = tmp_path / "time.svg"
    touched.write_bytes(touched.read_bytes().replace(b"<svg", b"<svg ", 1))
    write_charts(tmp_path, of)
    assert drawn == ["Time over sequence length"]

    with monkeypatch.context() as other:
        other.setattr("altair.__version__", "another")
        write_charts(tmp_path, of)
    assert len(drawn) == 1 + len(before)
    write_charts(tmp_path, of)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_second_device_has_charts_of_its_own(quick, tmp_path):
    of = recorded(*everything(), *everything(device="cuda:0", threads=0))

    names = {path.name for path in write_charts(tmp_path, of).paths}

    assert {"time.svg", "time-attention-cpu.svg"} <= names


def test_without_libraries_a_chart_of_the_same_numbers_stays_and_is_shown(quick, tmp_path, monkeypatch):
    of = recorded(*everything())
    write_charts(tmp_path, of)
    before = (tmp_path / "time.svg").read_bytes()
    monkeypatch.setattr(charts_of, "_absent", lambda: ["altair"])

    charts = write_charts(tmp_path, of)

    assert len(charts.paths) == 6
    assert charts.note == ""
    assert (tmp_path / "time.svg").read_bytes() == before


def test_without_libraries_a_chart_of_other_numbers_does_not_pass_for_a_current_one(quick, tmp_path, monkeypatch):
    write_charts(tmp_path, recorded(*everything()))
    (tmp_path / "mine.svg").write_text("<svg>drawn by hand</svg>")
    monkeypatch.setattr(charts_of, "_absent", lambda: ["altair", "vl-convert-python"])
    new = [row for row in everything() if row.workload != "vit/b16"]
    slower = [replace(row, seconds=tuple(2 * each for each in row.seconds)) for row in new]

    charts = write_charts(tmp_path, recorded(*slower))

    assert {path.name for path in charts.paths} == {"memory.svg"}  # memory is as it was
    assert {path.name for path in tmp_path.iterdir()} == {"memory.svg", "mine.svg"}
    note = "Charts left out: 5. To draw them: python -m pip install altair vl-convert-python."
    assert charts.note == f"{note} Removed, because they showed earlier numbers: 5."


def test_without_libraries_and_charts_the_note_says_what_to_install(without_libraries, tmp_path):
    charts = write_charts(tmp_path, recorded(*everything()))

    assert charts == Charts((), {}, "Charts left out: 6. To draw them: python -m pip install altair vl-convert-python.")
    assert chart_lines(charts)[0].startswith("Charts left out: 6.")


def test_charts_that_are_not_due_any_more_go(quick, tmp_path):
    write_charts(tmp_path, recorded(*everything()))
    (tmp_path / "mine.svg").write_text("<svg/>")

    write_charts(tmp_path, recorded(measured()))

    assert {path.name for path in tmp_path.iterdir()} == {"throughput.svg", "mine.svg"}


def test_where_nothing_was_measured_nothing_is_drawn_or_missed(monkeypatch, tmp_path):
    monkeypatch.setattr(charts_of, "_absent", lambda: pytest.fail("the libraries are not asked for"))

    assert write_charts(tmp_path, recorded()) == Charts((), {}, "")


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(quick, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="Not a directory"):
        write_charts(tmp_path / "file", recorded(measured()))


def test_what_a_chart_shows_is_told_from_another_by_every_number():
    picture = Picture("lines", "t", "s", "length", "time", (Panel("p", (Mark("a", 0, ((1.0, 2.0),)),)),))
    other = replace(picture, panels=(Panel("p", (Mark("a", 0, ((1.0, 2.1),)),)),))

    assert charts_of._stamp(picture) == charts_of._stamp(replace(picture))
    assert charts_of._stamp(picture) != charts_of._stamp(other)
