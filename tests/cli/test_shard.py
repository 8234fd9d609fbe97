"""`--shard i/n`: parts that together are the whole, have folders of their own, and do not run again."""

from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from commanded import KERNEL, Write, outcomes_in

from attnsuite.benchmark.request import Request
from attnsuite.contracts import contract
from attnsuite.model import Shard

Status = Callable[..., object]

pytestmark = pytest.mark.usefixtures("own_cache")
ASKED = ("--case", "plain", "--case", "causal", "--case", "scale", "--dtype", "float32")


def test_shards_of_a_check_are_together_the_whole_check(write: Write, status_of: Status, tmp_path: Path) -> None:
    write("mine.py", KERNEL)
    rows = tmp_path / "rows.jsonl"
    status_of("check", "mine.py", *ASKED, "--json", str(rows))
    whole = outcomes_in(rows)

    parts = []
    for index in (1, 2):
        status_of("check", "mine.py", *ASKED, "--shard", f"{index}/2", "--json", str(rows))
        parts.append(outcomes_in(rows))

    assert sorted(parts[0] + parts[1]) == sorted(whole)
    families = [{case.partition("/")[0] for case, _ in part} for part in parts]
    assert not families[0] & families[1], "a family is not divided"


@pytest.mark.slow
def test_a_shard_is_stored_in_a_folder_of_its_own_and_runs_once(
    write: Write, status_of: Status, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write("mine.py", KERNEL.replace("query.shape[-1] ** -0.5", "1.0"))  # a mistake that is found at once
    words = ("check", "mine.py", *ASKED, "--results", str(tmp_path / "results"), "--shard", "1/2")

    first = status_of(*words, "--quiet")  # a failure is not explained, which takes seconds
    before = capsys.readouterr()
    again = status_of(*words)
    after = capsys.readouterr()

    assert (first, again) == (1, 1), "what is stored fails as it did"
    assert [folder.name for folder in (tmp_path / "results").iterdir()] == ["shard-1-of-2"]
    assert "already complete" not in before.err
    assert "shard 1/2 is already complete in" in after.err
    write("mine.py", KERNEL)
    assert status_of(*words) == 0, "another source is tested again"


@pytest.mark.slow
def test_a_shard_into_which_nothing_falls_is_finished_and_says_so(
    write: Write, status_of: Status, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write("mine.py", KERNEL)
    empty = next(index for index in range(1, 5) if not Shard(index, 4).takes("attention/mine", "plain"))
    words = ("check", "mine.py", "--case", "plain", "--results", str(tmp_path), "--shard", f"{empty}/4")

    assert status_of(*words) == 0
    (printed,) = capsys.readouterr().err.splitlines()
    assert printed.startswith(
        f"shard {empty}/4 has nothing to run: families of cases are divided by a hash, and none of"
    )
    assert status_of(*words) == 0
    assert f"shard {empty}/4 is already complete" in capsys.readouterr().err


def test_the_tables_of_a_workload_are_timed_in_one_shard() -> None:
    attention = contract("attention")
    whole = Request(profile="quick", backward=True).tables(attention)

    parts = [Request(profile="quick", backward=True, shard=Shard(index, 3)).tables(attention) for index in (1, 2, 3)]

    counts = [
        Counter((table.title, table.dtype, table.threads, table.cache) for table in tables)
        for tables in (whole, chain(*parts))
    ]
    assert counts[0] == counts[1]
    names = [{table.workload.name for table in part} for part in parts]
    assert sum(map(len, names)) == len(set().union(*names))
