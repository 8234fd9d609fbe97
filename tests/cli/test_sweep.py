"""A sweep file: what it may say, the commands that follow from it, and shards that are run and merged."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from commanded import Cli, Write

from attnsuite import load_results
from attnsuite.cli.sweep import run_for

RIGHT = "def attention(query, key, value):\n    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value\n"
ASKED = """
shards = 2
results = "out"

[check]
targets = ["mine.py"]
cases = ["plain", "keys"]
dtypes = ["float32"]
"""


def test_a_dry_run_prints_the_command_of_each_shard(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("mine.py", RIGHT)
    write("sweep.toml", f'{ASKED}strict = true\n[bench]\ntargets = ["mine.py"]\nshapes = ["l=64"]\nbudget = 0.5\n')

    result = cli("sweep", "sweep.toml", "--dry-run")

    python = shlex.join([sys.executable, "-m", "attnsuite"])
    check = f"{python} check mine.py --case plain --case keys --dtype float32 --strict"
    bench = f"{python} bench mine.py --shape l=64 --budget 0.5"
    assert result.status == 0
    assert result.lines == [
        f"{command} --shard {index}/2 --results sweep.sweep/{name}"
        for name, command in (("check", check), ("bench", bench))
        for index in (1, 2)
    ]
    assert {path.name for path in tmp_path.iterdir()} == {"mine.py", "sweep.toml"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("shards = [", "sweep.toml is not TOML: "),
        ("shards = 2", "sweep.toml lists no request: it needs a table [check] or [bench]"),
        (
            "shard = 2\n[check]",
            "sweep.toml: unknown key 'shard'; there are: shards, results, folder, slurm, check, bench",
        ),
        ('shards = "2"\n[check]', "sweep.toml: shards expects an integer, got '2'"),
        ("shards = 0\n[check]", "sweep.toml: shards expects an integer of at least 1, got 0"),
        ("results = 3\n[check]", "sweep.toml: results expects the name of a folder, got 3"),
        ("check = 3", "sweep.toml: [check] expects a table, got 3"),
        ('[check]\nseed = "3"', "sweep.toml: [check]: unknown key 'seed'; there are: targets, contract, cases, "),
        (
            '[check]\ncases = ["plain"]\nstrict = "yes"',
            "sweep.toml: [check]: --strict expects True or False, got 'yes'",
        ),
        ('[check]\ndtypes = ["int8"]', "sweep.toml: [check]: unknown dtype 'int8'; there are: "),
        ('[check]\ntargets = ["nosuch.py"]', "sweep.toml: [check]: no file 'nosuch.py'"),
        ('[versions]\nolder = "torch==2.9"\n[check]', "sweep.toml: [versions] was removed: a matrix of CI jobs"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line(text: str, says: str, cli: Cli, write: Write) -> None:
    write("sweep.toml", text)

    result = cli("sweep", "sweep.toml")

    assert (result.status, result.out) == (2, "")
    assert result.err.startswith(f"attnsuite: {says}")


@pytest.mark.slow
def test_shards_are_run_merged_and_not_run_again(cli: Cli, write: Write, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    write("mine.py", RIGHT)
    write("sweep.toml", ASKED)

    first = cli("sweep", "sweep.toml", "--jobs", "2")
    again = cli("sweep", "sweep.toml")

    assert (first.status, again.status) == (0, 0)
    assert "2 of 2 shards have ended" in first.err
    cases = load_results(tmp_path / "out")
    assert set(cases["implementation"]) == {"attention/mine"}
    assert not cases.duplicated(["case", "dtype"]).any()
    assert {case.partition("/")[0] for case in cases["case"]} == {"plain", "keys"}


def test_a_command_ends_with_its_launcher() -> None:
    gone = 2**22 + 1  # no process has this number

    status = run_for(gone, [sys.executable, "-c", "import time; time.sleep(60)"], {})

    assert status < 0
