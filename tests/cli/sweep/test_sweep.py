"""`attnsuite sweep` as a user has it: shards that are killed lose nothing, and all is merged at the end."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from killed import HOME, LAUNCHER, KilledSweep, stored

from attnsuite.cli import sweeping
from attnsuite.cli.sweep.command import ShardCommand
from attnsuite.model import Shard

Write = Callable[[str, str], Path]
Status = Callable[..., int]
KERNEL = """
    import time

    def attention(query, key, value, *, is_causal=False):
        time.sleep(0.1)
        return (query.shape[-1] ** -0.5 * query @ key.mT).softmax(-1) @ value
    """


@pytest.fixture(autouse=True)
def own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(HOME))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with another")
def test_a_sweep_that_is_killed_loses_nothing_and_repeats_nothing_answered(
    write: Write, status_of: Status, tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    write("mine.py", KERNEL)
    asked = ["mine.py", "--case", "plain", "--case", "causal", "--dtype", "float32"]
    table = "[check]\ntargets = ['mine.py']\ncases = ['plain', 'causal']\ndtypes = ['float32']\n"
    sweep = KilledSweep(tmp_path, 2, table)

    status = sweep.carried_out(["shard", LAUNCHER], (2.0, 4.0), seconds=540)

    write("mine.py", KERNEL.replace("time.sleep(0.1)", "pass"))  # what is not killed need not last
    assert status_of("check", *asked, "--results", "whole") == 1  # the kernel ignores is_causal
    assert status == 1, sweep.lines
    assert sweep.kills == ["shard", LAUNCHER]
    assert sweep.lost(stored(tmp_path / "whole")) == []
    assert sweep.repeated() == []
    assert sweep.amiss == []
    assert "2 of 2 shards are answered" in sweep.lines
    assert (tmp_path / "results" / "README.md").exists(), "the tables are made"


@pytest.mark.slow
def test_what_would_run_is_shown_and_nothing_is_started_or_written(
    write: Write, status_of: Status, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write("mine.py", KERNEL)
    write("sweep.toml", "shards = 2\n[check]\ntargets = ['mine.py']\ncases = ['plain']\n[versions]\nold = 'torch==2.9'")
    assert status_of("sweep", "sweep.toml", "--dry-run") == 0
    built = capfd.readouterr().out.splitlines()
    (tmp_path / "sweep.toml").write_text("shards = 2\n[check]\ntargets = ['mine.py']\ncases = ['plain']")

    assert status_of("sweep", "sweep.toml", "--dry-run") == 0

    first, second = map(shlex.split, capfd.readouterr().out.splitlines())
    assert first[1:] == ["-m", "attnsuite", "check", "mine.py", "--case", "plain", *first[7:]]
    assert (first[7:9], second[7:9]) == (["--shard", "1/2"], ["--shard", "2/2"])
    assert first[9:] == second[9:]
    assert built[0] == "# old: an environment that would be built"
    assert built[2].endswith("install --quiet --disable-pip-version-check --no-input torch==2.9")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["mine.py", "sweep.toml"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "words", "says"),
    [
        ("[check]\ncases = ['nonesuch']\ntargets = ['mine.py']", [], r"\[check\] no case of attention matches 'none"),
        ("[check]\ntargets = ['nobody.py']", [], r"\[check\] .*nobody\.py"),
        ("[check]\ntargets = ['mine.py']", ["--jobs", "0"], "--jobs is a whole number of at least 1, not 0"),
        ("[check]\ntargets = ['mine.py']", ["--launch", "moon"], "--launch: local and slurm are known, not 'moon'"),
        ("[check]\nnonesuch = 1", [], r"\[check\]: unknown key 'nonesuch'; there are: targets"),
    ],
)
def test_what_cannot_be_carried_out_is_one_line_before_anything_is_started(
    write: Write, status_of: Status, capfd: pytest.CaptureFixture[str], tmp_path: Path,
    table: str, words: list[str], says: str,
) -> None:  # fmt: skip
    pytest.importorskip("submitit")
    write("mine.py", KERNEL)
    write("sweep.toml", table)

    assert status_of("sweep", "sweep.toml", *words) == 2

    said = capfd.readouterr().err
    assert said.count("\n") == 1
    assert re.match(f"attnsuite: .*{says}", said)
    assert not (tmp_path / "results").exists()


def test_a_sweep_is_carried_out_by_one_launcher_at_a_time(
    write: Write, status_of: Status, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pytest.importorskip("submitit")
    write("sweep.toml", "[check]\ntargets = ['attention/loops']")

    with sweeping.one_launcher(tmp_path / "sweep.sweep"):
        assert status_of("sweep", "sweep.toml") == 2

    assert "another attnsuite is writing to" in capsys.readouterr().err


def test_without_submitit_a_line_says_what_to_install(
    write: Write, status_of: Status, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    write("sweep.toml", "[check]\ntargets = ['attention/loops']")

    assert status_of("sweep", "sweep.toml") == 2
    assert "starts processes with submitit: pip install 'attnsuite[slurm]'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_device_that_only_the_cluster_has_is_not_refused_here(write: Write) -> None:
    write("mine.py", KERNEL)
    words = [sys.executable, "-m", "attnsuite.cli.expecting"]
    request = ["check", "mine.py", "--device", "cuda:7"]

    here, elsewhere = (
        subprocess.run([*words, where, *request], capture_output=True, text=True, check=False)
        for where in ("here", "elsewhere")
    )

    assert (here.returncode, elsewhere.returncode) == (2, 0)
    assert "cuda:7 was asked for" in here.stderr
    assert '"attention/mine"' in elsewhere.stdout


@pytest.mark.slow
def test_a_timed_shard_is_recognised_as_answered_by_what_bench_stores(write: Write, status_of: Status) -> None:
    """What is expected of a run of bench is what bench says of its run: sources of the baseline too."""
    write("mine.py", KERNEL.replace("time.sleep(0.1)", "pass"))
    words = ["--shape", "b=1,h=1,l=8,e=8", "--budget", "0.01", "--time-limit", "60"]
    store = ["--results", "stored", "--shard", "1/1"]
    status = status_of("bench", "mine.py", *words, *store)
    asked = sweeping.Asked("bench", ("mine.py", *words), "bench")

    expected = sweeping.expected_of(asked, sys.executable, "local")

    of = ShardCommand("bench", sys.executable, ("bench",), Path("stored"), Shard(1, 1), expected)
    assert of.answers(), status
