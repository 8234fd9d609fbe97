"""The packages of suite/ follow ARCHITECTURE.md: imports point to earlier packages, no circles, budgets of lines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median, quantiles

import pytest

from attnsuite.cases import list_tests
from attnsuite.contracts import contract
from attnsuite.judging.precision import PRECISIONS
from attnsuite.model import DTYPES

HOME = Path(__file__).parent.parent
SUITE = HOME / "suite"
PAGE = (HOME / "ARCHITECTURE.md").read_text(encoding="utf-8")

PACKAGES = (
    *("model", "judging", "cases", "contracts", "registry", "worker", "machine", "results", "conformance", "benchmark"),
    *("report", "documents", "export", "cli"),
)
"""Each package imports from those before it."""
ALONE = {"report": {"model", "results"}}
"""Packages with fewer imports: pages are made from rows, without torch and implementations."""


def modules() -> dict[str, Path]:
    found = {}
    for file in sorted(SUITE.rglob("*.py")):
        parts = ("attnsuite", *file.relative_to(SUITE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@cache
def imports() -> dict[str, frozenset[str]]:
    """The modules of suite/ that each module imports, except imports for types alone."""
    known = modules()
    return {
        name: frozenset(_imported(ast.parse(file.read_text(encoding="utf-8")), known)) for name, file in known.items()
    }


def _imported(tree: ast.AST, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield from {whole if whole in known else node.module} & set(known)
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & set(known)
        else:
            yield from _imported(node, known)


def import_cycles() -> set[frozenset[str]]:
    """Sets of modules that import each other, directly or through others."""
    reached: dict[str, set[str]] = {}
    for name in imports():
        found, waiting = set[str](), list(imports()[name] - {name})
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting += imports()[module]
        reached[name] = found
    return {frozenset(other for other in found if name in reached[other]) for name, found in reached.items()} - {
        frozenset()
    }


def test_no_modules_import_each_other() -> None:
    assert import_cycles() == set()


def arrows() -> dict[tuple[str, str], str]:
    """Pairs of packages with an import from the first to the second, and an example of each."""
    return {
        (name.split(".")[1], to.split(".")[1]): f"{name} imports {to}"
        for name, imported in imports().items()
        for to in imported
        if name.count(".") and to.count(".") and name.split(".")[1] != to.split(".")[1]
    }


def test_packages_import_from_those_before_them_alone() -> None:
    earlier = {package: ALONE.get(package, {*PACKAGES[:place]}) for place, package in enumerate(PACKAGES)}
    upwards = {example for (package, to), example in arrows().items() if to not in earlier.get(package, {to})}

    assert upwards == set()


BUDGETS = {
    "model": 1960,
    "judging": 1060,
    "cases": 3820,
    "contracts": 22320,
    "registry": 5540,
    "worker": 3620,
    "machine": 650,
    "results": 1840,
    "conformance": 3700,
    "benchmark": 4790,
    "report": 3060,
    "documents": 3640,
    "export": 530,
    "cli": 3600,
}
"""The largest number of lines of Python per package. A commit that raises one gives the reason."""


def test_each_package_keeps_its_budget_of_lines() -> None:
    lines = dict.fromkeys(PACKAGES, 0)
    for name, file in modules().items():
        if (package := name.split(".")[1:2]) and package[0] in lines:
            lines[package[0]] += file.read_text(encoding="utf-8").count("\n")

    assert {package: count for package, count in lines.items() if count > BUDGETS[package]} == {}


def test_packages_have_at_most_seventy_arrows() -> None:
    assert len([between for between in arrows() if {*between} <= {*PACKAGES}]) <= 70


def functions() -> list[tuple[int, str]]:
    """The length of every function in lines, without decorators, and its name."""
    found = []
    for name, file in modules().items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((node.end_lineno - node.lineno + 1, f"{name}.{node.name}"))  # type: ignore[operator]
    return found


def test_functions_are_short() -> None:
    lengths = [length for length, _ in functions()]

    assert median(lengths) <= 5
    assert quantiles(lengths, n=10)[-1] <= 16
    assert [name for length, name in functions() if length > 50] == []


def test_the_page_names_every_package_in_the_order_of_imports() -> None:
    table = PAGE.split("| package | what it is for |")[1].split("\n\n")[0]
    named = re.findall(r"\(suite/(\w+)(?:/|\.py)\)", table)
    folders = {file.name for file in SUITE.iterdir() if (file / "__init__.py").exists() and not file.is_symlink()}

    assert tuple(named) == (*PACKAGES, "pytest_plugin", "__main__")
    assert folders == {*PACKAGES}


def test_facts_of_dtypes_are_in_one_table() -> None:
    tables = [
        name
        for name, file in modules().items()
        if not name.startswith("attnsuite.contracts.")
        and re.search(r'"bfloat16"\s*: (?!NO_)', file.read_text(encoding="utf-8"))
    ]

    assert tables == ["attnsuite.judging.precision"]
    assert PRECISIONS.keys() == set(DTYPES)


def test_the_time_limit_is_written_once() -> None:
    files = [name for name, file in modules().items() if re.search(r"limit\w*(: \w+)? = 60\b", file.read_text(), re.I)]

    assert files == ["attnsuite.model.limits"]


@pytest.mark.parametrize("argument", ["is_causal", "enable_gqa", "dropout_p", "window"])
def test_an_argument_of_attention_is_declared_in_the_file_of_its_feature(argument: str) -> None:
    declared = re.compile(rf'Argument\(\s*"{argument}"')
    files = [name for name, file in modules().items() if declared.search(file.read_text(encoding="utf-8"))]

    assert len(files) == 1
    assert files[0].startswith("attnsuite.contracts.attention.features.")


def test_the_confidence_level_is_written_once() -> None:
    literal = re.compile(r"^(?!\s*(#|\"\"\")).*\b(0\.99|99 %)", re.MULTILINE)
    packages = ("model", "benchmark", "report", "cli")
    files = [
        name
        for name, file in modules().items()
        if name.split(".")[1:2] and name.split(".")[1] in packages and literal.search(file.read_text(encoding="utf-8"))
    ]

    assert files == ["attnsuite.model.statistics"]


@pytest.mark.parametrize("name", ["attention", "add_norm", "transformer"])
def test_a_case_is_forbidden_on_a_device_where_it_is_declared(name: str) -> None:
    case = contract(name).cases()[0].on("cpu")

    assert list_tests([case], "cuda") == []
    assert {dtype for _, dtype in list_tests([case], "cpu")} == set(case.dtypes)
