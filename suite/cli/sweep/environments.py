"""Environments for other versions of libraries: what a sweep file names is installed, the rest is shared."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import site
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from attnsuite.model import UsageError
from attnsuite.results.store import replace_file

BUILT = "built.json"
"""What stands in an environment that is whole: what was installed, by which interpreter, beside which packages."""
SHARED = "shared.pth"
"""Where Python reads that the packages of this environment follow those that were installed there."""
ALONE = ("PIP_CONSTRAINT", "PYTHONHOME", "PYTHONPATH")
"""Variables that would pin what a sweep varies, or hide it."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment: its own packages first, then those of the environment in which the sweep is started."""

    name: str
    folder: Path
    requirements: tuple[str, ...]

    @property
    def python(self) -> Path:
        return self.folder.absolute() / "bin" / "python"

    @property
    def commands(self) -> list[list[str]]:
        """What builds it."""
        make = [sys.executable, "-m", "venv", *(["--without-pip"] if has_pip() else []), str(self.folder.absolute())]
        pip = (
            [sys.executable, "-m", "pip", "--python", str(self.python)]
            if has_pip()
            else [str(self.python), "-m", "pip"]
        )
        options = ["--quiet", "--disable-pip-version-check", "--no-input"]
        return [make, *([[*pip, "install", *options, *self.requirements]] if self.requirements else [])]

    @property
    def is_built(self) -> bool:
        """Whether it is there as it would be built now."""
        try:
            return bool(json.loads((self.folder / BUILT).read_text(encoding="utf-8")) == self._due)
        except (OSError, ValueError):
            return False

    @property
    def _due(self) -> dict[str, object]:
        return {"requirements": list(self.requirements), "python": sys.version, "shared": shared()}

    def build(self) -> None:
        """Build it anew. UsageError, with pip's last line, where that fails; what is there then is not used."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        make, *install = self.commands
        self._run(make)
        self._share()
        for words in install:
            self._run(words)
        replace_file(self.folder / BUILT, json.dumps(self._due, indent=1) + "\n")

    def _share(self) -> None:
        """Have it find the packages of this environment, and what these add to the path themselves, after its own."""
        (packages,) = self.folder.glob("lib/python*/site-packages")
        lines = [f"import site; site.addsitedir({folder!r})\n" for folder in shared()]
        (packages / SHARED).write_text("".join(lines), encoding="utf-8")

    def _run(self, words: Sequence[str]) -> None:
        around = {name: value for name, value in os.environ.items() if name not in ALONE}
        done = subprocess.run(words, env=around, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip() and "notice" not in line]
            errors = [line for line in said if "ERROR" in line.upper()] or said
            why = errors[-1].strip() if errors else f"exit status {done.returncode}"
            raise UsageError(f"the environment {self.name} cannot be built: {why:.400} ({shlex.join(words)})")


def has_pip() -> bool:
    """Whether this interpreter can install into others; else each gets a pip of its own, which takes seconds."""
    return PathFinder.find_spec("pip") is not None  # setuptools warns whoever asks importlib for pip


def shared() -> list[str]:
    """The folders of packages that this interpreter reads; what their .pth files name comes with them."""
    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return [folder for folder in dict.fromkeys(folders) if folder in sys.path]
