"""The charts of a machine, drawn by Altair."""

import re

import pytest
from builders import BASELINES, RUN, measured, recorded, run
from msgspec.structs import replace

from attnsuite.model import Facts, WorkloadFacts
from attnsuite.report.charts import write_charts

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
LENGTHS = (1, 2, 8, 16, 32)
LADDER = {f"ladder/{k}k": WorkloadFacts("ladder", f"length {k * 1024}", "growth", k * 1024) for k in LENGTHS}
TIMED = replace(RUN, facts=Facts(BASELINES, workloads={"attention": LADDER}))


def ladder(name, seconds_of, bytes_of, lengths=LENGTHS):
    """Rows whose seconds and bytes grow with the length as the functions say."""
    rows = []
    for k in lengths:
        memory = {"output": 0.0, "resident": float(bytes_of(k * 1024) + 2**16), "retained": 0.0, "constant": 2.0**16}
        rows.append(measured(name, f"ladder/{k}k", float(seconds_of(k * 1024)), memory=memory))
    return rows


def test_a_series_over_length_is_drawn_in_time_and_memory(tmp_path):
    short = ladder("chunked", lambda length: length * 1e-6, lambda length: length, LENGTHS[:-1])
    rows = [*ladder("matmul", lambda length: length**2 * 1e-9, lambda length: length**2), *short]

    written = write_charts(tmp_path, recorded({TIMED.id: rows}, [TIMED]))

    assert [path.name for path in written] == ["time.svg", "memory.svg"]
    for path in written:
        text = path.read_text()
        assert text.startswith("<svg")
        assert {"chunked", "matmul"} <= set(re.findall(r">(\w+)</text>", text))


def test_few_lengths_are_no_chart(tmp_path):
    assert write_charts(tmp_path, recorded({"r": [measured()]}, [run("r", "2026-01-02")])) == []
