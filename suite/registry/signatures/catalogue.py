"""The signatures that there are: one for each file in `adapters/`."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from attnsuite.model import UsageError
from attnsuite.registry.signatures.signature import ADAPTERS, Signature

OWN = "sdpa"
"""The contract's own signature, in which nothing is adapted."""
SIGNATURES_OF = "attention"
"""The contract whose functions have signatures of other libraries."""
FIRST = ("sdpa", "flash_attn", "xformers", "jax", "flashinfer", "triton", "mlx", "numpy")
"""The order in which they are named; those that are not in it come last."""


@cache
def names() -> tuple[str, ...]:
    """The names of all signatures."""
    found = sorted(file.stem for file in ADAPTERS.glob("[!_]*.py"))
    return tuple(sorted(found, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)))


@cache
def signature(name: str) -> Signature:
    """The signature of that name. Raises UsageError where there is none."""
    if name not in names():
        raise UsageError(f"unknown signature {name!r}; there are: {', '.join(names())}")
    found: Signature = import_module(f"{__package__}.adapters.{name}").SIGNATURE
    return found
