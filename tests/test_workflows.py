"""GitHub Actions: the steps of the action and of the reusable workflows, run here like on a runner."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

HOME = Path(__file__).parent.parent
ACTION = HOME / "action.yml"
WORKFLOWS = sorted((HOME / ".github" / "workflows").glob("*.yml"))
COMPARE = HOME / ".github" / "workflows" / "compare.yml"
FOR_OTHERS = HOME / ".github" / "workflows" / "conformance.yml"
EXAMPLE = HOME / "examples" / "third_party" / "github-workflow.yml"

WRONG = "def attention(query, key, value):\n    return (query @ key.mT).softmax(-1) @ value\n"


def read(file: Path) -> Any:
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def steps(file: Path) -> dict[str, Any]:
    """The named steps of a file's only job."""
    content = read(file)
    job = content["runs"] if "runs" in content else next(iter(content["jobs"].values()))
    return {step["name"]: step for step in job["steps"] if "name" in step}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "kernel.py").write_text(WRONG)
    return folder


def run(step: dict[str, Any], repository: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run a step like `shell: bash`, with these inputs and a runner's variables."""
    script, temporary = repository.parent / "step.sh", repository.parent / "temporary"
    script.write_text(step["run"])
    temporary.mkdir(exist_ok=True)
    runner = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(HOME),
        "HOME": str(repository.parent),
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(repository),
        "GITHUB_OUTPUT": str(repository.parent / "output"),
        "GITHUB_STEP_SUMMARY": str(repository.parent / "summary.md"),
        "RUNNER_TEMP": str(temporary),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
    variables = runner | dict.fromkeys(step["env"], "") | given
    assert set(given) <= set(step["env"]), "an input reaches the step by its variables alone"
    return subprocess.run(
        command, cwd=repository, env=variables, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.mark.slow
@pytest.mark.parametrize("file", [ACTION, FOR_OTHERS], ids=["action", "workflow"])
def test_a_wrong_kernel_fails_the_step_with_an_annotation_a_summary_and_rows(file: Path, repository: Path) -> None:
    arguments = "--dtype float32\n--case plain/small --case bad_input/narrow_keys\n"

    done = run(steps(file)["Check attention"], repository, TARGETS="kernel.py:attention", ARGUMENTS=arguments)

    assert done.returncode == 1, done.stderr
    assert "\n::error file=kernel.py,line=1,title=attention/kernel%3A plain/small in float32::failed" in done.stdout
    summary = (repository.parent / "summary.md").read_text()
    assert "| ❌ | `attention/kernel` | cpu | 0/1 | 1 failed | 0 | 0 | 0 | 1 of 1 |" in summary
    assert len((repository.parent / "temporary" / "attnsuite.jsonl").read_text().splitlines()) == 2


def test_with_expected_failures_the_step_passes_and_its_output_names_the_rows(repository: Path) -> None:
    (repository / "expected failures.txt").write_text("plain/small: it is not scaled yet\n")
    given = {
        "TARGETS": "kernel.py",
        "XFAILS": "expected failures.txt",
        "ARGUMENTS": "--dtype float32 --case plain/small",
    }

    done = run(steps(ACTION)["Check attention"], repository, **given)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "::error" not in done.stdout
    output = (repository.parent / "output").read_text()
    temporary = repository.parent / "temporary"
    assert output == f"rows={temporary / 'attnsuite.jsonl'}\njunit={temporary / 'attnsuite.xml'}\n"
    assert "<testcase" in (temporary / "attnsuite.xml").read_text()
    assert "known as an expected failure (it is not scaled yet)" in (repository.parent / "summary.md").read_text()


def test_a_target_is_never_an_option_nor_a_command(repository: Path) -> None:
    done = run(steps(ACTION)["Check attention"], repository, TARGETS="--json=kernel.py $(touch made) `touch made`")

    assert done.returncode == 2
    assert (repository / "kernel.py").read_text() == WRONG
    assert not (repository / "made").exists()


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [({"INSTALL": "attnsuite==9.9", "HERE": "/x"}, "attnsuite==9.9"), ({"INSTALL": "", "HERE": "/a b"}, "/a b")],
)
def test_the_action_installs_itself_by_default(
    repository: Path, tmp_path: Path, inputs: dict[str, str], expected: str
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')  # pip would download PyTorch
    python.chmod(0o755)
    step = steps(ACTION)["Install attnsuite"]

    script = f"PATH={tmp_path}:$PATH\n{step['run']}"
    done = run({**step, "run": script}, repository, **inputs)

    assert done.stdout.splitlines() == ["-m", "pip", "install", expected]


def test_the_workflow_installs_the_suite_and_the_package_if_there_is_one(repository: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    for file in (FOR_OTHERS, COMPARE):
        step = steps(file)["Install the suite and the package"]
        step["run"] = f"PATH={tmp_path}:$PATH\n{step['run']}"
        fetched = "-m pip install -c .attnsuite/constraints.txt ./.attnsuite"

        assert run(step, repository).stdout.splitlines() == [fetched]
        assert run(step, repository, PACKAGE=".[cpu]").stdout.splitlines() == [fetched, "-m pip install .[cpu]"]
        both = run(step, repository, INSTALL="./suite", PACKAGE=".").stdout.splitlines()
        assert both == ["-m pip install ./suite", "-m pip install ."]


@pytest.mark.parametrize("file", [FOR_OTHERS, COMPARE], ids=lambda file: file.name)
def test_the_suite_comes_from_the_repository_and_ref_at_the_top_with_pytorch_for_cpus(file: Path) -> None:
    content, step = read(file), steps(file)["Get the suite"]

    assert content["env"].keys() == {"SUITE", "SUITE_REF"}
    assert step["with"] | {"path": ".attnsuite"} == step["with"]
    assert (step["with"]["repository"], step["with"]["ref"]) == ("${{ env.SUITE }}", "${{ env.SUITE_REF }}")
    inputs = content[True]["workflow_call"]["inputs"]  # YAML takes `on` for true
    assert inputs["install"]["default"] == ""
    assert inputs["torch-index"]["default"] == read(ACTION)["inputs"]["torch-index"]["default"]
    assert inputs["torch-index"]["default"].endswith("/whl/cpu")
    installs = steps(file)["Install the suite and the package"]["env"]
    assert installs["PIP_EXTRA_INDEX_URL"] == "${{ inputs.torch-index }}"
    assert (HOME / "constraints.txt").is_file()


@pytest.mark.parametrize("file", [ACTION, *WORKFLOWS, EXAMPLE], ids=lambda file: file.name)
def test_no_input_is_pasted_into_a_script(file: Path) -> None:
    scripts = re.findall(r"'run': (?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")", str(read(file)))

    assert scripts
    inputs = [script for pair in scripts for script in pair if re.search(r"\$\{\{\s*(inputs|github)\b", script)]
    assert inputs == []


@pytest.mark.parametrize("file", [*WORKFLOWS, EXAMPLE], ids=lambda file: file.name)
def test_a_workflow_has_read_permissions_only(file: Path) -> None:
    content = read(file)

    assert content["permissions"] == {"contents": "read"}
    writing = {name: job["permissions"] for name, job in content["jobs"].items() if "permissions" in job}
    assert writing in ({}, {"release": {"contents": "write"}})


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_actions_of_others_are_pinned_to_a_commit(file: Path) -> None:
    used = re.findall(r"uses: (\S+)( +# v[\d.]+)?", file.read_text().split("\non:")[1])

    assert used
    foreign = [(each, version) for each, version in used if each != "./"]
    assert [each for each, version in foreign if not (version and re.search("@[0-9a-f]{40}$", each))] == []


def test_every_environment_that_ci_runs_exists_and_every_supported_python_is_tested() -> None:
    content = (HOME / "tox.ini").read_text()
    ci = read(HOME / ".github" / "workflows" / "ci.yml")
    text = (HOME / ".github" / "workflows" / "ci.yml").read_text()
    run = set(re.findall(r"tox run -e (\w+)", text)) | set(ci["jobs"]["static"]["strategy"]["matrix"]["environment"])

    assert run == {"lint", "types", "docs", "tests", "slow", "lowest", "conformance"}
    release = (HOME / ".github" / "workflows" / "release.yml").read_text()
    assert "tox run -e release" in release
    assert run | {"release"} <= set(re.findall(r"^\[testenv:([\w-]+)\]", content, re.MULTILINE))
    supported = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (HOME / "pyproject.toml").read_text())
    assert ci["jobs"]["tests"]["strategy"]["matrix"]["python"] == supported


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="actionlint is not installed")
def test_actionlint_finds_nothing() -> None:
    done = subprocess.run(["actionlint", *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_comparing_workflow_refuses_unknown_workloads_and_commits(repository: Path) -> None:
    git = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e@e"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    given = {"FILE": "kernel.py:attention", "BASE": "HEAD", "FAIL_ON": "slower failed", "MARGIN": "0.05"}

    done = run(steps(COMPARE)["Compare attention"], repository, WORKLOADS="no/such\n", **given)
    other = run(steps(COMPARE)["Compare attention"], repository, WORKLOADS="no/such", **given | {"BASE": "no-such"})

    assert (done.returncode, other.returncode) == (2, 2)
    assert "no workload of attention matches 'no/such'" in done.stderr  # after both sides were found
    assert "has no commit 'no-such'" in other.stderr
