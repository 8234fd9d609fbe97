"""Which implementation writes the graph that a target names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from attnsuite import registry
from attnsuite.contracts import contract as contract_named
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry import Declaration, Loaded


class Exports(Protocol):
    """What a factory that can be exported has as its attribute `exports`."""

    usual: Mapping[str, Any]
    """The config of who names none."""
    parts: Mapping[str, str]
    """The graphs that there are, and each in words; the first is what is meant by default."""
    opset: int
    quantised: bool
    """Whether it promises no limit of its errors."""

    def check(self, config: Mapping[str, Any]) -> None:
        """Raise ValueError for a config that no model can be made of."""

    def shapes(self, config: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
        """The weights that are due, by name."""

    def graph(self, config: Mapping[str, Any], dtype: Any, opset: int, part: str) -> Any:
        """A part as a graph, in `model`, whose weights are inputs."""

    def write(self, model: Any, weights: Mapping[str, Any], file: Path, above: int) -> None:
        """Write a graph with its weights; those of more than `above` bytes into `FILE.data` beside it."""

    def open(self, file: Path, device: str) -> Any:
        """A session, called with tensors by name. NotImplementedError where there is no provider for the device."""

    def answering(
        self, config: Mapping[str, Any], weights: Mapping[str, Any], runs: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """The model that answers by running these parts; a part that it lacks is computed by PyTorch."""


@dataclass(frozen=True)
class Exporter:
    """An implementation, and how it is exported."""

    declaration: Declaration
    exports: Exports


def exporter(target: str) -> Exporter:
    """The one implementation that a target names, or of a contract the one of the newest opset.

    UsageError if there is none, it cannot be exported, or a library that it needs is missing.
    """
    several = target in contract_names()
    named = registry.find([f"{target}/*" if several else target])
    found = [each for each in map(_exporter, filter(_may_export, named)) if each]
    if several or len(named) > 1:
        found = sorted((each for each in found if not each.exports.quantised), key=lambda each: -each.exports.opset)
    if not found:
        contract = named[0].contract
        there = [each.full_name for each in registry.find([f"{contract}/*"]) if _may_export(each) and _exporter(each)]
        known = f"these do: {', '.join(there)}" if there else f"nothing of {contract} does; models do, as transformer"
        raise UsageError(f"{target} writes no graph; {known}")
    return found[0]


def _may_export(declaration: Declaration) -> bool:
    """Whether it is worth importing: models alone can be exported."""
    return declaration.plug is None and declaration.contract in contract_names() and _is_model(declaration)


def _is_model(declaration: Declaration) -> bool:
    return contract_named(declaration.contract).is_model


def _exporter(declaration: Declaration) -> Exporter | None:
    """None if it has no graphs. UsageError if a library is missing that makes them."""
    if "onnx" not in declaration.requires and declaration.module:
        return None
    loaded = registry.load(declaration)
    if not isinstance(loaded, Loaded):
        hint = "; the extra has it: pip install attnsuite[onnx]" if "onnx" in declaration.requires else ""
        raise UsageError(f"{declaration.full_name} cannot be exported: {loaded}{hint}")
    exports = getattr(loaded.function, "exports", None)
    return exports and Exporter(declaration, exports)
