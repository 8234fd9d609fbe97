"""What kinds of implementation promise: a folder per contract, always the same rooms."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from suite.contracts.base import Contract
from suite.records import UsageError


def names() -> list[str]:
    """The contracts that exist: the folders beside this file."""
    return sorted(folder.parent.name for folder in Path(__file__).parent.glob("*/contract.py"))


def contract(name: str) -> Contract:
    """The contract of that name. UsageError says which exist."""
    if name not in names():
        raise UsageError(f"unknown contract {name!r}; there are: {', '.join(names())}")
    found: Contract = import_module(f"suite.contracts.{name}.contract").CONTRACT
    return found
