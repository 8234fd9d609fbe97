"""examples/scale: the commands of the examples, run here; merged results equal those of one process."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import attnsuite
from attnsuite.results import MachineRecord, read

HOME = Path(attnsuite.__file__).parent.parent
EXAMPLES = Path(__file__).parent.parent / "examples" / "scale"
SCRIPTS = ("xargs.sh", "parallel.sh", "slurm.sh")
ASKED = ("check", "mine.py", "--case", "plain", "--case", "causal", "--case", "scale", "--dtype", "float32", "--quiet")
KERNEL = """
    import torch

    def attention(query, key, value, *, is_causal=False, scale=None):
        scores = query.shape[-1] ** -0.5 * query @ key.mT  # whatever the scale
        if is_causal:
            scores = scores.masked_fill(~torch.ones_like(scores).bool().tril(), float("-inf"))
        return scores.softmax(-1) @ value
    """

Around = dict[str, str]


@pytest.fixture
def around(write: Callable[[str, str], Path], tmp_path: Path) -> Around:
    """The environment of a process with attnsuite, in a folder with a kernel that fails a family of cases."""
    write("mine.py", KERNEL)
    command = write("bin/attnsuite", f'#!/bin/sh\nexec "{sys.executable}" -m attnsuite "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(HOME), "COMMAND": " ".join(ASKED)}


def begun(command: list[str], around: Around, folder: Path, **given: str) -> subprocess.Popen[str]:
    """A command that runs in a folder, with further environment variables."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=around | given, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str], *statuses: int) -> str:
    """The output of a command, which must end with one of these statuses."""
    out, error = process.communicate(timeout=240)
    assert process.returncode in statuses, error
    return out + error


def recorded(results: Path) -> MachineRecord:
    (found,) = read(results).values()
    return found


def statuses(results: Path) -> dict[tuple[str, ...], tuple[str, float | None]]:
    return {of.key: (of.status, of.error_ratio) for of in recorded(results).outcomes}


@pytest.fixture
def whole(
    around: Around, status_of: Callable[..., object], tmp_path: Path
) -> dict[tuple[str, ...], tuple[str, float | None]]:
    """The results of one process."""
    assert status_of(*ASKED, "--results", "whole") == 1
    return statuses(tmp_path / "whole")


@pytest.mark.slow
def test_xargs_has_the_results_of_one_process(around: Around, tmp_path: Path, whole: object) -> None:
    said = ended(begun([str(EXAMPLES / "xargs.sh")], around, tmp_path, SHARDS="2", AT_ONCE="2"), 123)

    request = "check on cpu --case plain --case causal --case scale --dtype float32"
    assert re.search(rf"^merged results/.*: {request}, shard 1/2, \d+ rows$", said, re.MULTILINE), said
    assert statuses(tmp_path / "results") == whole
    assert {status for status, _ in statuses(tmp_path / "results").values()} == {"passed", "failed", "unsupported"}
    assert (tmp_path / "results" / "README.md").exists()


def workflow() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((EXAMPLES / "github-workflow.yml").read_text())
    return content


def step(job: str, name: str) -> list[str]:
    """The shell command of a step, as a runner starts it."""
    (script,) = (each["run"] for each in workflow()["jobs"][job]["steps"] if each.get("name") == name)
    return ["bash", "-eo", "pipefail", "-c", script]


def pod() -> list[str]:
    content = yaml.safe_load((EXAMPLES / "kubernetes.yml").read_text())
    (container,) = content["spec"]["template"]["spec"]["containers"]
    command: list[str] = container["command"]
    return command


@pytest.mark.slow
def test_shards_of_a_matrix_of_slurm_and_of_kubernetes_are_merged(around: Around, tmp_path: Path) -> None:
    of_all = around | {"SHARDS": "4", "RESULTS": str(tmp_path)}
    shard = step("shard", "Run one shard")
    processes = [
        begun(shard, of_all, tmp_path, SHARD="1"),
        begun(shard, of_all, tmp_path, SHARD="2"),
        begun([str(EXAMPLES / "slurm.sh")], of_all, tmp_path, SLURM_ARRAY_TASK_ID="3", SLURM_ARRAY_TASK_COUNT="1"),
        begun(pod(), of_all, tmp_path, JOB_COMPLETION_INDEX="3"),
    ]
    for each in processes:
        ended(each, 0, 1)

    said = ended(begun(step("merge", "Merge the shards"), of_all, tmp_path), 0)

    assert re.search(r"^merged results/.*, shard 4/4, \d+ rows$", said, re.MULTILINE), said
    assert "results: verified" in said
    assert {of.case.partition("/")[0] for of in recorded(tmp_path / "results").outcomes} == {"plain", "causal", "scale"}


def test_the_matrix_has_every_shard() -> None:
    content = workflow()

    assert content["jobs"]["shard"]["strategy"]["matrix"]["shard"] == [*range(1, content["env"]["SHARDS"] + 1)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_has_valid_syntax(name: str) -> None:
    assert subprocess.run(["bash", "-n", str(EXAMPLES / name)], check=False).returncode == 0
    assert os.access(EXAMPLES / name, os.X_OK)


def test_every_example_runs_and_merges_shards() -> None:
    for file in EXAMPLES.iterdir():
        text = file.read_text()
        assert "attnsuite $COMMAND --shard " in text, file
        assert "report shards --results results" in text or "report /results/shards --results /results" in text, file
