"""The submissions of the folder `submitted`, and what must become of each, as `verdicts.toml` there says."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Sequence
from pathlib import Path

from attnsuite.model import MUST, Cheat

FOLDER = Path(__file__).parent / "submitted"
CONTROL = "control"
"""The class of those that are honest, or plainly wrong."""
HONEST = "honest"
"""The control beside which all others are timed."""


def catalogue() -> Sequence[Cheat]:
    """All of them, in the order of verdicts.toml. Raises ValueError where a file and its verdict are not a pair."""
    declared = tomllib.loads((FOLDER / "verdicts.toml").read_text(encoding="utf-8"))
    files = {file.stem for file in FOLDER.glob("*.py")}
    if odd := files ^ set(declared):
        raise ValueError(f"a file without a verdict, or a verdict without a file: {', '.join(sorted(odd))}")
    found = [Cheat(name, of["class"], _says(name), of["check"], of["bench"]) for name, of in declared.items()]
    if unknown := {word for each in found for word in (each.check, each.bench)} - set(MUST):
        raise ValueError(f"no verdict is called {', '.join(sorted(unknown))}; there are: {', '.join(MUST)}")
    return found


def _says(name: str) -> str:
    """The first sentence of the file, which is never imported here."""
    said = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8")))
    return (said or "").splitlines()[0]
