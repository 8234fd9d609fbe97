"""The blocks of a Transformer in small steps, in the dtype of the weights: what deviations of models are made of.

They are also the eager models beside which others are judged, so nothing in them widens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from suite.asking import Deviation
from suite.asking.changes import filled_beyond, swapped_where_equal, turned
from suite.asking.mistakes import Wrong, formula, given, mistakes, rows, then
from suite.asking.staged import Staged
from suite.contracts import asking_plugs
from suite.contracts.shown import SHOWN, in_steps, through_identity
from suite.contracts.softmax import masked, unguarded

Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Part = Mapping[str, Tensor]
Attention = Callable[..., Tensor]
Options = Mapping[str, Any]
Rows = dict[str, list[Tensor]]
"""The weights of attentions by name, b h l s: of all queries at once, or of one after the other."""


def check(weights: Part, due: Shapes) -> None:
    """Raise where the weights are not those that are due."""
    if {name: tuple(tensor.shape) for name, tensor in weights.items()} != dict(due):
        raise ValueError("the weights are not those of the config")
    if len({tensor.dtype for tensor in weights.values()}) > 1:
        raise ValueError("the weights are of several dtypes")


class Blocks(Staged):
    """A factory of models, with attention by several heads, the network of each position, and the normalisation."""

    shapes: Callable[[Config], Shapes]
    """The weights that are due, by name."""
    run: Callable[..., Tensor]
    """The model: config, weights, what it could keep between calls, its dtype, and the inputs."""
    rows: Rows | None = None
    """Where attention weights are wanted, those of the call so far."""

    def compute(
        self, config: Config, weights: Part, *, attention: Attention | None = None, need_weights: bool = False
    ) -> Callable[..., Any]:
        """Without parameters of what only some models do."""
        model, run, kept = self.made(config, weights, attention)
        return partial(model.watched, run, kept, next(iter(weights.values())).dtype) if need_weights else run

    def made(
        self, config: Config, weights: Part, attention: Attention | None
    ) -> tuple[Self, Callable[..., Tensor], dict[str, Any]]:
        """The computation with a plug, the model, and what that could keep between calls."""
        self.check_config(config)
        self.check_weights(weights, self.shapes(config))
        model, kept, dtype = self.plugged(attention), dict[str, Any](), next(iter(weights.values())).dtype
        return model, partial(model.run, config, self.widened(config, weights), kept, dtype), kept

    def watched(
        self, run: Callable[..., Tensor], kept: dict[str, Any], dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The model's answer, and the weights of every attention by name."""
        self.rows = {}
        output = run(*inputs)
        found = {name: self.stacked(parts).to(dtype) for name, parts in self.rows.items()}
        return output, self.recalled(self.named(found), kept)

    @staticmethod
    def check_config(config: Config) -> None:
        """Raise for what no model can be made of."""

    check_weights = staticmethod(check)

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        return numbers.dtype

    def widened(self, config: Config, weights: Part) -> dict[str, Tensor]:
        """The weights in the dtype to compute in."""
        return {name: tensor.to(self.wide(tensor)) for name, tensor in weights.items()}

    def multi_head(
        self, name: str, x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None
    ) -> Tensor:
        """x is b l d, memory b s d; allowed is boolean and broadcasts to b h l s. The name is that of the attention."""
        query, key = self.split(x @ weights["w_query"], heads), self.split(memory @ weights["w_key"], heads)
        value = self.split(memory @ weights["w_value"], heads)  # b h s p
        mixed: Tensor = self.merge(self.attend(name, query, key, value, allowed)) @ weights["w_output"]
        return mixed

    def to_itself(self, name: str, weights: Part, heads: int, allowed: Tensor | None, x: Tensor) -> Tensor:
        return self.multi_head(name, x, x, weights, heads, allowed)

    def attend(self, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        """b h l p."""
        scores = query @ key.mT * self.factor(query.shape[-1], query.shape[1])  # b h l s
        masked = scores if allowed is None else self.mask(scores, allowed)
        weights = self.softmax(masked)
        if self.rows is not None:
            self.note(name, self.shown(weights, masked, scores))
        return weights @ value

    def note(self, name: str, weights: Tensor) -> None:
        """Keep the weights of some queries of an attention."""
        assert self.rows is not None
        self.rows.setdefault(name, []).append(weights)

    def plugged(self, attention: Attention | None) -> Self:
        """The same computation with this attention where one is given."""
        found = copy(self)
        if attention is not None:
            found.attend = self.plug(found.attend, partial(found.asked, attention))  # type: ignore[method-assign]
        return found

    def asked(
        self, attention: Attention, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None
    ) -> Tensor:
        """What the attention that is plugged in answers; its weights are its answer where values are the identity."""
        given = self.needed(allowed)
        mixed = self.ask(attention, (query, key, value), given)
        if self.rows is not None:
            shown = self.read(partial(self.reply, attention, query, key, self.given_to_read(given)), value)
            own = type(self)().attend  # what the model has itself
            self.note(name, self.of_plug(shown, lambda identity: own(name, query, key, identity, allowed)))
        return mixed

    def reply(self, attention: Attention, query: Tensor, key: Tensor, given: Options, values: Tensor) -> Tensor:
        """What the attention that is plugged in answers for other values."""
        return self.ask(attention, (query, key, values), given)

    # what is shown of the weights, b h l s; of scores that are masked, and before they are
    shown = formula(lambda weights, masked, scores: weights)
    read = staticmethod(through_identity)
    given_to_read = staticmethod(lambda given: given)  # what a plug is given beside the identity
    of_plug = formula(lambda shown, own: shown)  # what is shown of a plug
    stacked = staticmethod(in_steps)
    named = staticmethod(lambda found: found)  # the weights by name
    recalled = staticmethod(lambda found, kept: found)  # `kept` is what the model could keep between calls

    plug = staticmethod(lambda own, plugged: plugged)  # what attends in place of what the model has itself
    # the arguments that the plug needs: no mask that hides nothing
    needed = staticmethod(lambda allowed: {} if allowed is None or bool(allowed.all()) else {"attn_mask": allowed})
    ask = formula(lambda attention, heads, given: attention(*heads, **given))

    def feed_forward(self, x: Tensor, weights: Part) -> Tensor:
        inner = self.activate(x @ weights["w1"] + weights["b1"])
        return inner @ weights["w2"] + weights["b2"]

    @staticmethod
    def split(tensor: Tensor, heads: int) -> Tensor:
        """b l d → b h l p."""
        found: Tensor = tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
        return found

    factor = staticmethod(lambda head_width, heads: 1 / math.sqrt(head_width))

    mask = staticmethod(masked)

    softmax = formula(lambda scores: unguarded((scores - scores.amax(-1, keepdim=True)).exp()))
    merge = formula(lambda mixed: mixed.transpose(1, 2).flatten(-2))  # b h l p → b l d
    activate = formula(lambda features: features.relu())
    norm = formula(lambda x, weights: normalised(x, weights, lambda centred: (mean_square(centred) + 1e-5).sqrt()))
    add = formula(lambda x, y: x + y)


def part(weights: Part, name: str) -> dict[str, Tensor]:
    """The tensors below a name, by the rest of theirs."""
    return {rest.removeprefix(f"{name}."): tensor for rest, tensor in weights.items() if rest.startswith(f"{name}.")}


def of_due_names(weights: Part, due: Shapes) -> dict[str, Tensor]:
    """The weights that are due, without any others."""
    return {name: tensor for name, tensor in weights.items() if name in due}


def of_due_shapes(weights: Part, due: Shapes) -> dict[str, Tensor]:
    """Tensors that have the shapes that are due."""
    return {name: tensor.new_zeros(due.get(name, ())) for name, tensor in weights.items()}


def of_one_dtype(weights: Part) -> dict[str, Tensor]:
    """The weights, all floating ones in float32."""
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}


