"""Parts of cases that models share: rows of bad input, and sources whose translations have clear tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Calls
from attnsuite.cases.bad_input import Row
from attnsuite.cases.model import NOTHING, Config, Model, ModelCase, Shapes, Weights, instead, token_among
from attnsuite.cases.tensors import Array, Generator, Inputs, generator, seeded

GREEDY = {"begin": 1, "end": 2, "steps": 8}
"""The factory's options in greedy cases."""
CANDIDATES = 96
"""Sources from which a case takes a few: enough with clear tokens in every step, and with the wanted ends."""
ORDER = (3, 8, 1, 5, 2, 4, 6, 0, 7)
"""The steps in which the translations of a case end, in the order in which they are taken; 8 is never."""
VARIED = 3
"""Sources whose translations have at least this many different tokens are preferred."""
GAIN = 2.0
"""The factor of the logits' and the decoder's network weights: larger weights give more varied tokens."""


def drawn_weights(shapes: Shapes, random: Generator) -> Weights:
    """Weights that peak the attention, and make every block matter."""
    weights = {}
    for name, shape in shapes.items():
        size = 1 / math.sqrt(shape[-1] if name.endswith("embedding") else shape[0]) if len(shape) == 2 else 0.3
        size = 1.0 if name in ("positions", "class_token") else size
        size *= 1.5 if name.endswith(("w_query", "w_key")) else 1.0
        weights[name] = size * random.normal(size=shape) + ("norm" in name and name.endswith("weight"))
    return weights


@dataclass(frozen=True)
class Sources:
    """Weights of a model, and sources, those with clear and varied translations first."""

    weights: Weights
    tokens: Array
    """b s."""
    lengths: Array
    ends: Array
    """The step in which each translation ends, counted from 0; `steps` if it does not end."""
    end: int
    """The end token."""


class TranslatingCase(ModelCase):
    """A case of sources that are translated, with the weights that were chosen with them."""

    def calls(self, dtype: str) -> Calls:
        sources = chosen_sources(self.model, self.config)
        greedy = {**self.factory_options["greedy"], "end": sources.end}
        ending = replace(self, factory_options={**self.factory_options, "greedy": greedy})
        return ending.calls_of_one_model(sources.weights, dtype)


def translating(
    model: Model, config: Config, name: str, why: str, dtypes: tuple[str, ...], items: Sequence[int] = (4,),
    factory_options: Mapping[str, Any] = NOTHING,
) -> TranslatingCase:  # fmt: skip
    """A case whose calls translate these numbers of sources."""

    def calls(random: Generator) -> Sequence[Inputs]:
        sources = chosen_sources(model, config)
        places = iter(_with_mixed_ends(sources.ends, sum(items)))
        chosen = [[next(places) for _ in range(count)] for count in items]
        return [{"source": sources.tokens[rows], "lengths": sources.lengths[rows]} for rows in chosen]

    case = model(name, why, config, dtypes, calls=calls, factory_options={"greedy": GREEDY, **factory_options})
    return TranslatingCase(**vars(case))


def chosen_sources(model: Model, config: Config) -> Sources:
    """The weights and sources of models of a config."""
    return _sources(model, tuple(sorted(config.items())), seeded())


def _with_mixed_ends(ends: Array, count: int) -> list[int]:
    """The places of some sources, one of each end step after the other."""
    kinds = [np.flatnonzero(ends == end).tolist() for end in ORDER]
    places: list[int] = []
    while len(places) < count:
        places += [kind.pop(0) for kind in kinds if kind]
    return places[:count]


@cache
def _sources(model: Model, items: tuple[tuple[str, Any], ...], seed: int) -> Sources:
    """Candidates for a config. The end token is chosen after they are translated."""
    config, steps = dict(items), GREEDY["steps"]
    random = generator("translations")
    weights = {name: _amplified(name, array) for name, array in model.weights(config, random).items()}
    inputs = model.draw(random, config=config, batch=CANDIDATES, target=1)
    tokens, gaps = _without_end(model, config, weights, inputs, steps)
    end = max(range(config["target_vocab"]), key=lambda token: _variety(tokens, token))
    ends = np.where((tokens == end).any(1), (tokens == end).argmax(1), steps)
    counted = np.arange(steps) <= ends[:, None]
    kinds = np.array([min(VARIED, len(set(row[:end].tolist()))) for row, end in zip(tokens, ends, strict=True)])
    best = np.argsort(-kinds * np.where(counted, gaps, np.inf).min(1), kind="stable")
    return Sources(weights, inputs["source"][best], np.asarray(inputs["lengths"])[best], ends[best], end)


def _without_end(model: Model, config: Config, weights: Weights, inputs: Inputs, steps: int) -> tuple[Array, Array]:
    """The eager model's tokens in each step, b t, without an end token, and the gaps between the two largest logits."""
    translate = model.eager(config, {name: torch.from_numpy(np.asarray(array)) for name, array in weights.items()})
    source, lengths = (torch.from_numpy(np.asarray(inputs[name])) for name in ("source", "lengths"))
    tokens, gaps = torch.full((len(source), 1), GREEDY["begin"]), []
    for _ in range(steps):
        best = translate(source, lengths, tokens)[:, -1].topk(2)
        gaps.append(best.values[:, 0] - best.values[:, 1])
        tokens = torch.cat([tokens, best.indices[:, :1]], 1)
    return tokens[:, 1:].numpy(), torch.stack(gaps, 1).numpy()


def _variety(tokens: Array, token: int) -> int:
    """How well this token serves as the end token: many different end steps, and varied tokens that would follow.

    The begin token cannot be the end token, and 0 not either, with which mutants fill up.
    """
    if token in (0, GREEDY["begin"]):
        return -1
    first, has_end = (tokens == token).argmax(1), (tokens == token).any(1)
    continues = [(tokens[row, place + 1 :] != token).any() for row, place in enumerate(first)]
    ends = has_end & np.array(continues)
    return len(set(first[ends].tolist())) * 1000 + min(int(ends.sum()), int((~has_end).sum()))


def _amplified(name: str, array: Array) -> Array:
    """Larger weights of logits and networks, and no biases that favour one token."""
    if name == "b_logits" or (name.startswith("decoder") and "norm" in name and name.endswith("bias")):
        return np.zeros_like(array)
    return GAIN * array if name == "w_logits" or "ffn.w" in name else array


# Bad input


def bad_weight(what: str, why: str, name: str, tensor: Any) -> Row:
    """A tensor that replaces a weight, or is added to the weights."""
    return what, why, {"bad_weights": instead(name, tensor)}


def bad_tensor(what: str, why: str, name: str, array: Any) -> Row:
    """An array that replaces an input."""
    return what, why, {"inputs": {name: np.asarray(array)}}


def bad_greedies() -> list[Row]:
    """Options of greedy decoding that no translator to 13 tokens takes."""
    return [
        (f"greedy_{name}", why, {"bad_factory_options": {"greedy": {**GREEDY, name: value}}})
        for name, why, value in (
            ("begin", "the begin token 13 in a vocabulary of 13", 13),
            ("end", "the end token −1", -1),
            ("steps", "a translation of 0 steps", 0),
        )
    ]


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
        bad_tensor("batches", "2 targets for 3 sources", "target", np.zeros((2, 5), np.int64)),
        bad_tensor("fractions", "lengths that are not integers", "lengths", [7.0, 4.5, 1.0]),
        bad_tensor("int32_lengths", "int32 lengths", "lengths", np.array([7, 4, 1], np.int32)),
    ]
