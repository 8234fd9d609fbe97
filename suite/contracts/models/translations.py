"""Sources and weights of cases that translate, so chosen that translations end in different steps, each clearly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Calls
from attnsuite.cases.model import NOTHING, Config, Model, ModelCase, Weights
from attnsuite.cases.tensors import Array, Generator, Inputs, generator, seeded

GREEDY = {"begin": 1, "end": 2, "steps": 8}
"""What the factory is given where its models translate."""
CANDIDATES = 96
"""Sources of which a case has a few: enough that some are decided clearly in every step, and end where they should."""
ORDER = (3, 8, 1, 5, 2, 4, 6, 0, 7)
"""The steps in which translations end, in the order in which a case has one of each: first the middle, then never."""
VARIED = 3
"""Different tokens in a translation beyond which more are not sought."""
LOUDER = 2.0
"""How much larger logits and a decoder's network are than in other cases: the tokens that are chosen vary more."""


@dataclass(frozen=True)
class Drawn:
    """Weights of a translator, and sources that it translates in different ways."""

    weights: Weights
    sources: Array
    """Those first whose translation is clear, and not one token over and over, b s."""
    lengths: Array
    stops: Array
    """The step in which each one ends, counted from 0; `steps` where it does not."""


class Translated(ModelCase):
    """A case of sources that are translated, with the weights that were chosen with them."""

    def calls(self, dtype: str) -> Calls:
        return self.of_one(drawn(self.model, self.config).weights, dtype)


def translating(
    model: Model,
    config: Config,
    name: str,
    why: str,
    dtypes: tuple[str, ...],
    items: Sequence[int] = (4,),
    making: Mapping[str, Any] = NOTHING,
    **unusual: int,
) -> Translated:
    """A case that translates so many sources in each of its calls; unusual may be `steps`.

    `making` is what the factory is given besides.
    """

    def calls(random: Generator) -> Sequence[Inputs]:
        found = drawn(model, config)
        places = iter(_mixed(found.stops, sum(items)))
        chosen = [[next(places) for _ in range(count)] for count in items]
        return [{"source": found.sources[those], "lengths": found.lengths[those]} for those in chosen]

    case = model(name, why, config, dtypes, calls=calls, making={"greedy": {**GREEDY, **unusual}, **making})
    return Translated(**vars(case))


def drawn(model: Model, config: Config) -> Drawn:
    """What is translated by models of a config."""
    return _drawn(model, tuple(sorted(config.items())), seeded())


def _mixed(stops: Array, count: int) -> list[int]:
    """The places of some sources, of each step in which a translation ends one after the other."""
    kinds = [np.flatnonzero(stops == stop).tolist() for stop in ORDER]
    found: list[int] = []
    while len(found) < count:
        found += [kind.pop(0) for kind in kinds if kind]
    return found[:count]


@cache
def _drawn(model: Model, items: tuple[tuple[str, Any], ...], seed: int) -> Drawn:
    """Candidates for a config. Which token ends translations is decided once it is known what they say."""
    config, steps = dict(items), GREEDY["steps"]
    random = generator("translations")
    weights = {name: _louder(name, array) for name, array in model.weights(config, random).items()}
    inputs = model.draw(random, config=config, batch=CANDIDATES, target=1)
    said, gaps = _said(model, config, weights, inputs, steps)
    end = max(range(config["target_vocab"]), key=lambda token: _varied(said, token))
    weights, said = _renamed(weights, end), _swapped(said, end)
    stops = np.where((said == GREEDY["end"]).any(1), (said == GREEDY["end"]).argmax(1), steps)
    counted = np.arange(steps) <= stops[:, None]
    kinds = np.array([min(VARIED, len(set(row[:stop].tolist()))) for row, stop in zip(said, stops, strict=True)])
    best = np.argsort(-kinds * np.where(counted, gaps, np.inf).min(1), kind="stable")
    return Drawn(weights, inputs["source"][best], np.asarray(inputs["lengths"])[best], stops[best])


def _said(model: Model, config: Config, weights: Weights, inputs: Inputs, steps: int) -> tuple[Array, Array]:
    """What the eager model says in each step without an end, b t, and how far the two best logits lie apart."""
    of = model.eager(config, {name: torch.from_numpy(np.asarray(array)) for name, array in weights.items()})
    source, lengths = (torch.from_numpy(np.asarray(inputs[name])) for name in ("source", "lengths"))
    tokens, gaps = torch.full((len(source), 1), GREEDY["begin"]), []
    for _ in range(steps):
        best = of(source, lengths, tokens)[:, -1].topk(2)
        gaps.append(best.values[:, 0] - best.values[:, 1])
        tokens = torch.cat([tokens, best.indices[:, :1]], 1)
    return tokens[:, 1:].numpy(), torch.stack(gaps, 1).numpy()


def _varied(said: Array, token: int) -> int:
    """How well translations could end with this token: in many different steps, where the model would go on otherwise.

    The begin token ends none.
    """
    if token == GREEDY["begin"]:
        return -1
    first = (said == token).argmax(1)
    goes_on = [(said[row, place + 1 :] != token).any() for row, place in enumerate(first)]
    ends = (said == token).any(1) & np.array(goes_on)
    return len(set(first[ends].tolist())) * 1000 + min(int(ends.sum()), int((~(said == token).any(1)).sum()))


def _louder(name: str, array: Array) -> Array:
    """Logits and networks that say more, and no biases by which the same token is always likely."""
    if name == "b_logits" or (name.startswith("decoder") and "norm" in name and name.endswith("bias")):
        return np.zeros_like(array)
    return LOUDER * array if name == "w_logits" or "ffn.w" in name else array


def _swapped(tokens: Array, end: int) -> Array:
    """The end token and this one change their names."""
    found = tokens.copy()
    found[tokens == end], found[tokens == GREEDY["end"]] = GREEDY["end"], end
    return found


def _renamed(weights: Weights, end: int) -> dict[str, Array]:
    """Weights in which the end token and this one have changed their names."""
    order = np.arange(len(weights["b_logits"]))
    order[[end, GREEDY["end"]]] = order[[GREEDY["end"], end]]
    found = dict(weights)
    found["target_embedding"] = weights["target_embedding"][order]
    return found | {name: weights[name][..., order] for name in ("w_logits", "b_logits")}
