"""benchmark.json is what pytest-benchmark itself compares, groups and draws."""

import json
import math
import random
import subprocess
import sys

import pytest
from msgspec.structs import replace
from pytest_benchmark.stats import Stats

from attnsuite.model import EVERY_CASE, Machine, Measurement, Run, UsageError
from attnsuite.report.pytest_benchmark import statistics, write_benchmark_json
from attnsuite.results import MachineRecord

MACHINE = Machine("amd-epyc-2-cores", "AMD EPYC", 2, 4, 8 * 2**30, "Linux", ("NVIDIA H200",))
VERSIONS = {"python": "3.11.7", "torch": "2.13.0"}
RUN = Run("r1", "2026-01-02T03:04:05+00:00", MACHINE, VERSIONS, "abc-dirty", {}, "s", "2026-01-02T04:00:00+00:00")
SAMPLES = (0.25, 0.5, 0.5, 0.75, 8.0)


def measurement(name="attention/loops", workload="ladder/1k", status="measured", **others):
    if status == "measured":
        others.setdefault("seconds", SAMPLES)
    asked = {"dtype": "float32", "device": "cpu", "threads": 1, "direction": "forward", "cache": "hot", **others}
    return Measurement(name, "attention", workload, status=status, **asked)


ABSENT = [
    measurement("attention/jax_nn", EVERY_CASE, "missing", dtype="*", direction="*", cache="*"),
    measurement("attention/chunked", status="out_of_memory", detail="needs 1 TB"),
    measurement("attention/flex", status="refused"),
    measurement("attention/matmul", status="crashed", seconds=(0.5,)),
]
TWO_GROUPS = [
    measurement(),
    measurement("attention/torch_sdpa.flash", seconds=(0.125,), calls=7),
    measurement("attention/torch_sdpa.flash", device="cuda", threads=0, dtype="float16", seconds=(0.001, 0.002)),
]


def recorded(*measurements, runs=(RUN,), of=None):
    return MachineRecord(
        MACHINE.name, {run.id: run for run in runs}, (), tuple((of or runs[-1].id, each) for each in measurements)
    )


def written(tmp_path, *measurements):
    return json.loads(write_benchmark_json(tmp_path, recorded(*measurements)).read_text())


