"""What tests of the registry share: a small submission, and what a target means or is refused for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.model import UsageError
from attnsuite.registry import Broken, Declaration, Loaded, Missing, find, load

Write = Callable[[str, str], Path]

SUBMISSIONS = Path(__file__).parent / "submissions"
PLAIN = (SUBMISSIONS / "plain.py").read_text(encoding="utf-8")


def names(declarations: list[Declaration]) -> list[str]:
    return [declaration.full_name for declaration in declarations]


def complaint(*targets: str, contract: str | None = None) -> str:
    with pytest.raises(UsageError) as caught:
        _ = [load(declaration) for declaration in find(targets, contract)]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def loaded(file: Path) -> Loaded | Missing | Broken:
    (declaration,) = find([str(file)])
    return load(declaration)
