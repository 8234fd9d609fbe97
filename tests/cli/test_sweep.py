"""A sweep file: what it may say, the commands that follow from it, and shards that are run and merged."""

from pathlib import Path

import pytest
from commanded import RIGHT, Cli, Write

from attnsuite import load_results

ASKED = """
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
    write("sweep.toml", ASKED)

    first = cli("sweep", "sweep.toml", "--jobs", "2")
    again = cli("sweep", "sweep.toml")

    assert (first.status, again.status) == (0, 0)
    assert "2 of 2 shards are done" in first.err
    cases = load_results(tmp_path / "out")
    assert set(cases["implementation"]) == {"attention/mine"}
    assert not cases.duplicated(["case", "dtype"]).any()
    assert {case.partition("/")[0] for case in cases["case"]} == {"plain", "keys"}
