"""examples/third_party: installed like another project's package, found by its entry point, checked and tested."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import attnsuite

HOME = Path(attnsuite.__file__).parent.parent
EXAMPLE = Path(__file__).parent.parent / "examples" / "third_party"
ASKED = ("--case", "plain", "--case", "causal", "--case", "no_keys", "--dtype", "float32")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, installed in a virtual environment with the torch of this process."""
    folder = tmp_path_factory.mktemp("somebody")
    package, environment = folder / "third_party", folder / "venv"
    shutil.copytree(EXAMPLE, package)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    installed = next(environment.glob("lib/python*/site-packages"))
    places = [*(place for place in sys.path if Path(place).name in ("site-packages", "dist-packages")), str(HOME)]
    (installed / "present.pth").write_text("\n".join(places) + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    done = subprocess.run([*pip, *options, str(package)], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(package / "src")  # the installed package remains
    return package


@pytest.fixture
def run(example: Path) -> Run:
    """A function that runs a Python module in the example's environment and folder."""

    def ran(*words: str) -> subprocess.CompletedProcess[str]:
        python = example.parent / "venv" / "bin" / "python"
        around = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
        command = [str(python), "-m", *words]
        return subprocess.run(
            command, cwd=example, env=around, capture_output=True, text=True, check=False, timeout=280
        )

    return ran


@pytest.mark.slow
def test_it_passes_with_its_expected_failures(run: Run) -> None:
    done = run("attnsuite", "check", "tiled", *ASKED, "--xfails", "xfails.txt")

    assert done.returncode == 0, done.stdout + done.stderr
    assert " known to fail" in done.stdout.splitlines()[0]
    without = run("attnsuite", "check", "tiled", *ASKED)
    assert without.returncode == 1


@pytest.mark.slow
def test_its_own_tests_pass_with_expected_failures(run: Run) -> None:
    chosen = "float32 and (plain/ or no_keys/) or declarations"

    done = run("pytest", "-q", "-p", "no:cacheprovider", "-k", chosen)

    assert done.returncode == 0, done.stdout
    assert " xfailed" in done.stdout.splitlines()[-1]
    assert " passed" in done.stdout.splitlines()[-1]
    assert "failed" not in done.stdout.splitlines()[-1].replace("xfailed", "")


@pytest.mark.slow
def test_its_readme_works_line_by_line_in_a_fresh_environment(tmp_path: Path) -> None:
    package = tmp_path / "third_party"
    shutil.copytree(EXAMPLE, package)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    (commands,) = re.findall(r"```\n(.*?)```", (package / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    repository = EXAMPLE.parent.parent
    around = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    around["PATH"] = os.pathsep.join([str(tmp_path / "venv" / "bin"), os.environ["PATH"]])
    around["PIP_CONSTRAINT"] = str(repository / "constraints.txt")  # the CPU build of PyTorch, where it is on offer

    printed = [
        subprocess.run(
            line.replace("/path/to/attnsuite", str(repository)),
            shell=True,
            cwd=package,
            env=around,
            capture_output=True,
            text=True,
            check=True,
            timeout=1200,
        ).stdout
        for line in commands.splitlines()
    ]

    assert len(printed) == 4
    assert " passed" in printed[2].splitlines()[-1]
    assert printed[3].startswith("attention/tiled")
