"""Builds a release in dist/ and checks it: `tox -e release`, with the tag as an argument in the release workflow."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

HOME = Path(__file__).parent.parent
DIST = HOME / "dist"
CHECK = ("check", "attention/matmul", "--case", "plain", "--dtype", "float32")
"""The command that an installed wheel has to carry out: eight tests, some seconds."""


def run(*words: str | Path) -> str:
    """Run a command, print it, and return its standard output; end the script with its status if it fails."""
    print("$", *words, flush=True)
    done = subprocess.run(words, cwd=DIST, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(done.stdout)
        sys.exit(done.returncode)
    return done.stdout


def build(tag: str, version: str) -> list[Path]:
    """Write the notes, the wheel and the source archive of a version, and return the last two."""
    for old in (*DIST.glob("attnsuite-*"), *DIST.glob("notes.md")):
        old.unlink()
    DIST.mkdir(exist_ok=True)
    (DIST / "notes.md").write_text(run(sys.executable, HOME / ".github" / "release_notes.py", tag), encoding="utf-8")
    run(sys.executable, "-m", "build", "--outdir", DIST, HOME)
    files = [DIST / f"attnsuite-{version}-py3-none-any.whl", DIST / f"attnsuite-{version}.tar.gz"]
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    return files


def try_out(wheel: Path, version: str) -> None:
    """Install a wheel in a fresh environment, compare its version, and run a check."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder, "bin", "python")
        run(python, "-m", "pip", "install", "--quiet", "--no-compile", wheel)
        printed = run(Path(folder, "bin", "attnsuite"), "--version").strip()
        if printed != f"attnsuite {version}":
            sys.exit(f"attnsuite --version prints {printed!r}; {version} is expected")
        print(run(Path(folder, "bin", "attnsuite"), *CHECK))


if __name__ == "__main__":
    VERSION = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    WHEEL, ARCHIVE = build(sys.argv[1] if sys.argv[1:] else f"v{VERSION}", VERSION)
    try_out(WHEEL, VERSION)
    print(f"{WHEEL}\n{ARCHIVE}\n{DIST / 'notes.md'}")
