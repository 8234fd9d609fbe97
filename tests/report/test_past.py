"""What history keeps is a line of the page for each series, with its steps and what changed beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from builders import RUN, measured
from msgspec.structs import replace

from attnsuite.report import past
from attnsuite.results.store import history


def keep(results: Path, seconds: Sequence[float]) -> None:
    """A run a day, with these times of one implementation beside a baseline that takes 0.2 s."""
    for day, time in enumerate(seconds, start=1):
        run = replace(RUN, id=f"r{day:02}", started=f"2026-01-{day:02}T03:00:00+00:00", commit=f"c{day:02}")
        history.keep(results, run, [measured("matmul", seconds=0.2), measured("loops", seconds=time)])


def test_a_step_is_in_its_place(tmp_path: Path) -> None:
    keep(tmp_path, [0.1] * 6 + [0.13] * 4)

    (line,) = [of for of in past(tmp_path) if of.implementation == "attention/loops" and "compared" in of.what]

    assert line.what.endswith("time compared with matmul's")
    assert [line.moments[place].words for place in (0, 6)] == ["2.00× faster", "1.54× faster"]
    assert [moment.commit for moment in line.moments] == [f"c{day:02}" for day in range(1, 11)]
    assert [line.moments[place].when[:10] for place in line.changes] == ["2026-01-07"]


def test_one_run_is_no_history(tmp_path: Path) -> None:
    keep(tmp_path, [0.1])

    assert past(tmp_path) == []


def test_a_folder_without_history_has_no_lines(tmp_path: Path) -> None:
    assert past(tmp_path) == []
