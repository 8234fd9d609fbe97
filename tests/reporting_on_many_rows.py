"""Makes results of many rows and reports on them: `python tests/reporting_on_many_rows.py --help`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory

from builders import measured, outcome, without_time
from pages import TIMED

from attnsuite.model import DTYPES, Measurement, Outcome
from attnsuite.results.store import Results

HOME = Path(__file__).parent.parent
NAMES = ("matmul", *(f"kernel_{number:02}" for number in range(1, 20)))
"""Twenty implementations: as many as are likely to be compared on one machine."""
SHARE_TIMED = 20
"""One row in so many is a measurement, as in the results of this project."""
SAMPLES = 30
"""Rounds of a measurement."""


def answers(count: int) -> Iterator[Outcome]:
    """Answers to so many questions, one in fifty of them wrong, one in thirty declined."""
    for place, (number, dtype, name) in enumerate(islice(product(range(count), DTYPES, NAMES), count)):
        case, status = f"family_{number % 20}/case_{number}", "passed"
        status = "wrong" if place % 50 == 3 else "declined" if place % 30 == 7 else "passed"
        detail = (
            ""
            if status == "passed"
            else f"output[{place}, 1] is off by {place / 7}"
            if status == "wrong"
            else "lacks it"
        )
        yield outcome(case, status, f"attention/{name}", dtype=dtype, detail=detail, error_ratio=0.01 * (place % 70))


def times(count: int) -> Iterator[Measurement]:
    """So many measurements, in tables of all implementations; one in ten has no time."""
    for place, (number, name) in enumerate(islice(product(range(1, count + 1), NAMES), count)):
        seconds = [1e-3 * number * (1 + 0.01 * ((7 * place + 3 * round_) % 11)) for round_ in range(SAMPLES)]
        none = place % 10 == 9
        yield (
            without_time(name, "declined", "lacks it", f"ladder/{number}k")
            if none
            else measured(name, f"ladder/{number}k", seconds)
        )


def write(results: Path, rows: int) -> None:
    """A machine's folder with so many rows."""
    with Results(results).open_run(TIMED) as writer:
        for row in (*answers(rows - rows // SHARE_TIMED), *times(rows // SHARE_TIMED)):
            writer.write(row)
        writer.finish()


def report(results: Path, profile: Path | None) -> str:
    """What one report took, in a process of its own: wall clock, processor, memory."""
    profiled = ["-m", "cProfile", "-o", str(profile)] if profile else []
    started = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, *profiled, "-m", "attnsuite", "report", "--results", str(results)],
        cwd=HOME, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall, processor = time.monotonic() - started, used.ru_utime + used.ru_stime
    memory = f"{used.ru_maxrss / 2**10:,.0f} MiB at most"
    return f"exit {child.returncode}; {wall:.1f} s, {processor:.1f} s of processor, {memory}"


def main() -> None:
    """Write the rows, report on them, and say what that took."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--results", type=Path, help="where they stay; else they are removed")
    options.add_argument("--profile", type=Path, help="a file for what cProfile finds")
    asked = options.parse_args()
    with TemporaryDirectory() as folder:
        results = asked.results or Path(folder)
        if not any(results.glob("*/runs.jsonl")):
            write(results, asked.rows)
        print(report(results, asked.profile), flush=True)
        for page in (*results.glob("*.*"), *results.glob("*/*.md")):
            print(f"{page.stat().st_size:12,} bytes  {page.relative_to(results)}")


if __name__ == "__main__":
    main()
