"""What an implementation promises: a contract is a file in `steps` or `blocks`, or a folder with a `contract.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite.cases.contract import optional_in, signature_in
from attnsuite.model import UsageError

if TYPE_CHECKING:
    from attnsuite.cases import Contract

HOME = Path(__file__).parent
SINGLE = ("steps", "blocks")
"""The folders in which each file is a contract, unless its name begins with `_`."""


@cache
def _files() -> dict[str, Path]:
    """The file that declares each contract, by the contract's name."""
    folders = {file.parent.name: file for file in HOME.rglob("contract.py")}
    single = {file.stem: file for folder in SINGLE for file in (HOME / folder).glob("[!_]*.py")}
    return dict(sorted((folders | single).items()))


def names() -> list[str]:
    """The contracts that exist, in alphabetical order."""
    return list(_files())


def file_of(name: str) -> Path:
    """The file that declares a contract. UsageError says which contracts exist."""
    if name not in _files():
        raise UsageError(f"unknown contract {name!r}; there are: {', '.join(names())}")
    return _files()[name]


def _module(file: Path) -> str:
    return ".".join((__name__, *file.relative_to(HOME).with_suffix("").parts))


def contract(name: str) -> Contract:
    """The contract of this name. UsageError if it does not exist."""
    declared: Contract = import_module(_module(file_of(name))).CONTRACT
    return declared


@cache
def signature_of(name: str) -> str:
    """The signature of a contract. A contract in one file is not imported for this, since it imports PyTorch."""
    if (file := file_of(name)).name == "contract.py":
        return contract(name).signature
    return signature_in(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")


def optional_parameters(name: str) -> frozenset[str]:
    """The parameters with a default."""
    return optional_in(signature_of(name))


def modules_of_workloads(names: Iterable[str]) -> list[str]:
    """The modules that are imported for the workloads of these contracts; unknown contracts have none."""
    files = [_files()[name] for name in names if name in _files()]
    folders = [file.parent for file in files if file.name == "contract.py"]
    modules = [folder / ("workloads.py" if (folder / "workloads.py").exists() else "cases.py") for folder in folders]
    return [_module(file) for file in (*files, *modules)]
