"""Measurements → benchmark.json in the format of pytest-benchmark, which compares and draws it; git ignores it."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from attnsuite.model import Measurement, Run, Status
from attnsuite.model.files import file_errors, replace_file
from attnsuite.model.rows import lean
from attnsuite.report.files import refuse_foreign, text_of
from attnsuite.report.page import plain
from attnsuite.report.timed import ATTENTION
from attnsuite.results import MachineRecord

FORMAT_OF = "5.3.1"
"""The version of pytest-benchmark whose format this is."""

FILE = "benchmark.json"
"""The file in a machine's folder."""
AXES = ("workload", "dtype", "device", "threads", "direction", "cache")
"""The fields that the rows of one group share."""


def write_benchmark_json(folder: Path | str, recorded: MachineRecord) -> Path | None:
    """Write benchmark.json into `folder` and return its path; without a measurement, remove it and return None.

    One benchmark is one measured row: its group is the table, its name the implementation. Rows without times are left
    out, because one row without statistics makes pytest-benchmark drop the whole file.

    Raises UsageError for a folder that cannot be written, and for a foreign file of that name.
    """
    path, text = Path(folder) / FILE, benchmark_json(recorded)
    if not text:
        with file_errors(path, "removed"):
            if _is_ours(text_of(path) or ""):
                path.unlink(missing_ok=True)
        return None
    refuse_foreign(path, _is_ours)
    replace_file(path, text)
    return path


def benchmark_json(recorded: MachineRecord) -> str:
    """The text of the file; empty where nothing was measured."""
    timed_rows = [row for row in recorded.measured if row[1].status == Status.MEASURED and row[1].seconds]
    if not timed_rows or recorded.measured_run is None:
        return ""
    order = list(recorded.runs)
    oldest_first = sorted(timed_rows, key=lambda row: order.index(row[0]))
    newest = {(row.contract, *row.table): run for run, row in oldest_first}  # older rows get a group of their own
    content = {
        "machine_info": _machine_info(recorded.measured_run),
        "commit_info": _commit_info(recorded.measured_run.commit),
        "benchmarks": [
            _benchmark(recorded.runs[run], row, run != newest[row.contract, *row.table]) for run, row in timed_rows
        ],
        "datetime": recorded.measured_run.finished or recorded.measured_run.started,
        "version": FORMAT_OF,
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n"


def _is_ours(text: str) -> bool:
    return '"project": "attnsuite"' in text


def statistics(seconds: Sequence[float]) -> dict[str, Any]:
    """The statistics of pytest-benchmark for at least one sample."""
    ordered, mean = sorted(seconds), fmean(seconds)
    spread = stdev(seconds) if len(seconds) > 1 else 0.0
    first, third = _quartiles(ordered)
    low, high = first - 1.5 * (third - first), third + 1.5 * (third - first)
    beyond, beyond_fences = _outside(mean - spread, mean + spread, ordered), _outside(low, high, ordered)
    return {
        "min": ordered[0],
        "max": ordered[-1],
        "mean": mean,
        "stddev": spread,
        "rounds": len(ordered),
        "median": median(ordered),
        "iqr": third - first,
        "q1": first,
        "q3": third,
        "iqr_outliers": beyond_fences,
        "stddev_outliers": beyond,
        "outliers": f"{beyond};{beyond_fences}",
        "ld15iqr": ordered[bisect_left(ordered, low)],
        "hd15iqr": ordered[bisect_right(ordered, high) - 1],
        "ops": len(ordered) / sum(ordered),
        "total": sum(ordered),
        "data": list(seconds),
    }


def _quartiles(ordered: Sequence[float]) -> tuple[float, float]:
    """The mean of each half's medians with and without the middle sample, as pytest-benchmark defines quartiles."""
    sizes = (len(ordered) // 2 or 1, (len(ordered) + 1) // 2)
    return fmean(median(ordered[:size]) for size in sizes), fmean(median(ordered[-size:]) for size in sizes)


def _outside(low: float, high: float, samples: Iterable[float]) -> int:
    return sum(not low <= sample <= high for sample in samples)


def _benchmark(run: Run, row: Measurement, earlier: bool) -> dict[str, Any]:
    values = {name: plain(getattr(row, name)) for name in AXES}
    group = plain(" ".join(filter(None, ("" if row.contract == ATTENTION else row.contract, row.group))))
    parameters, name = "-".join(values.values()), plain(row.implementation)
    return {
        "group": f"{group} run {plain(run.id)}" if earlier else group,
        "name": name,
        "fullname": f"{name}[{parameters}]",
        "params": values,
        "param": parameters,
        "extra_info": _more(run, row),
        "options": {"warmup": bool(row.warm_up)},
        "stats": {**statistics(row.seconds), "iterations": max(row.calls, 1)},
    }


def _more(run: Run, measured: Measurement) -> dict[str, Any]:
    """All other facts of a row, with the origin of its run."""
    excluded = {*AXES, "implementation", "status", "seconds", "calls"}
    row = {name: value for name, value in lean(measured).items() if name not in excluded}
    origin = {"run": run.id, "started": run.started, "commit": run.commit, "torch": run.versions.get("torch", "")}
    finite = measured.peak is not None and isfinite(measured.peak)  # JSON has no inf and no nan
    return {**row, "peak": measured.peak if finite else None, **origin}


def _machine_info(run: Run) -> dict[str, Any]:
    """The machine by its name in results/, without a host name."""
    machine = run.machine
    return {
        "node": machine.name,
        "processor": machine.processor,
        "system": machine.system,
        "python_version": run.versions.get("python", ""),
        "cpu": {"brand_raw": machine.processor, "count": machine.threads, "cores": machine.cores},
        "memory_bytes": machine.memory_bytes,
        "accelerators": list(machine.accelerators),
        "versions": dict(run.versions),
    }


def _commit_info(commit: str) -> dict[str, Any]:
    return {
        "id": commit.removesuffix("-dirty") or "unversioned",
        "time": None,
        "author_time": None,
        "dirty": commit.endswith("-dirty"),
        "project": "attnsuite",
        "branch": "(unknown)",
    }
