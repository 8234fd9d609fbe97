"""Rows of bad input that models share: a weight, an input, or the options of greedy decoding."""

from __future__ import annotations

from typing import Any

import numpy as np

from attnsuite.cases.bad_input import Row
from attnsuite.cases.model import instead, token_among
from attnsuite.contracts.models.translations import GREEDY


def bad_weight(what: str, why: str, name: str, tensor: Any) -> Row:
    """A tensor that replaces a weight, or is added to the weights."""
    return what, why, {"bad_weights": instead(name, tensor)}


def bad_tensor(what: str, why: str, name: str, array: Any) -> Row:
    """An array that replaces an input."""
    return what, why, {"inputs": {name: np.asarray(array)}}


def bad_greedy(what: str, why: str, **changed: int) -> Row:
    """Options of greedy decoding."""
    return what, why, {"bad_factory_options": {"greedy": {**GREEDY, **changed}}}


def bad_sentences() -> list[Row]:
    """Tokens and lengths that no translator of 11 and 13 tokens takes, for 3 sources of 7 tokens and targets of 5."""
    return [
        bad_tensor("source_token", "the token 11 in a vocabulary of 11", "source", token_among(7, 11)),
        bad_tensor("negative_token", "the token −1", "source", token_among(7, -1)),
        bad_tensor("target_token", "the token 13 in a vocabulary of 13", "target", token_among(5, 13)),
        bad_tensor("negative_target", "the token −1 in a target", "target", token_among(5, -1)),
        bad_tensor("length_zero", "a length of 0", "lengths", [7, 0, 1]),
        bad_tensor("length_beyond", "a length of 8 in a source of 7", "lengths", [7, 8, 1]),
        bad_tensor("lengths", "2 lengths for 3 sources", "lengths", [7, 4]),
        bad_tensor("one_length", "1 length for 3 sources", "lengths", [7]),
    ]
