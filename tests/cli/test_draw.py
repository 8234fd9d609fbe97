"""`attnsuite draw` as a user types it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]


def drawing_is_possible():
    """Skip the test where the libraries that draw are absent."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


def run(*arguments, cwd, path=()):
    """The command in a process of its own, with folders put first where Python looks for modules."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, HOME)))}
    command = [sys.executable, "-m", "attnsuite", "draw", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


@pytest.mark.slow
def test_figures_are_drawn_by_name_or_pattern_and_their_files_are_printed(tmp_path):
    drawing_is_possible()

    done = run("masked_softmax", "position_c*", "--to", "there", cwd=tmp_path)

    files = [f"there/{name}.{kind}" for name in ("masked_softmax", "position_curves") for kind in ("svg", "png")]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == files
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_extra_one_line_says_what_to_install(module, tmp_path):
    drawing_is_possible()
    (tmp_path / f"{module}.py").write_text("raise ModuleNotFoundError('there is none here')")

    done = run("identity", cwd=tmp_path, path=[tmp_path])

    package = {"altair": "altair", "vl_convert": "vl-convert-python"}[module]
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f'attnsuite: drawing needs {package}: python -m pip install "attnsuite[charts]"\n'
    assert not (tmp_path / "figures").exists()
