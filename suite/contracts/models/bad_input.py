"""Rows of bad input that models share: a weight, an input, or the options of greedy decoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnsuite.cases.bad_input import Row
from attnsuite.cases.model import instead
from attnsuite.contracts.models.translations import GREEDY


def bad_weight(what: str, why: str, name: str, tensor: Any) -> Row:
    """A tensor that replaces a weight, or is added to the weights."""
    return what, why, {"bad_weights": instead(name, tensor)}


def bad_tensor(what: str, why: str, name: str, array: Any) -> Row:
    """An array that replaces an input."""
    return what, why, {"inputs": {name: np.asarray(array)}}


def bad_greedy(what: str, why: str, **changed: int) -> Row:
    """Options of greedy decoding."""
    return what, why, {"bad_making": {"greedy": {**GREEDY, **changed}}}
