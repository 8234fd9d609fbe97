"""The numeric examples of the five source documents, as data: `examples.json`, one example a line.

- doc-000: Scaled_dot_product_attention, a course's week 13 (Korean)
- doc-001: formula-to-code flow of ScaledDotProductAttention and MultiHeadAttention (Korean)
- doc-002: Attention A-Z (Korean)
- doc-003: Lec 27, implementing attention, SWCON425, a notebook after Raschka, Build a Large Language Model, chapter 3
- doc-004: Dive into Deep Learning 1.0.0-beta0, chapter 11 and section 9.7, an annotated copy

Where a deviation names E1, E2 and so on, that is an erratum found in a document, and the deviation says what it is.
`nadaraya_watson.json` holds the data of doc-004, section 11.2. Which cases ask an example, or why none does, is in
`conformance/coverage.py`.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("examples.json")
LEFT_OUT = Path(__file__).with_name("left_out.toml")


@cache
def examples() -> dict[str, dict[str, Any]]:
    """Every example by its id, such as `doc-003/3.3.1-context-query-2`.

    Each has system, document, section, contract, kind, inputs, parameters, expected, printed_decimals, source, note and
    derived. A value in `expected` whose key has a number in `printed_decimals` was printed with that many decimals;
    without one it was derived with high precision. "-inf" stands for −∞.
    """
    loaded = json.loads(FILE.read_text(encoding="utf-8"))
    return {example["id"]: example for example in loaded["examples"]}


def of(contract: str, kind: str = "") -> dict[str, dict[str, Any]]:
    """The examples of a contract, of one kind (values, shape, table, property) where that is given."""
    return {
        id: example
        for id, example in examples().items()
        if example["contract"] == contract and kind in ("", example["kind"])
    }


def left_out() -> dict[str, dict[str, str]]:
    """Why examples are no cases: reasons by example, under the headings that several reasons share."""
    return tomllib.loads(LEFT_OUT.read_text(encoding="utf-8"))