EXTRA_WEIGHTS = Wrong("weights that are not due are accepted", given(weights=of_due_names))
MIXED_DTYPES = Wrong("weights of several floating dtypes are accepted", given(weights=of_one_dtype))
"""Mistakes in the step `check_weights`, which all models have."""


def normalised(x: Tensor, weights: Part, divisor: Callable[[Tensor], Tensor]) -> Tensor:
    """A layer normalisation that divides by what `divisor` makes of the centred numbers."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / divisor(centred) * weights["weight"] + weights["bias"]


def mean_square(x: Tensor) -> Tensor:
    """The mean of the squares over the last axis: … 1."""
    return x.square().mean(-1, keepdim=True)


def rms_norm(x: Tensor, weights: Part) -> Tensor:
    """The mistake of subtracting no mean."""
    return x / (mean_square(x) + 1e-5).sqrt() * weights["weight"] + weights["bias"]


def transposed(weights: Part) -> dict[str, Tensor]:
    """Attention's maps, each transposed."""
    mapped = ("w_query", "w_key", "w_value", "w_output")
    return {name: tensor.mT if name.endswith(mapped) else tensor for name, tensor in weights.items()}


def shared(first: str, second: str) -> Callable[[Part], dict[str, Tensor]]:
    """Every tensor whose name ends with the second is the one beside it that ends with the first, if that fits."""

    def change(weights: Part) -> dict[str, Tensor]:
        found = dict(weights)
        for name in (name for name in weights if name.endswith(second)):
            other = weights[name.removesuffix(second) + first]
            found[name] = next((each for each in (other, other.mT) if each.shape == weights[name].shape), weights[name])
        return found

    return change


def swapped(first: str, second: str) -> Callable[[Part], dict[str, Tensor]]:
    """Every two tensors beside each other whose names end so are swapped where they have one shape."""

    def change(weights: Part) -> dict[str, Tensor]:
        there, back = shared(first, second)(weights), shared(second, first)(weights)
        return {name: there[name] if name.endswith(second) else back[name] for name in weights}

    return change


