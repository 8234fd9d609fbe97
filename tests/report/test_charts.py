"""The files of charts: drawn again only where they would come out otherwise, and none that shows other numbers."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from ladders import everything, measured, recorded
from msgspec import structs

from attnsuite.model import UsageError
from attnsuite.report.charts import files
from attnsuite.report.charts.files import Charts, write_charts
from attnsuite.report.machine import write_benchmark
from attnsuite.report.page import Mark, Panel, Picture


@pytest.fixture
def without_libraries(monkeypatch):
    monkeypatch.setattr(files, "absent", lambda: ["altair", "vl-convert-python"])


@pytest.fixture
def quick(monkeypatch):
    """A library that draws nothing, so that tests of files are quick."""
    monkeypatch.setattr(files, "absent", list)
    monkeypatch.setattr(files, "_drawn", lambda picture: f"<svg>{picture.title}</svg>")


def test_charts_are_written_and_shown_on_the_page(quick, tmp_path):
    of = recorded(*everything())

    charts = write_charts(tmp_path, of)
    text = write_benchmark(tmp_path, of, charts)[0].read_text()

    names = ["time.svg", "memory.svg", "flash.svg", "throughput.svg", "error.svg", "tradeoff.svg"]
    assert [chart.file for chart in charts.charts] == names
    assert charts.note == ""
    assert "![Time over sequence length](time.svg)" in text
    assert re.match(r"<svg><!-- attnsuite [0-9a-f]{16} [0-9a-f]{16} -->", (tmp_path / "time.svg").read_text())


def test_a_chart_is_drawn_again_only_where_it_would_come_out_otherwise(quick, tmp_path, monkeypatch):
    of, drawn = recorded(*everything()), []
    write_charts(tmp_path, of)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    draw = files._drawn
    monkeypatch.setattr(files, "_drawn", lambda picture: drawn.append(picture.title) or draw(picture))

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


def test_a_second_device_has_files_its_own(quick, tmp_path):
    of = recorded(*everything(), *everything(device="cuda:0", threads=0))

    names = {chart.file for chart in write_charts(tmp_path, of).charts}

    assert {"time.svg", "time-attention-cpu.svg"} <= names


def test_without_libraries_a_chart_of_the_same_numbers_stays_and_is_shown(quick, tmp_path, monkeypatch):
    of = recorded(*everything())
    write_charts(tmp_path, of)
    before = (tmp_path / "time.svg").read_bytes()
    monkeypatch.setattr(files, "absent", lambda: ["altair"])

    charts = write_charts(tmp_path, of)

    assert len(charts.charts) == 6
    assert charts.note == ""
    assert (tmp_path / "time.svg").read_bytes() == before


def test_without_libraries_a_chart_of_other_numbers_does_not_pass_for_a_current_one(quick, tmp_path, monkeypatch):
    write_charts(tmp_path, recorded(*everything()))
    (tmp_path / "mine.svg").write_text("<svg>drawn by hand</svg>")
    monkeypatch.setattr(files, "absent", lambda: ["altair", "vl-convert-python"])
    new = [row for row in everything() if row.workload != "vit/b16"]
    slower = [structs.replace(row, seconds=tuple(2 * each for each in row.seconds)) for row in new]

    charts = write_charts(tmp_path, recorded(*slower))

    stay = {"memory.svg", "tradeoff.svg"}  # memory is as it was, and so is time beside the baseline's
    assert {chart.file for chart in charts.charts} == stay
    assert {path.name for path in tmp_path.iterdir()} == {*stay, "mine.svg"}
    note = "Charts left out: 4. To draw them: python -m pip install altair vl-convert-python, then attnsuite report."
    assert charts.note == note
    assert charts.told(Path("results")) == f"{note} Removed, because they showed earlier numbers: 4."


def test_without_libraries_and_charts_the_note_says_what_to_install(without_libraries, tmp_path):
    charts = write_charts(tmp_path, recorded(*everything()))

    assert charts == Charts((), missing=6)
    assert (
        charts.told(Path("results"))
        == "Charts left out: 6. To draw them: python -m pip install altair vl-convert-python, then attnsuite report."
    )


def test_where_none_were_to_be_drawn_what_draws_them_is_said_and_nothing_to_install(quick, tmp_path):
    charts = write_charts(tmp_path, recorded(*everything()), draws=False)

    assert (len(charts.charts), charts.missing) == (0, 6)
    assert charts.told(Path("results")) == "Charts left out: 6. To draw them: attnsuite report."
    assert charts.told(Path("my own")) == "Charts left out: 6. To draw them: attnsuite report --results 'my own'."


def test_charts_that_are_not_due_any_more_go(quick, tmp_path):
    write_charts(tmp_path, recorded(*everything()))
    (tmp_path / "mine.svg").write_text("<svg/>")

    write_charts(tmp_path, recorded(measured()))

    assert {path.name for path in tmp_path.iterdir()} == {"throughput.svg", "mine.svg"}


def test_where_nothing_was_measured_nothing_is_drawn_or_missed(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "absent", lambda: pytest.fail("the libraries are not asked for"))

    assert write_charts(tmp_path, recorded()) == Charts()


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(quick, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match="Not a directory"):
        write_charts(tmp_path / "file", recorded(measured()))


def test_what_a_chart_shows_is_told_from_another_by_every_number():
    picture = Picture("lines", "t", "s", "length", "time", (Panel("p", (Mark("a", 0, ((1.0, 2.0),)),)),))
    other = replace(picture, panels=(Panel("p", (Mark("a", 0, ((1.0, 2.1),)),)),))

    assert files.stamp_of_picture(picture) == files.stamp_of_picture(replace(picture))
    assert files.stamp_of_picture(picture) != files.stamp_of_picture(other)
