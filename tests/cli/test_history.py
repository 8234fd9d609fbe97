"""`attnsuite history`: as text, JSON and CSV; runs of other folders and of commits are added to it."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from builders import MACHINE, RUN, measured, outcome
from msgspec.structs import replace
from stored import record

from attnsuite.__main__ import main
from attnsuite.model import Run
from attnsuite.results.store import history as store
from attnsuite.results.store import rows, runs

NASTY = "attention/<b>\x1b[31m"
"""A name that would colour a terminal."""


def run(day: int, **others: object) -> Run:
    date = f"2026-01-{day:02}"
    of_day = {"started": f"{date}T03:00:00+00:00", "finished": f"{date}T04:00:00+00:00", "commit": f"c{day:02}"}
    return replace(RUN, id=f"r{day:02}", **{**of_day, **others})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Ten runs: from the sixth on with another torch, from the eighth on slower, one answer wrong from the third on."""
    for day in range(1, 11):
        new = {"versions": {**RUN.versions, "torch": "2.14.0"}, "sources": {"attention/loops": "2"}}
        store.keep(
            tmp_path / "results",
            run(day, **(new if day >= 6 else {})),
            [
                measured("matmul", seconds=0.2),
                measured("loops", seconds=0.1 if day < 8 else 0.13),
                outcome("a", "passed" if day < 3 else "wrong"),
                outcome("b"),
                outcome("b", name=NASTY),
            ],
        )
    return tmp_path / "results"


def said(monkeypatch, capsys, *arguments: object) -> tuple[int, str, str]:
    """The exit status, and what the command line prints and complains of."""
    monkeypatch.setattr(sys, "argv", ["attnsuite", "history", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_the_text_says_in_which_run_what_happened(results, monkeypatch, capsys):
    status, out, _ = said(monkeypatch, capsys, "--results", results)

    assert status == 0
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0] == f"{results}: 10 runs on 1 machine, 2026-01-01 to 2026-01-10"
    wrong, torch, slower = (
        lines.index(line)
        for line in ("2026-01-03 03:00 c03", "2026-01-06 03:00 c06 torch 2.13.0 → 2.14.0", "2026-01-08 03:00 c08")
    )
    assert lines[wrong + 1] == "attention/loops on cpu: 1 passed → wrong (a float32)"
    assert torch < slower, "in the order of runs"
    assert "attention/loops, vit/b16 float32 cpu 1 thread forward hot: 1.30× slower [" in lines[slower + 1]
    assert lines[slower + 1].endswith("], compared with matmul 2.00× faster → 1.54× faster")
    assert lines[-1] == lines[slower + 1], "series without a step are not listed"


def test_series_that_are_named_are_shown_one_by_one_with_a_height_for_each_run(results, monkeypatch, capsys):
    _, out, _ = said(monkeypatch, capsys, "loops", "--results", results, "--workload", "vit/*")

    assert "compared with matmul ▁▁▁▁▁▁▁███ 1.54× faster, 10 runs, 1.30× slower [" in out
    assert "time" not in out.splitlines()[-1]
    assert "2026-01-03" not in out, "answers are of no workload"


def test_no_name_can_command_a_terminal(results, monkeypatch, capsys):
    store.keep(results, run(11), [outcome("b", "wrong", name=NASTY)])

    _, out, _ = said(monkeypatch, capsys, "--results", results)

    assert "attention/<b>\\x1b[31m on cpu: 1 passed → wrong" in out
    assert "\x1b" not in out


def test_json_has_everything(results, monkeypatch, capsys):
    _, out, _ = said(monkeypatch, capsys, "--format", "json", "--results", results)

    found = json.loads(out)
    assert [run["id"] for run in found["runs"]] == [f"r{day:02}" for day in range(1, 11)]
    (change,) = [change for series in found["series"] for change in series["changes"]]
    assert (change["run"], change["verdict"]) == ("r08", "slower")
    (changed,) = [changed for answers in found["conformance"] for changed in answers["changes"]]
    assert (changed["case"], changed["now"]) == ("a", "wrong")


def test_csv_has_a_row_for_each_point(results, monkeypatch, capsys):
    _, out, _ = said(monkeypatch, capsys, "--format", "csv", "--results", results)

    found = [row for row in csv.DictReader(io.StringIO(out)) if row["quantity"] == "ratio"]
    assert [row["run"] for row in found] == [f"r{day:02}" for day in range(1, 11)]
    assert [row["run"] for row in found if row["verdict"]] == ["r08"]
    assert (found[0]["value"], found[-1]["commit"]) == ("0.5", "c10")


def test_another_baseline_is_named_in_short(results, monkeypatch, capsys):
    _, out, _ = said(monkeypatch, capsys, "matmul", "--baseline", "loops", "--results", results)

    assert "attention/matmul, vit/b16 float32 cpu 1 thread forward hot: 1.30× faster [" in out
    assert "compared with loops 2.00× slower → 1.54× slower" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "no implementation 'nothing'; it has attention/<b>\\x1b[31m, attention/loops, attention/matmul"),
        (["--workload", "nothing"], "no workload 'nothing'; it has vit/b16"),
        (["--machine", "nothing"], f"no machine 'nothing'; it has {MACHINE.name}"),
        (["--baseline", "nothing"], "no ratios to attention/nothing"),
        (["--format", "xml"], "text, json, csv are known, not 'xml'"),
        (["--by-commit"], "no repository"),
        (["add", "nowhere"], "nowhere holds no results"),
        (["add", "nowhere@HEAD"], "no repository"),
    ],
)
def test_what_is_not_there_is_one_line(results, monkeypatch, capsys, arguments, says):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(results.parent.parent))
    monkeypatch.chdir(results.parent)

    status, out, err = said(monkeypatch, capsys, *arguments, "--results", results)

    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