class Remembering:
    """Keeps weights from one model to the next of the same config."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Tensor]] = {}

    def first(self, weights: Part, config: Config) -> Part:
        return self.kept.setdefault(str(sorted(config.items())), {name: each.clone() for name, each in weights.items()})

    def latest(self, weights: Part, config: Config) -> Part:
        found = self.kept.setdefault(str(sorted(config.items())), {})
        found.update(weights)
        return found


def deviations(of: type[Blocks]) -> list[Deviation]:
    """The mistakes that any model made of these blocks can make."""
    widened = rows(
        transposed_weights=Wrong(
            "attention's weights are applied transposed, as torch.nn.Linear does", given(weights=transposed)
        ),
        values_by_key_weights=Wrong(
            "attention's keys and values have the keys' weights both", given(weights=shared("w_key", "w_value"))
        ),
        keys_by_query_weights=Wrong(
            "attention's queries and keys have the queries' weights both", given(weights=shared("w_query", "w_key"))
        ),
        swapped_query_and_key_weights=Wrong(
            "the weights of attention's queries and keys are swapped", given(weights=swapped("w_query", "w_key"))
        ),
        swapped_norms=Wrong(
            "the first two normalisations of a block are swapped",
            given(
                weights=lambda weights: swapped("norm1.weight", "norm2.weight")(
                    swapped("norm1.bias", "norm2.bias")(weights)
                )
            ),
        ),
        swapped_network=Wrong(
            "the weights of a block's network are swapped where they have one shape", given(weights=swapped("w1", "w2"))
        ),
        tied_network=Wrong(
            "the second weights of a block's network are the first, transposed, where their shapes allow it",
            given(weights=shared("w1", "w2")),
        ),
        transposed_network=Wrong(
            "the weights of a block's network are transposed where they are square",
            given(
                weights=lambda weights: {
                    name: turned(each) if name.endswith(("w1", "w2")) else each for name, each in weights.items()
                }
            ),
        ),
        first_weights=Wrong("a model has the weights of the first one of its config", then(Remembering().first)),
        latest_weights=Wrong("a model has the weights of the latest one of its config", then(Remembering().latest)),
    )
    return mistakes(of, widened=widened, **HEADS, **LAYERS, **SHOWN)


HEADS = {
    "factor": rows(
        full_width_scale=Wrong(
            "the scores are divided by the root of the full width, not the head's",
            lambda head_width, heads: 1 / math.sqrt(head_width * heads),
            "documents, E3",
        ),
        unscaled=Wrong("the scores are not scaled", lambda head_width, heads: 1.0),
    ),
    "split": rows(
        swapped_items_and_heads=Wrong(
            "items and heads are swapped where there are as many, and never swapped back",
            then(swapped_where_equal(of_rank=4)),
        ),
        interleaved_heads=Wrong(
            "neighbouring columns belong to different heads",
            lambda tensor, heads: tensor.unflatten(-1, (-1, heads)).movedim(-1, 1),
        ),
    ),
    "merge": rows(
        heads_not_moved_back=Wrong(
            "heads are merged without moving their axis back",
            lambda mixed: mixed.reshape(len(mixed), mixed.shape[2], -1),
            "documents, E30",
        )
    ),
    "plug": rows(ignores_the_plug=Wrong("an attention that is plugged in is not called", lambda own, plugged: own)),
    "ask": asking_plugs.MISTAKES,
    "softmax": rows(
        softmax_over_queries=Wrong(
            "the softmax runs over the queries", lambda scores: scores.clamp_min(-1e9).softmax(-2)
        ),
        drops_keys_beyond_128=Wrong("keys beyond the 128th are left out", given(scores=filled_beyond(128, -math.inf))),
    ),
}
LAYERS = {
    "activate": rows(
        leaky_features=Wrong("features below zero leak through", lambda x: torch.where(x > 0, x, 0.01 * x))
    ),
    "add": rows(no_residual=Wrong("there are no residual connections", lambda x, y: y)),
    "norm": rows(
        unbiased_variance=Wrong(
            "the variance is divided by the count less one",
            lambda x, weights: normalised(x, weights, lambda _: (x.var(-1, keepdim=True) + 1e-5).sqrt()),
        ),
        rms_norm=Wrong("the root mean square is taken: no mean is subtracted", rms_norm),
        plain_norm=Wrong(
            "normalisation leaves out its weight and bias",
            lambda x, weights: Blocks.norm(x, {"weight": x.new_ones(()), "bias": x.new_zeros(())}),
        ),
        eps_outside=Wrong(
            "ε is added to the root, not under it",
            lambda x, weights: normalised(x, weights, lambda centred: mean_square(centred).sqrt() + 1e-5),
        ),
        eps_of_a_millionth=Wrong(
            "ε is 10⁻⁶", lambda x, weights: normalised(x, weights, lambda c: (mean_square(c) + 1e-6).sqrt())
        ),
    ),
}
"""Mistakes in steps of the layers; those of attention are in HEADS."""
