"""On a cluster, shards are arrays of jobs with the file's options. Stand-ins on the path take Slurm's commands."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from swept import Shards

from attnsuite.cli.sweep.carrying import Carried, carry_out
from attnsuite.cli.sweep.engines import Slurm, refuse_options
from attnsuite.model import UsageError

pytest.importorskip("submitit")

SBATCH = '''#!{python}
"""Takes a script, and runs its tasks in processes of their own, as the scheduler would."""
import os, pathlib, re, subprocess, sys

home, script = pathlib.Path({home!r}), pathlib.Path(sys.argv[-1])
number = 100 + len(list(home.glob("script-*")))
text = script.read_text()
(home / f"script-{{number}}").write_text(text)
array = re.search(r"--array=0-(\\d+)", text)
for task in range(int(array[1]) + 1) if array else [None]:
    own = {{"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}} if array else {{}}
    around = {{**os.environ, **own, "SLURM_JOB_ID": str(number)}}
    with (home / "job.log").open("a") as log:
        job = subprocess.Popen(["bash", str(script)], env=around, stdout=log, stderr=log, start_new_session=True)
    name = f"{{number}}_{{task}}" if array else str(number)
    (home / f"job-{{name}}").write_text(str(job.pid))
print(f"Submitted batch job {{number}}")
'''
SRUN = """#!/bin/bash
while [[ "$1" == --* ]]; do [[ "$1" == --unbuffered ]] && shift || shift 2; done
exec "$@"
"""
SACCT = '''#!{python}
"""Says of every job whether its process is there."""
import pathlib
import sys
sys.path.append({tests!r})
from processes import is_over

print("JobID|State|NodeList")
for file in pathlib.Path({home!r}).glob("job-*"):
    state = "COMPLETED" if is_over(int(file.read_text())) else "RUNNING"
    print(f"{{file.name.removeprefix('job-')}}|{{state}}|node")
'''


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Puts stand-ins of Slurm's commands on the path, and returns what lists the scripts that were submitted."""
    home = tmp_path / "cluster"
    home.mkdir()
    tests = str(Path(__file__).parents[2])
    for name, text in (("sbatch", SBATCH), ("srun", SRUN), ("sacct", SACCT)):
        text = text if name == "srun" else text.format(python=sys.executable, home=str(home), tests=tests)
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    return lambda: [file.read_text() for file in sorted(home.glob("script-*"))]


def asked(shards: Shards, logs: Path, subcommand: str = "check", **options: object) -> tuple[Carried, list[str]]:
    lines: list[str] = []
    of = Carried(shards.commands(subcommand), lines.append, 3)
    for each in of.commands:
        of.look(each)
    carry_out(of, Slurm(logs, 8, True, options))
    return of, lines


def test_shards_are_an_array_with_the_options_of_the_file(cluster: Callable[[], list[str]], tmp_path: Path) -> None:
    shards = Shards(tmp_path, 3, {"2/3": ["killed"]})

    of, lines = asked(shards, tmp_path / "logs", partition="gpu", time=30, gpus_per_node=1)

    assert not of.unanswered
    assert len(of.answers) == 3
    first, second = cluster()
    assert "#SBATCH --array=0-2%3\n" in first
    for option in ("partition=gpu", "time=30", "gpus-per-node=1", "job-name=attnsuite"):
        assert f"#SBATCH --{option}\n" in first
    assert "exclusive" not in first, "a check may have neighbours"
    assert "--array" not in second, "only what was killed is submitted again"
    assert "check 2/3: killed by SIGKILL; it goes on with what is missing" in lines
    assert [len(shards.starts(f"{index}/3")) for index in (1, 2, 3)] == [1, 2, 1]


def test_what_times_has_its_machine_for_itself_unless_the_file_says_otherwise(
    cluster: Callable[[], list[str]], tmp_path: Path
) -> None:
    shards = Shards(tmp_path, 1)

    asked(shards, tmp_path / "logs", "bench")
    (shards.home / "answers").rename(shards.home / "before")
    asked(shards, tmp_path / "logs", "bench", exclusive="user")

    alone, shared = cluster()
    assert "#SBATCH --exclusive\n" in alone
    assert "#SBATCH --time=60\n" in alone
    assert "#SBATCH --exclusive=user\n" in shared


def test_a_launcher_waits_for_what_an_earlier_one_submitted(cluster: Callable[[], list[str]], tmp_path: Path) -> None:
    shards = Shards(tmp_path, 1, {"1/1": ["wait"]})
    (command,) = shards.commands()
    earlier = Slurm(tmp_path / "logs" / "earlier", None, True, {})
    (started,) = earlier.start([command])
    until = time.monotonic() + 120
    while not shards.starts("1/1") and time.monotonic() < until:
        time.sleep(0.05)

    later = Slurm(tmp_path / "logs" / "later", None, True, {})
    (same,) = later.start([command])

    assert same.job.job_id == started.job.job_id
    assert len(cluster()) == 1, "it is not submitted twice"
    waiting = psutil.Process(int(shards.starts("1/1")[0][0]))
    waiting.kill()
    while not later.is_over(same) and time.monotonic() < until:
        time.sleep(0.05)
    again = Slurm(tmp_path / "logs" / "again", None, True, {})
    (anew,) = again.start([command])
    assert anew.job.job_id != started.job.job_id, "what is over is submitted again"


def test_options_that_slurm_has_not_are_refused_with_those_that_it_has() -> None:
    with pytest.raises(UsageError, match=r"\[slurm\]: unknown key 'partiton'; there are: account, .*partition"):
        refuse_options({"partiton": "gpu"})


def test_without_slurm_it_is_said_that_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="there is no Slurm here: no srun is on the path"):
        Slurm(tmp_path / "logs", None, True, {})
