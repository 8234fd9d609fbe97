"""What kinds of implementation promise: a folder per contract, always the same rooms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite.model import UsageError

if TYPE_CHECKING:
    from attnsuite.cases import Contract


@cache
def _packages() -> dict[str, str]:
    """The package of each contract by its name: the folders below this one that hold a contract.py."""
    home = Path(__file__).parent
    folders = sorted((file.parent for file in home.rglob("contract.py")), key=lambda folder: folder.name)
    return {folder.name: ".".join((__name__, *folder.relative_to(home).parts)) for folder in folders}


def names() -> list[str]:
    """The contracts that exist, in alphabetical order."""
    return list(_packages())


def rooms_of_workloads(names: Iterable[str]) -> list[str]:
    """The modules that are imported for the workloads of these contracts, without those that there are not."""
    packages = [_packages()[name] for name in names if name in _packages()]
    rooms = [f"{package}.{room}" for package in packages for room in ("contract", "workloads")]
    return [room for room in rooms if _is_there(room.removeprefix(f"{__name__}.").split("."))]


def _is_there(parts: Sequence[str]) -> bool:
    place = Path(__file__).parent.joinpath(*parts)
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def contract(name: str) -> Contract:
    """The contract of that name. UsageError says which exist."""
    if name not in _packages():
        raise UsageError(f"unknown contract {name!r}; there are: {', '.join(names())}")
    found: Contract = import_module(f"{_packages()[name]}.contract").CONTRACT
    return found
