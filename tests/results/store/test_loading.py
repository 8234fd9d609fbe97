"""`attnsuite.load_results`: a table of what was found on all machines, with the run of each row."""

import math
import subprocess
import sys

import pytest
from msgspec.structs import fields, replace
from stored import MACHINE, RUN, measurement, outcome, record

from attnsuite.model import Measurement, UsageError
from attnsuite.results.store import load, read_outcomes


def test_load_gives_a_table_with_the_run_of_each_row(tmp_path):
    elsewhere = replace(RUN, machine=replace(MACHINE, name="apple-m2-8-cores"), versions={})
    record(tmp_path, RUN, outcome("a", error_ratio=0.5), outcome("b", "declined", detail="no masks"))
    record(tmp_path, elsewhere, outcome("a"))

    table = load(tmp_path)

    assert list(table.columns[:5]) == ["machine", "run", "started", "commit", "torch"]
    assert table["machine"].tolist() == ["amd-epyc-2-cores"] * 2 + ["apple-m2-8-cores"]
    assert table["torch"].tolist() == ["2.13.0", "2.13.0", ""]
    assert table["started"].dt.year.tolist() == [2026] * 3
    assert table["error_ratio"].dropna().tolist() == [0.5]
    assert table["status"].tolist() == ["passed", "declined", "passed"]


def test_load_gives_a_row_per_measurement_with_its_median_interval_and_peak(tmp_path):
    seconds = tuple(1.0 + number / 100 for number in range(11))
    memory = {"resident": 1000.0, "retained": 24.0}
    record(tmp_path, RUN, measurement("a", seconds=seconds, memory=memory), measurement("b", "refused"), outcome())

    found = load(tmp_path, kind="benchmark")

    assert list(found.columns) == [
        *("machine", "run", "started", "commit", "torch"),
        *(field.name for field in fields(Measurement)),
        *("median", "low", "high", "peak"),
    ]
    one, other = found.to_dict("records")
    assert (one["machine"], one["run"], one["started"].year, one["commit"]) == (MACHINE.name, "r1", 2026, "abc")
    assert (one["torch"], one["workload"], one["seconds"]) == ("2.13.0", "a", seconds)
    assert (one["median"], one["low"], one["high"], one["peak"]) == (1.05, 1.0, 1.1, 1024.0)
    assert (other["status"], other["seconds"]) == ("refused", ())
    assert all(math.isnan(other[name]) for name in ("median", "low", "high", "peak", "first_call"))
    assert load(tmp_path)["case"].tolist() == ["small/plain"]


def test_load_of_an_empty_folder_has_the_columns(tmp_path):
    assert "status" in load(tmp_path).columns
    assert len(load(tmp_path)) == 0
    assert read_outcomes(tmp_path) == {}


def test_load_of_no_measurements_has_the_columns(tmp_path):
    found = load(tmp_path, "benchmark")

    assert (len(found), found["median"].dtype, found["peak"].dtype) == (0, float, float)


def test_load_without_a_folder_says_what_writes_it(tmp_path):
    with pytest.raises(UsageError, match="attnsuite run"):
        load(tmp_path / "nowhere")


def test_load_of_another_kind_names_both(tmp_path):
    with pytest.raises(UsageError, match="'audit'; there are conformance, benchmark, learning"):
        load(tmp_path, "audit")


def test_measurements_are_loaded_without_torch(tmp_path):
    record(tmp_path, RUN, measurement())
    program = f"""
import sys
sys.modules["torch"] = None
import attnsuite
print(attnsuite.load_results({str(tmp_path)!r}, kind="benchmark")["median"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stdout == "[0.375]\n", done.stderr
