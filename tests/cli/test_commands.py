"""What commands do that golden files do not hold: audit, check, compare, draw, sweep and verify."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import RUN, outcome
from commanded import KERNEL, RIGHT, Cli, Write, outcomes_in
from msgspec.structs import replace
from processes import committed
from stored import MACHINE, record

import attnsuite
from attnsuite.benchmark import interleaved, table
from attnsuite.cli import progress as heartbeat
from attnsuite.cli.report import report
from attnsuite.cli.requests import Verify
from attnsuite.cli.verify import run

Status = Callable[..., object]

# audit


@pytest.mark.slow
def test_one_contract_is_audited_and_no_page_written(cli: Cli, tmp_path: Path) -> None:
    result = cli("audit", "--contract", "positional_encoding", "--jobs", "2")

    assert result.status == 0
    assert "positional_encoding: mutation score: " in result.out
    assert "correct variants: 3, tests that they fail: 0" in result.out
    assert not list(tmp_path.rglob("audit*"))


# check

CASES = ("--case", "plain", "--dtype", "float32")

WRONG_BELOW_TWO_HEADS = """
    import torch

    def attention(query, key, value):
        scores = query @ key.mT / (query.shape[-1] ** 0.5 if query.shape[-3] > 1 else 1)
        return scores.softmax(-1) @ value
    """
"""A known mistake, so that the diagnosis is quick."""


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_no_test_runs_after_the_first_failure(jobs: str, write: Write, status_of: Status, tmp_path: Path) -> None:
    write("mine.py", WRONG_BELOW_TWO_HEADS)
    write("other.py", WRONG_BELOW_TWO_HEADS)

    status = status_of("check", "mine.py", "other.py", *CASES, "-x", "--jobs", jobs, "--json", "rows.json")

    statuses = [item for _, item in outcomes_in(tmp_path / "rows.json")]
    assert status == 1
    assert statuses.count("failed") == 1
    assert statuses[-1] == "failed"


@pytest.mark.slow
@pytest.mark.usefixtures("own_cache")
def test_outcomes_are_stored_without_timing_and_earlier_cases_stay(
    write: Write, status_of: Status, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write("mine.py", RIGHT)

    assert status_of("check", "mine.py", *CASES, "--results", "out") == 0
    printed = capsys.readouterr().out
    assert status_of("check", "mine.py", "--case", "scale/half", "--dtype", "float32", "--results", "out") == 1

    stored = attnsuite.load_results(tmp_path / "out")
    assert set(stored["case"]) > {"plain/small", "scale/half"}
    assert len(attnsuite.load_results(tmp_path / "out", "benchmark")) == 0
    (machine,) = {run.parent.parent for run in (tmp_path / "out").glob("*/*/run.json")}
    assert str(Path("out") / machine.name / "cases.html") in printed
    assert not (machine / "benchmark.csv").exists()
    assert f"[cases.html]({machine.name}/cases.html)" in (tmp_path / "out" / "README.md").read_text()


SLOW = """\
import time


def attention(query, key, value):
    time.sleep(0.1)
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value
"""


@pytest.fixture
def slow(tmp_path: Path, status_of: Status, monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel with ten calls a second; lines are printed early."""
    monkeypatch.setattr(heartbeat, "FIRST", (0.01, 0.7))
    (tmp_path / "slow.py").write_text(SLOW)
    return "slow.py"


