"""numpy and torch, imported when they are first used: the words of the contract are read without them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["np", "torch"]

if TYPE_CHECKING:
    import numpy as np
    import torch
else:

    class Lazy:
        """A module that is imported when an attribute of it is first read."""

        def __init__(self, name: str) -> None:
            self.__name__ = name

        def __getattr__(self, attribute: str) -> Any:
            return getattr(import_module(self.__name__), attribute)

    np, torch = Lazy("numpy"), Lazy("torch")
