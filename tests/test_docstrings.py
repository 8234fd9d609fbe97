"""Public functions and methods have docstrings; examples in docstrings print what they show."""

import ast
import doctest
import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import attnsuite

SUITE = Path(attnsuite.__file__).parent
SOURCES = {
    ".".join(("attnsuite", *file.relative_to(SUITE).with_suffix("").parts)).removesuffix(".__init__"): file
    for file in sorted(SUITE.rglob("*.py"))
    if "implementations" not in file.relative_to(SUITE).parts and file.stem != "__main__"
}
WITH_EXAMPLES = [name for name, file in SOURCES.items() if ">>> " in file.read_text(encoding="utf-8")]


@pytest.mark.parametrize("module", WITH_EXAMPLES)
def test_examples_in_docstrings_print_what_they_show(module: str) -> None:
    result = doctest.testmod(import_module(module), optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)

    assert result.attempted > 0
    assert result.failed == 0


def test_the_functions_that_users_call_have_examples() -> None:
    assert {"attnsuite.cli.check", "attnsuite.registry.declaration", "attnsuite.results.recorded"} <= {*WITH_EXAMPLES}


def undocumented(name: str, file: Path) -> Iterator[str]:
    """Yield the public functions and methods of a module without a docstring of their own or of a base class."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            if not ast.get_docstring(node) and not any("overload" in ast.unparse(mark) for mark in node.decorator_list):
                yield f"{name}.{node.name}"
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef) and part.name[0] != "_"]
            for method in methods:
                if not ast.get_docstring(method) and not inherited(name, node.name, method.name):
                    yield f"{name}.{node.name}.{method.name}"


def inherited(module: str, owner: str, method: str) -> bool:
    """Whether a base class documents a method."""
    bases = getattr(import_module(module), owner).__mro__[1:]
    return any(inspect.getdoc(base.__dict__.get(method)) for base in bases if method in base.__dict__)


def test_public_functions_and_methods_have_docstrings() -> None:
    """Steps and cases of contracts are data: their names and the contract's docstring say what they compute."""
    modules = {name: file for name, file in SOURCES.items() if not name.startswith("attnsuite.contracts.")}

    assert [method for name, file in modules.items() for method in undocumented(name, file)] == []
