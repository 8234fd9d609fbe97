"""Environments hold what was named and share the rest; which version gets what wrong is told by their answers."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from killed import HOME

from attnsuite import machine
from attnsuite.cli.sweep.environments import Environment

Write = Callable[[str, str], Path]
STAND_IN = "xformers"
"""A library whose version every run notes, which is not installed where these tests run: its wheels are made here."""
KERNEL = """
    import xformers

    def attention(query, key, value):
        scale = xformers.SCALE * query.shape[-1] ** -0.5
        return (scale * query @ key.mT).softmax(-1) @ value
    """


def wheel(folder: Path, version: str, scale: float) -> Path:
    """A wheel of the stand-in, which needs no building: a module, and what a wheel says of itself."""
    info = f"{STAND_IN}-{version}.dist-info"
    files = {
        f"{STAND_IN}.py": f"SCALE = {scale}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {STAND_IN}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    path = folder / f"{STAND_IN}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def asked(of: Environment, program: str) -> str:
    return subprocess.run([of.python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_an_environment_has_its_own_versions_and_shares_the_rest(tmp_path: Path) -> None:
    of = Environment("old", tmp_path / "old", (str(wheel(tmp_path, "0.1", 2.0)),))

    of.build()

    assert of.is_built
    versions = asked(of, "import json, attnsuite.machine as m; print(sorted(m.versions().items()))")
    assert versions == str(sorted((machine.versions() | {STAND_IN: "0.1"}).items()))
    assert asked(of, f"import {STAND_IN}; print({STAND_IN}.SCALE)") == "2.0"
    assert not Environment("old", of.folder, ("another",)).is_built, "what is named otherwise is built anew"
    (of.folder / "built.json").write_text("{")
    assert not of.is_built, "what was stopped while it was built is built anew"


@pytest.mark.slow
def test_a_sweep_says_which_version_gets_what_wrong(
    write: Write, status_of: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    pytest.importorskip("submitit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(HOME))
    write("mine.py", KERNEL)
    wheels = {
        name: wheel(tmp_path, version, scale) for name, version, scale in (("old", "0.1", 2.0), ("new", "0.2", 1.0))
    }
    write(
        "sweep.toml",
        f"""
        [check]
        targets = ["mine.py"]
        cases = ["plain/self_attention"]
        dtypes = ["float32"]
        [versions]
        old = "{wheels["old"]}"
        new = "{wheels["new"]}"
        lost = "{tmp_path / "nothing-1-py3-none-any.whl"}"
        """,
    )

    status = status_of("sweep", "sweep.toml")
    said = capfd.readouterr()

    assert "ERROR: Could not install packages" in said.err, "the others go on"
    page = (tmp_path / "results" / "versions.md").read_text()
    assert status == 1, "one version fails, and one environment could not be built"
    assert "1 questions in 3 environments: 1 depend on the environment" in said.out
    assert "old: xformers 0.1; 1 outcomes, 1 failures" in said.out
    assert "lost: 0 outcomes, 0 failures; the environment lost cannot be built" in said.out
    assert "| `attention/mine` | `plain/self_attention` | float32 | **wrong** | passed |" in page
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "new",
        "old",
        "versions.csv",
        "versions.md",
    ]
    rows = (tmp_path / "results" / "versions.csv").read_text().splitlines()
    assert rows[1].startswith("old,attention/mine,plain/self_attention,float32,cpu,wrong,")
