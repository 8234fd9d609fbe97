"""Every number of a measurement: in the long tables of the page, and in benchmark.csv."""

import io

import pandas
import pytest
from builders import BASELINES, measured, without_time
from pages import about_all, cells, column, page, recorded

from attnsuite.report.benchmark import columns
from attnsuite.report.benchmark.timed_tables import tables
from attnsuite.report.benchmark.views import material
from attnsuite.report.render import csv

WORK = {"attended": 4e9, "convention": 8e9, "bytes": 1e6}


def test_the_roofline_is_the_nearer_ceiling():
    (table,) = tables([("r", measured(seconds=[0.1] * 12))], BASELINES)
    (bound_by_memory,) = tables([("r", measured(seconds=[0.1] * 12, work={**WORK, "bytes": 8e8}))], BASELINES)
    (unknown,) = tables([("r", measured(ceilings={"flops": 8e10}))], BASELINES)

    assert table.rows[0].roofline == pytest.approx(4e9 / 8e10 / 0.1)
    assert bound_by_memory.rows[0].roofline == pytest.approx(8e8 / 1e10 / 0.1)
    assert unknown.rows[0].roofline is None


def test_the_long_table_has_every_number_of_a_row():
    telemetry = {"joules": 0.0125, "power": {"median": 300.0}}
    chunked = measured("chunked", seconds=0.05, telemetry=telemetry, stopped="narrow")

    text = page(measured(), chunked)

    for head, cell in {
        "time": "50.0 ms",
        "99 % interval": "49.8–50.2 ms",
        "speed-up": "2.00× faster (2.00–2.00)",
        "rounds": "24",
        "first call": "500 ms",
        "GFLOP/s": "80.0",
        "GFLOP/s as FlashAttention counts": "160",
        "of roofline": "100 %",
        "peak memory": "3.94 MiB",
        "its output": "512 KiB",
        "retained": "1.00 MiB",
        "energy": "12.5 mJ",
        "error in bounds": "0.12",
        "what ran": "aten::bmm 90%",
    }.items():
        assert column(text, "`chunked`", head, "<details>") == cell, head
    assert column(text, "`matmul`", "energy", "<details>") == "–"
    assert "by NVML" not in text


def test_what_is_slower_is_told_by_how_much_slower_it_is():
    text = page(measured(), measured("loops", seconds=0.4))

    assert column(text, "`loops`", "speed-up", "<details>") == "4.00× slower (4.00–4.00)"


def test_too_few_rounds_for_an_interval_are_said():
    text = page(measured(seconds=[0.1] * 3), measured("chunked", seconds=[0.05] * 3))

    assert column(text, "`chunked`", "99 % interval", "<details>") == "too few rounds"
    assert column(text, "`chunked`", "speed-up", "<details>") == "2.00× faster, unclear (too few rounds)"
    assert "inf" not in text


def test_columns_without_numbers_and_a_second_count_that_is_equal_are_left_out():
    bare = measured(work={**WORK, "convention": WORK["attended"]}, memory={}, error_ratio=None, kernel="")

    text = page(bare)

    header = next(line for line in text.splitlines() if line.startswith("| implementation | time"))
    assert header == (
        "| implementation | time | 99 % interval | speed-up | rounds | first call | GFLOP/s | of roofline |"
    )
    assert "peak memory |" not in text


def test_times_of_a_workload_share_one_unit():
    rows = [measured(seconds=0.02), measured("a", seconds=0.0004), measured("loops", seconds=2.5)]

    text = page(*rows)

    said = [cells(text, f"`{name}`", "### float32")[1] for name in ("matmul", "a", "loops")]
    assert said == ["20.0 ms", "**0.400 ms**, 50.0× faster", "2,500 ms, 125× slower"]


def test_the_csv_has_a_line_for_each_measurement_with_its_numbers(tmp_path):
    rows = [
        measured(),
        measured("chunked", seconds=0.05, telemetry={"joules": 2.5, "power": {"median": 3.0}, "throttle": ["a", "b"]}),
        without_time("flex", "refused", "wrong", known="pt-1"),
        about_all(),
        measured(workload="ladder/1k"),
    ]

    table = pandas.read_csv(io.StringIO(csv.render(columns.numbers(material(recorded(*rows))))))

    assert len(table) == len(rows)  # the missing one stands in two tables and has one line
    chunked = table[table["implementation"] == "attention/chunked"].iloc[0]
    assert (chunked["run"], chunked["group"], chunked["length"], chunked["verdict"]) == ("r1", "vit", 197, "faster")
    expected = {
        "median": 0.05,
        "speedup": 2,
        "pairs": 24,
        "peak": 2**22,
        "net_peak": 2**22 - 2**16,
        "memory_output": 2**19,
        "joules": 2.5,
    }
    expected |= {"flops_per_second": 8e10, "flops_per_second_by_convention": 1.6e11, "of_roofline": 1.0}
    expected |= {"telemetry_power_median": 3.0, "work_bytes": 1e6, "ceiling_flops": 8e10, "error_ratio": 0.125}
    for name, value in expected.items():
        assert chunked[name] == pytest.approx(value), name
    assert chunked["telemetry_throttle"] == "a b"
    flex = table[table["implementation"] == "attention/flex"].iloc[0]
    assert (flex["status"], flex["detail"], flex["known"]) == ("refused", "wrong", "pt-1")
    assert pandas.isna(flex["median"])
