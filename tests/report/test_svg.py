"""Drawn charts: legible, harmless, and the same bytes for the same picture."""

import re
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from builders import MACHINE
from ladders import CHARTED, everything, measured, shown
from msgspec import structs

from attnsuite.report.page import Mark

HOSTILE = "<script>alert('1')</script>&amp;]]>\x1b[31m\x00\udc80\u202e"


@pytest.fixture
def svg():
    """The module that draws, where its libraries are installed."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from attnsuite.report.render import svg

    return svg


def texts(drawn):
    """Every line of text of an SVG file, which has to be well-formed."""
    found = [node for node in ElementTree.fromstring(drawn).iter() if node.tag.rpartition("}")[2] in ("text", "tspan")]
    return [node.text or "" for node in found]


def test_what_was_drawn_before_does_not_show(svg):
    picture = shown(*everything())["throughput"]

    assert svg.render(picture) == svg.render(picture)


@pytest.mark.slow
def test_the_same_rows_give_the_same_bytes_in_every_process(svg):
    picture = shown(*everything())["error"]
    program = f"""
from attnsuite.report.page import *
from attnsuite.report.render import svg
print(svg.render({picture!r}), end="")
"""

    others = [
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(Path(svg.__file__).parents[3])},
        ).stdout
        for seed in ("1", "2")
    ]

    assert others[0] == others[1] == svg.render(picture)


@pytest.mark.parametrize("name", ["time", "memory", "flash", "throughput", "error", "tradeoff"])
def test_a_chart_is_a_picture_on_white_that_names_everybody(name, svg):
    picture = shown(*everything(), *everything(threads=2))[name]

    drawn = svg.render(picture)

    said = texts(drawn)
    assert 'fill="white"' in drawn[:600]
    assert picture.title in said
    assert picture.subtitle in said
    for panel in picture.panels:
        assert not panel.title or panel.title in said
        for mark in panel.marks:
            assert mark.label in said, (name, mark)
            assert mark.name in " ".join(said)


@pytest.mark.parametrize("name", ["time", "memory", "flash", "throughput", "error", "tradeoff"])
def test_no_two_texts_of_a_chart_lie_on_each_other(name, svg):
    """Each text's own place, from the translations around it; widths as the drawing estimates them."""
    drawn = svg.render(shown(*everything(), *everything(threads=2))[name])

    boxes = {}
    for text, x, y, anchor, size in _placed(ElementTree.fromstring(drawn)):
        width = 0.5 * size * len(text)
        left = x - {"start": 0, "middle": width / 2, "end": width}[anchor]
        boxes.setdefault(
            (round(x), round(y), text), (left, y - 0.6 * size, left + width, y)
        )  # a halo is no second text

    for (one, (left, top, right, bottom)), (other, (x, y, end, floor)) in combinations(boxes.items(), 2):
        assert right <= x or end <= left or bottom <= y or floor <= top, (one, other)


def test_a_line_that_stops_ends_with_a_cross_and_its_label(svg):
    rows = [row for row in everything() if (row.implementation, row.workload) != ("attention/loops", "ladder/8k")]

    drawn = svg.render(shown(*rows)["time"])

    across = {
        text.partition("\N{EN SPACE}")[0]: x
        for text, x, *_ in _placed(ElementTree.fromstring(drawn))
        if "\N{EN SPACE}s^" in text
    }
    assert across.pop("loops") < min(across.values())
    assert "×: not measured beyond" in drawn
    assert 'stroke-dasharray="1,3"' not in drawn, "no line is continued beyond its last point"


@pytest.mark.parametrize("name", ["error", "tradeoff"])
def test_an_axis_of_ratios_says_slower_and_faster(svg, name):
    said = texts(svg.render(shown(*everything())[name]))

    assert any(re.fullmatch(r"[\d.]+× (slower|faster)", text) for text in said)
    assert not any(re.fullmatch(r"0?\.\d+×.*", text) for text in said)


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


def test_whatever_a_submission_says_is_text_in_a_chart(svg):
    machine = structs.replace(MACHINE, processor=HOSTILE, name=HOSTILE)
    run = structs.replace(CHARTED, machine=machine, versions={"torch": HOSTILE})
    rows = [structs.replace(row, implementation=row.implementation.replace("flex", HOSTILE)) for row in everything()]
    rows += [measured(name, HOSTILE, error_ratio=0.1 * place) for place, name in enumerate(("matmul", "a", HOSTILE), 1)]

    found = shown(*rows, run=run)

    assert len(found) == 6
    for picture in found.values():
        drawn = svg.render(picture)
        tags = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(drawn).iter()}
        assert tags <= {"svg", "g", "path", "rect", "line", "text", "tspan", "defs", "clipPath"}
        assert any("<script>alert('1')</script>" in text for text in texts(drawn))
        assert not any(ord(character) < 32 for character in drawn.replace("\n", ""))
        assert not re.search(r"\bon\w+=|href", drawn)


def test_no_two_of_forty_implementations_look_alike(svg):
    marks = [Mark(str(number), number, ((1.0, 1.0),)) for number in range(40)]

    colours, shapes_, _ = (each.to_dict()["scale"]["range"] for each in svg._styles(marks))

    assert len(set(zip(colours, shapes_, strict=True))) == 40
    assert colours[0] == svg.INK
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
def test_an_axis_has_a_few_ticks_all_within_it(what, low, high, svg):
    axis = svg._Axis(what, [low, high], 1.3)

    assert 2 <= len(axis.ticks) <= 10
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    assert axis.value(axis.pixel(low, 300, down=True), 300, down=True) == pytest.approx(low)
    assert axis.pixel(axis.low, 300, down=True) == pytest.approx(300)


def test_ticks_have_units(svg):
    said = texts(svg.render(shown(*everything())["time"]))
    also = texts(svg.render(shown(*everything())["tradeoff"]))

    assert {"1k", "2k", "4k", "8k", "10 ms", "100 ms"} <= set(said)
    assert any(re.fullmatch(r"\d+ MiB", text) for text in also)


def test_one_implementation_at_two_lengths_is_enough(svg):
    picture = shown(measured(workload="ladder/1k"), measured(workload="ladder/2k", seconds=0.4))["time"]

    assert "matmul\N{EN SPACE}s^2.00" in texts(svg.render(picture))


@pytest.mark.parametrize("name", ["time", "throughput", "error", "tradeoff"])
def test_intervals_are_drawn(svg, name):
    """A chart whose intervals are wider has longer lines, and one without them has fewer."""
    picture = shown(*everything())[name]
    bare = replace(
        picture,
        panels=tuple(replace(p, marks=tuple(replace(m, intervals=()) for m in p.marks)) for p in picture.panels),
    )

    assert any(mark.intervals for panel in picture.panels for mark in panel.marks)
    assert svg.render(picture) != svg.render(bare)
    assert "99 % interval" in " ".join(texts(svg.render(picture)))
