"""The charts of a machine, drawn by Altair."""

import re

import pytest
from builders import measured, recorded, run
from pages import LENGTHS, TIMED, ladder

from attnsuite.report.charts import write_charts

pytest.importorskip("altair")
pytest.importorskip("vl_convert")


def test_a_series_over_length_is_drawn_in_time_and_memory(tmp_path):
    rows = [*ladder("matmul", lambda length: length**2 * 1e-9, lambda length: length**2), *_short_of("chunked")]

    written = write_charts(tmp_path, recorded({TIMED.id: rows}, [TIMED]))

    assert [path.name for path in written] == ["time.svg", "memory.svg"]
    for path in written:
        text = path.read_text()
        assert text.startswith("<svg")
        assert {"chunked", "matmul"} <= set(re.findall(r">(\w+)</text>", text))


def _short_of(name):
    return ladder(name, lambda length: length * 1e-6, lambda length: length, LENGTHS[:-1])


def test_few_lengths_are_no_chart(tmp_path):
    assert write_charts(tmp_path, recorded({"r": [measured()]}, [run("r", "2026-01-02")])) == []