@pytest.mark.parametrize("options", [(), ("--jobs", "2")])
def test_a_slow_check_says_how_far_it_is_and_what_takes_the_time(
    options: tuple[str, ...], slow: str, status_of: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of("check", slow, *CASES, *options)

    lines = capsys.readouterr().err.splitlines()
    assert status == 0
    assert re.fullmatch(r"0 of \d+ tests done after 0 s(, now attention/slow)?", lines[0])
    assert all(re.fullmatch(r"\d+ of \d+ tests done after 1 s(, now attention/slow)?", line) for line in lines[1:])


# compare

FIRST = replace(RUN, machine=MACHINE, finished="")
SECOND = replace(FIRST, id="r2", started="2026-01-03T03:04:05+00:00")


def test_a_commit_is_compared_with_what_is_there(tmp_path, status_of, capsys):
    record(tmp_path / "results", FIRST, outcome("a/1"))
    committed(tmp_path)
    record(tmp_path / "results", SECOND, outcome("a/1", "failed"))

    assert status_of("compare", "results@HEAD", "results", "--fail-on", "failed") == 1
    assert "fails: attention/loops a/1 (float32, cpu) passed → failed" in capsys.readouterr().out


@pytest.mark.slow
def test_two_files_are_timed_against_each_other_with_a_baseline(write, status_of, capsys, monkeypatch):
    baselines, real = [], table.race
    monkeypatch.setattr(table, "race", lambda *given: (baselines.append(given[5].name), real(*given))[1])
    write("old.py", KERNEL)
    monkeypatch.setattr(interleaved, "MEMORY_PAIRS", 1)  # memory is not compared here
    write("new.py", KERNEL.replace("return ", "return None if not [scores.softmax(-1) for _ in range(60)] else "))
    small = ("--workload", "documents/one-sentence", "--budget", "0.001", "--pairs", "8")

    status = status_of("compare", "--interleaved", "old.py", "new.py", *small, "--fail-on", "slower")

    printed = capsys.readouterr().out
    assert status == 1, printed
    assert "fails: slower: attention/new for old documents/one-sentence" in printed
    assert baselines == ["attention/matmul (not shown)"] * 8


@pytest.mark.slow
def test_a_side_that_became_wrong_is_reported_first_and_not_timed(write, status_of, capsys):
    write("old.py", KERNEL)
    write("new.py", KERNEL.replace("query.shape[-1] ** -0.5 if", "1.0 if"))
    small = ("--workload", "documents/one-sentence", "--budget", "0.001", "--pairs", "8")

    assert status_of("compare", "--interleaved", "old.py", "new.py", *small, "--fail-on", "failed") == 1

    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if "may be inaccurate because the machine was busy" not in line]
    assert "fail now" in [line for line in lines if not line.startswith("note: in ")][3]
    options = "attention/new for old documents/one-sentence float32 cpu 1 thread forward hot"
    assert f"fails: {options} measured → refused" in printed


# draw


@pytest.fixture
def charts():
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


@pytest.mark.slow
@pytest.mark.usefixtures("charts")
def test_figures_are_drawn_by_name_or_pattern_and_their_files_are_printed(attnsuite, tmp_path):
    done = attnsuite("draw", "masked_softmax", "position_c*", "--to", "there")

    files = [f"there/{name}.{kind}" for name in ("masked_softmax", "position_curves") for kind in ("svg", "png")]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == files
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)


@pytest.mark.slow
@pytest.mark.usefixtures("charts")
@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_extra_one_line_says_what_to_install(module, attnsuite, tmp_path):
    (tmp_path / f"{module}.py").write_text("raise ModuleNotFoundError('there is none here')")

    done = attnsuite("draw", "identity", path=tmp_path)

    package = {"altair": "altair", "vl_convert": "vl-convert-python"}[module]
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f'attnsuite: drawing needs {package}: python -m pip install "attnsuite[charts]"\n'
    assert not (tmp_path / "figures").exists()


# sweep

SWEEP = """
shards = 2
results = "out"

[check]
targets = ["mine.py"]
cases = ["plain", "keys"]
dtypes = ["float32"]
"""


@pytest.mark.slow
def test_shards_are_run_merged_and_not_run_again(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("mine.py", RIGHT)
    write("sweep.toml", SWEEP)

    first = cli("sweep", "sweep.toml", "--jobs", "2")
    again = cli("sweep", "sweep.toml")

    assert (first.status, again.status) == (0, 0)
    assert "2 of 2 shards are done" in first.err
    cases = attnsuite.load_results(tmp_path / "out")
    assert set(cases["implementation"]) == {"attention/mine"}
    assert not cases.duplicated(["case", "dtype"]).any()
    assert {case.partition("/")[0] for case in cases["case"]} == {"plain", "keys"}


# verify


def test_an_edited_page_is_named(tmp_path, capsys):
    record(tmp_path, RUN, outcome())
    report(tmp_path, draws=False)
    page = tmp_path / MACHINE.name / "cases.html"
    page.write_text("<!doctype html><!-- attnsuite -->")

    assert run(Verify(paths=(tmp_path,))) == 1
    assert f"{page}: it differs from the rows" in capsys.readouterr().out
