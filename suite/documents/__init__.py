"""The numeric examples of the five source documents, as data: `examples.json`, one example a line."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("examples.json")


@cache
def examples() -> dict[str, dict[str, Any]]:
    """Every example by its id, such as `doc-003/3.3.1-context-query-2`.

    Each has system, document, section, contract, kind, inputs, parameters, expected, printed_decimals, source, note and
    derived. A value in `expected` whose key has a number in `printed_decimals` was printed with that many decimals;
    without one it was derived with high precision. "-inf" stands for −∞.
    """
    loaded = json.loads(FILE.read_text(encoding="utf-8"))
    return {example["id"]: example for example in loaded["examples"]}
