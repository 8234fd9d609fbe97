"""A conformance and benchmark suite for attention: the public names, loaded when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.registry import implementation as implementation

__all__ = ["implementation"]

_HOMES = {"implementation": "suite.registry"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'suite' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
