"""`--shard i/n`: parts that together are the whole, have folders of their own, and do not run again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

import attnsuite
from attnsuite.benchmark import Request
from attnsuite.contracts import contract
from attnsuite.model import Shard

Status = Callable[..., object]
Write = Callable[[str, str], Path]
HOME = Path(attnsuite.__file__).parent.parent
ASKED = ("--case", "plain", "--case", "causal", "--case", "scale", "--dtype", "float32")
KERNEL = """
    import torch

    def attention(query, key, value, *, is_causal=False, scale=None):
        scores = (query.shape[-1] ** -0.5 if scale is None else scale) * query @ key.mT
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores).bool().tril(), float("-inf"))
        return scores.softmax(-1) @ value
    """


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))


def outcomes_in(file: Path) -> list[tuple[str, str]]:
    return [(row["case"], row["status"]) for row in map(json.loads, file.read_text().splitlines())]


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


@pytest.mark.slow
def test_a_killed_shard_goes_on_with_what_was_in_flight(write: Write, tmp_path: Path) -> None:
    write("mine.py", KERNEL.replace("return", "__import__('time').sleep(0.05); return"))
    words = [sys.executable, "-m", "attnsuite", "check", str(tmp_path / "mine.py"), "--case", "plain"]
    command = [*words, "--results", str(tmp_path / "results"), "--shard", "1/1"]
    around = {**os.environ, "PYTHONPATH": str(HOME)}

    def journal() -> list[str]:
        results = list((tmp_path / "results").glob("*/*/*/outcomes.jsonl"))
        return results[0].read_text().splitlines() if results else []

    running = subprocess.Popen(command, cwd=tmp_path, env=around, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(journal()) < 3 and running.poll() is None:
        time.sleep(0.02)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    count = len(journal())
    done = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, check=False, timeout=240)

    assert done.returncode == 0, done.stderr
    assert f": {count} outcomes and 0 measurements are stored" in done.stderr
