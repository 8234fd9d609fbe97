"""The implementation that exports the graph of a target."""

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
    """An implementation with its export."""

    declaration: Declaration
    exports: Any
    """The factory's attribute `exports`; implementations/_export.py describes it."""

    @property
    def name(self) -> str:
        """The full name of the implementation."""
        return self.declaration.full_name


def find_exporter(target: str) -> Exporter:
    """The exporter of a target; for a contract, the exporter with the newest opset.

    Raises UsageError for a target without an exporter, and for a missing library.
    """
    declarations = registry.find([f"{target}/*" if target in contract_names() else target])
    exporters = _exporters(declarations)
    if not exporters:
        contract = declarations[0].contract
        others = [candidate.name for candidate in _exporters(registry.find([f"{contract}/*"]))]
        hint = f"expected one of: {', '.join(others)}" if others else "only models can, for example transformer"
        raise UsageError(f"{target} cannot be exported; {hint}")
    return min(exporters, key=lambda candidate: (candidate.exports.quantised, -candidate.exports.opset))


def _exporters(declarations: Iterable[Declaration]) -> list[Exporter]:
    """The exporters among implementations of models. Raises UsageError for a missing library."""
    exporters = []
    for declaration in declarations:
        is_model = declaration.contract in contract_names() and contract_named(declaration.contract).is_model
        may_export = is_model and ("onnx" in declaration.requires or not declaration.module)
        if declaration.backend is not None or not may_export:
            continue  # not worth importing
        loaded = registry.load(declaration)
        if not isinstance(loaded, Loaded):
            hint = "; the extra has it: pip install attnsuite[onnx]" if "onnx" in declaration.requires else ""
            raise UsageError(f"{declaration.full_name} cannot be exported: {loaded}{hint}")
        if exports := getattr(loaded.function, "exports", None):
            exporters.append(Exporter(declaration, exports))
    return exporters
