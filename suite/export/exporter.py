"""The implementation that writes the graph of a target."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from attnsuite import registry
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry import Declaration, Loaded


@dataclass(frozen=True)
class Exporter:
    """An implementation, and how it is exported."""

    declaration: Declaration
    exports: Any
    """The attribute `exports` of the factory, described in implementations/_export.py."""

    @property
    def name(self) -> str:
        return self.declaration.full_name


def find_exporter(target: str) -> Exporter:
    """The implementation of a target, or for a contract the one of the newest opset.

    Raises UsageError if there is none, it cannot be exported, or a library that it needs is missing.
    """
    several = target in contract_names()
    declarations = registry.find([f"{target}/*" if several else target])
    exporters = _exporters(declarations)
    if several or len(declarations) > 1:
        exporters = sorted(
            (candidate for candidate in exporters if not candidate.exports.quantised),
            key=lambda candidate: -candidate.exports.opset,
        )
    if not exporters:
        contract = declarations[0].contract
        others = [candidate.name for candidate in _exporters(registry.find([f"{contract}/*"]))]
        hint = f"these do: {', '.join(others)}" if others else f"nothing of {contract} does; models do, as transformer"
        raise UsageError(f"{target} writes no graph; {hint}")
    return exporters[0]


def _exporters(declarations: Iterable[Declaration]) -> list[Exporter]:
    """Those of models that have graphs. Raises UsageError if a library is missing that makes them."""
    exporters = []
    for declaration in declarations:
        is_model = declaration.contract in contract_names() and contract_named(declaration.contract).is_model
        if (
            declaration.backend is not None
            or not is_model
            or ("onnx" not in declaration.requires and declaration.module)
        ):
            continue  # not worth importing
        loaded = registry.load(declaration)
        if not isinstance(loaded, Loaded):
            hint = "; the extra has it: pip install attnsuite[onnx]" if "onnx" in declaration.requires else ""
            raise UsageError(f"{declaration.full_name} cannot be exported: {loaded}{hint}")
        if exports := getattr(loaded.function, "exports", None):
            exporters.append(Exporter(declaration, exports))
    return exporters
