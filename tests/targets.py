"""What tests of the registry share: a small submission, and what a target means or is refused for."""

from collections.abc import Callable
from pathlib import Path

import pytest

from attnsuite.model import UsageError
from attnsuite.registry import Broken, Declaration, Loaded, Missing, find, load

Write = Callable[[str, str], Path]

SUBMISSIONS = Path(__file__).parent / "submissions"
PLAIN = (SUBMISSIONS / "plain.py").read_text(encoding="utf-8")


EACH_ARGUMENT = (
    *("plain", "causal", "scale", "heads", "gradients/plain", "gradients/causal*", "gradients/grouped*"),
    *("window/left_1*", "window/both", "window/more_*", "window/causal*", "window/empty_rows", "window/rank_*"),
    *("window/left_alone", "window/right_alone", "window/grouped", "window/bool_mask", "window/float_mask"),
    *("dropout/kept_*", "dropout/zero*", "bool_mask", "float_mask", "empty_row", "mask_gradient", "layout"),
    *("bad_input/*lengths*", "bad_input/*widths*", "bad_input/groups*", "bad_input/mask*", "bad_input/window*"),
    *("no_keys", "ranks"),
)
"""Cases that meet each argument, each axis and each convention."""


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