def test_without_history_a_line_says_how_it_begins(tmp_path, monkeypatch, capsys):
    status, _, err = said(monkeypatch, capsys, "--results", tmp_path)

    assert status == 2
    assert "keeps no history; `attnsuite history add` begins it" in err


def git(folder: Path, *arguments: str) -> None:
    names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, **names}
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env={**os.environ, **alone})


def commit(repository: Path) -> None:
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "results")


def test_runs_that_only_git_has_are_added_also_those_of_a_former_layout(tmp_path, monkeypatch, capsys):
    results = tmp_path / "results"
    folder = results / MACHINE.name
    folder.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    (tmp_path / "readme").write_text("first")
    commit(tmp_path)
    (folder / "runs.jsonl").write_text(json.dumps({**runs.open_row(run(1)), "format": 1}) + "\n")
    (folder / "conformance.jsonl").write_text(json.dumps({"run": "r01", **rows.lean(outcome("a"))}) + "\n")
    commit(tmp_path)
    (folder / "runs.jsonl").write_text("damaged\n")
    commit(tmp_path)
    (folder / "runs.jsonl").unlink()
    (folder / "conformance.jsonl").unlink()
    record(results, replace(RUN, id="r02", finished="", commit="c02"), outcome("a", "wrong"))
    commit(tmp_path)

    status, out, err = said(monkeypatch, capsys, "add", f"{results}@HEAD~3..HEAD", "--results", tmp_path / "kept")

    assert status == 0
    assert [Path(line).name for line in out.splitlines()[:-1]] == ["r01.gz", "r02.gz"]
    assert out.splitlines()[-1].endswith("2 runs are new or hold more; 2 are kept, in 1 kB")
    assert f" is left out: {results}@" in err
    assert err.count("\n") == 1
    assert "1 passed → wrong (a float32)" in said(monkeypatch, capsys, "--results", tmp_path / "kept")[1]


def verified(monkeypatch, capsys, results) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["attnsuite", "verify", str(results)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0), capsys.readouterr().out


def test_verify_names_a_file_of_history_that_is_damaged(results, monkeypatch, capsys):
    record(results, replace(RUN, id="rows", finished=""), outcome("a"))
    store.keep(results, run(11, commit="", suite="0" * 12), [outcome("a")])
    assert "r11.gz" not in verified(monkeypatch, capsys, results)[1]
    next(results.glob("history/*/r11.gz")).write_bytes(b"damaged")

    status, out = verified(monkeypatch, capsys, results)

    assert status == 1
    assert "r11.gz" in out


def test_a_run_with_many_steps_names_the_largest_and_counts_the_others(tmp_path, monkeypatch, capsys):
    for day in range(1, 9):
        slow = 1 if day < 5 else 2
        others = [measured(f"k{number:02}", seconds=0.1 * slow ** (1 + number / 30)) for number in range(24)]
        store.keep(tmp_path, run(day), [measured("matmul", seconds=0.1), *others])

    lines = said(monkeypatch, capsys, "--results", tmp_path)[1].splitlines()

    assert "attention/k23" in lines[4]
    assert lines[-1].strip() == "and 4 more, which --all shows"
    assert "attention/k00" in said(monkeypatch, capsys, "--all", "--results", tmp_path)[1]
