"""Examples in docstrings print what they show."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import attnsuite

SUITE = Path(attnsuite.__file__).parent
FILES = [file for file in SUITE.rglob("*.py") if ">>> " in file.read_text(encoding="utf-8")]
MODULES = [".".join(("attnsuite", *file.relative_to(SUITE).with_suffix("").parts)) for file in FILES]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_print_what_they_show(module: str) -> None:
    result = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)

    assert result.attempted > 0
    assert result.failed == 0


def test_the_functions_that_users_call_have_examples() -> None:
    assert {"attnsuite.cli.check", "attnsuite.registry.declaration", "attnsuite.results.recorded"} <= {*MODULES}
