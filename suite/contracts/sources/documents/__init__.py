"""The numeric examples of the five source documents, as data: `examples.json`, one example a line.

- doc-000: Scaled_dot_product_attention, a course's week 13 (Korean)
- doc-001: formula-to-code flow of ScaledDotProductAttention and MultiHeadAttention (Korean)
- doc-002: Attention A-Z (Korean)
- doc-003: Lec 27, implementing attention, SWCON425, a notebook after Raschka, Build a Large Language Model, chapter 3
- doc-004: Dive into Deep Learning 1.0.0-beta0, chapter 11 and section 9.7, an annotated copy

A mutant whose source is E1, E2 and so on is an erratum in a document. `nadaraya_watson.json` has the data of doc-004,
section 11.2. `conformance/coverage.py` lists the cases of each example, or the reason for having no case.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite.model import Figures, Source

if TYPE_CHECKING:
    from attnsuite.cases.tensors import Inputs

FILE = Path(__file__).with_name("examples.json")
LEFT_OUT = Path(__file__).with_name("left_out.toml")


@dataclass(frozen=True)
class Excerpt:
    """One example of a document. "-inf" stands for −∞ in its numbers.

    A quantity in `expected` that has a number in `printed_decimals` was printed with that many decimals; one without
    was derived from the definition in high precision, as all in `derived` were.
    """

    id: str
    """Such as `doc-003/3.3.1-context-query-2`."""
    system: str
    document: str
    section: str
    contract: str
    """The contract of the example; others may have cases of it, too."""
    kind: str
    """values, shape, table or property."""
    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]
    expected: Mapping[str, Any]
    printed_decimals: Mapping[str, int | None]
    source: str
    """printed or derived."""
    given: str
    """What the document itself gives: digits, shapes or statements, or a definition: then it is derived."""
    note: str
    derived: Mapping[str, Any]

    @property
    def quantities(self) -> Mapping[str, Any]:
        """All quantities by name, expected and derived ones."""
        return {**self.derived, **self.expected}

    def at(self, quantity: str = "output_shape") -> Source:
        """The source of a quantity."""
        given = "derived" if quantity in self.derived.keys() - self.expected.keys() else self.given
        return Source(self.id, self.document, self.section, quantity, given)

    def gives(self, quantity: str, values: Any = None) -> Figures:
        """A quantity in the document's numbers, or in `values` that are computed from them."""
        numbers = self.quantities[quantity] if values is None else values
        return Figures(self.at(quantity), numbers, self.printed_decimals.get(quantity))

    def named(self, quantity: str = "", remark: str = "", name: str = "") -> tuple[str, str]:
        """The name and the reason of a case of a quantity, or of the shape.

        `name` distinguishes several cases of one quantity; `remark` is added to the reason.
        """
        called = "/".join(filter(None, ("documents", self.id, name or quantity)))
        return called, f"{self.document}, section {self.section}: {quantity or 'shape'}{remark}"

    def numbers(self, names: Iterable[str]) -> Inputs:
        """The inputs of these names as float64 arrays."""
        from attnsuite.cases.tensors import numbers  # imports torch

        return {name: numbers(self.inputs[name]) for name in names}

    @property
    def output_shape(self) -> tuple[int, ...]:
        """The shape in the document."""
        return tuple(self.expected["output_shape"])


@cache
def examples() -> dict[str, Excerpt]:
    """Every example by its id."""
    loaded = json.loads(FILE.read_text(encoding="utf-8"))
    return {example["id"]: Excerpt(**example) for example in loaded["examples"]}


def examples_of(*contracts: str, kind: str = "") -> Iterator[Excerpt]:
    """The examples of these contracts in order, all or of one kind."""
    for contract in contracts:
        for example in examples().values():
            if example.contract == contract and kind in ("", example.kind):
                yield example


QUANTITIES, OUT_OF_SCOPE = "quantities", "out of scope"
"""The tables of left_out.toml that hold no examples."""


def left_out() -> dict[str, dict[str, str]]:
    """Examples without cases: the reason by example, below headings that several reasons share."""
    return {name: table for name, table in _reasons().items() if name not in (QUANTITIES, OUT_OF_SCOPE)}


def quantities_left_out() -> dict[str, str]:
    """Quantities that no case compares: the reason by a shell pattern of `example/quantity`."""
    return _reasons()[QUANTITIES]


def out_of_scope() -> dict[str, str]:
    """Parts of the documents that the suite leaves out, with the reason."""
    return _reasons()[OUT_OF_SCOPE]


@cache
def _reasons() -> dict[str, dict[str, str]]:
    return tomllib.loads(LEFT_OUT.read_text(encoding="utf-8"))