def pytest_benchmark(tmp_path, *arguments):
    """The output of `pytest-benchmark`; its warnings on standard error are errors."""
    command = [sys.executable, "-m", "pytest_benchmark", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Failed to load" not in done.stdout + done.stderr
    return done.stdout


def test_pytest_benchmark_compares_it(tmp_path):
    write_benchmark_json(tmp_path, recorded(*TWO_GROUPS, *ABSENT))

    said = pytest_benchmark(tmp_path, "compare", "benchmark.json", "--columns=min,median,rounds,iterations,outliers")

    assert "benchmark 'ladder/1k float32 cpu 1 thread forward hot': 2 tests" in said
    assert "benchmark 'ladder/1k float16 cuda forward hot': 1 tests" in said
    row = next(line for line in said.splitlines() if line.startswith("attention/loops"))
    assert row.split() == ["attention/loops", "250.0000", "(2.00)", "500.0000", "(4.00)", "5", "1", "1;1"]
    assert "jax" not in said
    assert "chunked" not in said


def test_pytest_benchmark_draws_it(tmp_path):
    write_benchmark_json(tmp_path, recorded(*TWO_GROUPS, *ABSENT))

    pytest_benchmark(tmp_path, "compare", "benchmark.json", "--histogram=drawn/all", "--csv=drawn/all.csv")

    drawn = sorted(path.name for path in (tmp_path / "drawn").glob("*.svg"))
    assert drawn == ["all-ladder_1k_float16_cuda_forward_hot.svg", "all-ladder_1k_float32_cpu_1_thread_forward_hot.svg"]
    assert "torch_sdpa.flash" in (tmp_path / "drawn" / drawn[1]).read_text()
    assert len((tmp_path / "drawn" / "all.csv").read_text().splitlines()) == 4


def test_pytest_benchmark_compares_two_machines(tmp_path):
    for name, seconds in (("one", (1.0, 1.0)), ("two", (2.0, 2.0))):
        (tmp_path / name).mkdir()
        write_benchmark_json(tmp_path / name, recorded(measurement(seconds=seconds)))

    said = pytest_benchmark(tmp_path, "compare", "one/benchmark.json", "two/benchmark.json", "--between=median")

    assert "+100.0%" in said


def test_pytest_compares_its_own_benchmarks_with_it(tmp_path):
    write_benchmark_json(tmp_path, recorded(*TWO_GROUPS))
    (tmp_path / "test_mine.py").write_text("def test_mine(benchmark):\n    benchmark(sum, [1, 2])\n")
    options = ["-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["--benchmark-compare=benchmark.json", "--benchmark-max-time=0.01", "--benchmark-min-rounds=1"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Comparing against benchmarks from" in done.stdout + done.stderr


# Statistics


@pytest.mark.parametrize("count", [0, *range(1, 12), 100, 101])
def test_statistics_are_those_of_pytest_benchmark(count):
    draw = random.Random(count)
    outliers = [abs(100 + math.tan(math.pi * (draw.random() - 0.5))) for _ in range(count)]  # on both sides
    samples = outliers or [0.1] * 7
    theirs = Stats()
    for sample in samples:
        theirs.update(sample)

    ours = statistics(samples)

    assert ours.pop("data") == samples
    assert ours.pop("outliers") == theirs.outliers
    assert ours == pytest.approx({field: getattr(theirs, field) for field in Stats.fields if field != "outliers"})


# Contents


def test_only_rows_with_times_are_in_it(tmp_path):
    benchmarks = written(tmp_path, *TWO_GROUPS, *ABSENT)["benchmarks"]

    assert [benchmark["name"] for benchmark in benchmarks] == [each.implementation for each in TWO_GROUPS]
    assert [benchmark["stats"]["data"] for benchmark in benchmarks] == [list(each.seconds) for each in TWO_GROUPS]
    assert [benchmark["stats"]["iterations"] for benchmark in benchmarks] == [1, 7, 1]


def test_without_times_there_is_no_file_and_an_old_one_goes(tmp_path):
    assert write_benchmark_json(tmp_path, recorded(*TWO_GROUPS)).exists()

    assert write_benchmark_json(tmp_path, recorded(*ABSENT)) is None
    assert list(tmp_path.iterdir()) == []
    assert write_benchmark_json(tmp_path, recorded(runs=(RUN,))) is None


def test_other_facts_are_extra_info(tmp_path):
    memory = {"resident": 1000.0, "retained": 24.0, "allocator": None}
    more = {"kernel": "aten::bmm", "error_ratio": math.inf, "telemetry": {"power": math.nan}, "warm_up": 0.5}
    (benchmark,) = written(tmp_path, measurement(memory=memory, **more))["benchmarks"]

    assert benchmark["extra_info"] == {
        "contract": "attention",
        "kernel": "aten::bmm",
        "error_ratio": 1e308,
        "telemetry": {"power": None},
        "warm_up": 0.5,
        "memory": memory,
        "peak": 1024.0,
        "run": "r1",
        "started": RUN.started,
        "commit": "abc-dirty",
        "torch": "2.13.0",
    }
    assert benchmark["options"] == {"warmup": True}


def test_memory_that_is_not_finite_is_no_peak(tmp_path):
    for resident in (math.nan, math.inf):
        (benchmark,) = written(tmp_path, measurement(memory={"resident": resident}))["benchmarks"]
        assert benchmark["extra_info"]["peak"] is None


def test_it_names_machine_commit_and_the_newest_run_with_measurements(tmp_path):
    newer = replace(RUN, id="r2", commit="def", finished="2027-01-01T00:00:00+00:00")
    path = write_benchmark_json(tmp_path, recorded(measurement(), runs=(RUN, newer), of="r1"))
    content = json.loads(path.read_text())

    assert (content["datetime"], content["version"]) == (RUN.finished, "5.3.1")
    assert (content["commit_info"]["id"], content["commit_info"]["dirty"]) == ("abc", True)
    assert content["machine_info"]["node"] == MACHINE.name
    assert content["machine_info"]["python_version"] == "3.11.7"


def test_rows_of_an_earlier_run_have_their_own_group(tmp_path):
    both = {"r1": RUN, "r2": replace(RUN, id="r2")}
    rows = (
        ("r2", measurement()),
        ("r1", measurement("attention/matmul")),
        ("r1", measurement("attention/matmul", "vit")),
    )
    path = write_benchmark_json(tmp_path, MachineRecord(MACHINE.name, both, (), rows))

    assert [benchmark["group"] for benchmark in json.loads(path.read_text())["benchmarks"]] == [
        "ladder/1k float32 cpu 1 thread forward hot",
        "ladder/1k float32 cpu 1 thread forward hot run r1",
        "vit float32 cpu 1 thread forward hot",
    ]


def test_every_row_has_its_own_full_name(tmp_path):
    varied = [
        *(measurement(direction=direction) for direction in ("forward", "backward", "forward_backward")),
        *(measurement(threads=2), measurement(cache="cold"), measurement(dtype="float64"), measurement(workload="b")),
        *(measurement("attention/matmul"), measurement(device="cuda", threads=0)),
    ]

    benchmarks = written(tmp_path, *varied)["benchmarks"]

    assert len({benchmark["fullname"] for benchmark in benchmarks}) == len(varied)
    assert len({(benchmark["group"], benchmark["name"]) for benchmark in benchmarks}) == len(varied)


def test_names_have_no_control_characters(tmp_path):
    (benchmark,) = written(tmp_path, measurement("attention/\x1b[31mred\n", "a\tb"))["benchmarks"]

    assert all(benchmark[name].isprintable() for name in ("name", "fullname", "group", "param"))


@pytest.mark.parametrize("measurements", [TWO_GROUPS, ABSENT])
def test_a_folder_that_is_a_file_is_refused_in_one_line(tmp_path, measurements):
    (tmp_path / "file").write_text("")

    with pytest.raises(UsageError, match=r"benchmark\.json cannot be \w+: Not a directory"):
        write_benchmark_json(tmp_path / "file", recorded(*measurements))


def test_it_is_written_without_torch_and_without_pytest_benchmark(tmp_path):
    program = f"""
import sys
sys.modules["torch"] = sys.modules["pytest_benchmark"] = None
from attnsuite.model import Machine, Measurement, Run
from attnsuite.report.pytest_benchmark import write_benchmark_json
from attnsuite.results import open_run, read
from pathlib import Path
new = Run("r1", "now", Machine("m", "p", 1, 1, 1, "s"), {{}}, "", {{}}, "s")
with open_run(Path({str(tmp_path)!r}), new) as writer:
    writer.write(Measurement("a/b", "a", "w", "float32", "cpu", 1, "forward", "hot", "measured", seconds=(0.5,)))
    writer.finish()
print(write_benchmark_json({str(tmp_path)!r}, read(Path({str(tmp_path)!r}))["m"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stdout == f"{tmp_path / 'benchmark.json'}\n", done.stderr
    assert "\na/b " in pytest_benchmark(tmp_path, "compare", "benchmark.json")
