"""The blocks of a Transformer, and greedy decoding, in steps that mutants replace, in the dtype of the weights.

Other models are compared with these eager models, so nothing here widens.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, cat
from torch.nn.functional import pad

from attnsuite.cases.computations import Steps
from attnsuite.cases.mutants import formula
from attnsuite.contracts.shared import Attention, Weights, masked, through_identity, unguarded

T = TypeVar("T")
Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Part = Mapping[str, Tensor]
Storage = dict[Any, Any]
"""What a mutant stores from one call of a model to the next."""


def check(weights: Part, expected: Shapes) -> None:
    """Raise unless the weights have the expected names and shapes, and one dtype."""
    if {name: tuple(tensor.shape) for name, tensor in weights.items()} != dict(expected):
        raise ValueError("the weights do not have the names and shapes of the config")
    if len({tensor.dtype for tensor in weights.values()}) > 1:
        raise ValueError("the weights have several dtypes")


def check_sentences(
    config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Raise unless tokens are in their vocabularies and lengths within the source, all int64; return the inputs."""
    for name, tokens in (("source", source), ("target", target)):
        if tokens is None:
            continue
        if tokens.dim() != 2 or len(tokens) != len(source) or tokens.dtype != torch.int64:
            raise ValueError("tokens of another batch or dtype")
        if ((tokens < 0) | (tokens >= config[f"{name}_vocab"])).any():
            raise ValueError("a token outside the vocabulary")
    if lengths.shape != source.shape[:1] or lengths.dtype != torch.int64:
        raise ValueError("lengths of another batch or dtype")
    if ((lengths < 1) | (lengths > source.shape[1])).any():
        raise ValueError("a length below 1 or beyond the source")
    return source, lengths, target


class Blocks(Steps):
    """A factory of models from multi-head attention, the network of each position, and normalisations."""

    shapes: Callable[[Config], Shapes]
    """The expected weights by name."""
    run: Callable[..., Tensor]
    """The model: config, weights, what it stores between calls, its dtype, and the inputs."""
    rows: dict[str, list[Tensor]] | None = None
    """If attention weights are requested, those of the call so far by name, b h l s: one tensor, or one a step."""

    def compute(
        self, config: Config, weights: Part, *, attention: Attention | None = None, need_weights: bool = False
    ) -> Callable[..., Any]:
        run, run_with_weights = self.models(config, weights, attention)
        return run_with_weights if need_weights else run

    def models(
        self, config: Config, weights: Part, attention: Attention | None = None
    ) -> tuple[Callable[..., Tensor], Callable[..., Any]]:
        """The model with its backend, and the same with the weights of every attention."""
        self.check_config(config)
        self.check_weights(weights, self.shapes(config))
        model, storage, dtype = self.with_backend(attention), Storage(), next(iter(weights.values())).dtype
        run = partial(model.run, config, self.widened(config, weights), storage, dtype)
        return run, partial(model.run_with_weights, run, storage, dtype)

    def run_with_weights(
        self, run: Callable[..., Tensor], storage: Storage, dtype: torch.dtype, *inputs: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The model's output, and the weights of every attention by name."""
        self.rows = {}
        output = run(*inputs)
        weights = {name: self.stacked(parts).to(dtype) for name, parts in self.rows.items()}
        return output, self.recalled(self.named(weights), storage)

    @staticmethod
    def check_config(config: Config) -> None:
        """Raise for an invalid config."""

    check_weights = staticmethod(check)

    @staticmethod
    def wide(numbers: Tensor) -> torch.dtype:
        return numbers.dtype

    def widened(self, config: Config, weights: Part) -> dict[str, Tensor]:
        """The weights in the dtype of the computation."""
        return {name: tensor.to(self.wide(tensor)) for name, tensor in weights.items()}

    def multi_head(
        self, x: Tensor, memory: Tensor, weights: Part, heads: int, allowed: Tensor | None, name: str = ""
    ) -> Tensor:
        """Attention of x, b l d, to the memory, b s d, under a boolean mask that broadcasts to b h l s."""
        query, key = self.split(x @ weights["w_query"], heads), self.split(memory @ weights["w_key"], heads)
        value = self.split(memory @ weights["w_value"], heads)  # b h s p
        mixed: Tensor = self.merge(self.attend(name, query, key, value, allowed)) @ weights["w_output"]
        return mixed

    def to_itself(self, weights: Part, heads: int, allowed: Tensor | None, x: Tensor, name: str = "") -> Tensor:
        return self.multi_head(x, x, weights, heads, allowed, name)

    def attend(self, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None) -> Tensor:
        """The heads' outputs, b h l p."""
        scores = query @ key.mT * self.factor(query.shape[-1], query.shape[1])  # b h l s
        weights = self.softmax(scores if allowed is None else self.mask(scores, allowed))
        self.record(name, lambda: self.returned(weights, scores))
        return weights @ value

    def record(self, name: str, weights: Callable[[], Tensor]) -> None:
        """Record the weights of an attention if they are requested."""
        if self.rows is not None:
            self.rows.setdefault(name, []).append(weights())

    def with_backend(self, attention: Attention | None) -> Self:
        """The same computation with this backend, if there is one."""
        model = copy(self)
        if attention is not None:
            model.attend = self.choose(model.attend, partial(model.attend_by_backend, attention))  # type: ignore[method-assign]
        return model

    def attend_by_backend(
        self, attention: Attention, name: str, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None
    ) -> Tensor:
        """The backend's output. Its weights are its outputs for values that are columns of the identity."""

        def output(value: Tensor) -> Tensor:
            return self.call_backend(attention, (query, key, value), options)

        options = self.needed(allowed)
        mixed = output(value)
        self.record(name, lambda: self.read(output, value))
        return mixed

    returned = formula(lambda weights, scores: weights)  # the returned weights, b h l s
    read = staticmethod(through_identity)

    @staticmethod
    def stacked(parts: Sequence[Tensor]) -> Tensor:
        """The weights of queries that were decoded one by one, b h l s; early ones may have fewer keys."""
        keys = parts[-1].shape[-1]
        return torch.cat([pad(weights, (0, keys - weights.shape[-1])) for weights in parts], -2)

    named = staticmethod(lambda weights: weights)  # the weights by name
    recalled = staticmethod(lambda weights, storage: weights)

    choose = staticmethod(lambda own, backend: backend)  # what attends instead of the model's own attention
    # the backend's arguments: no mask that hides nothing
    needed = staticmethod(lambda allowed: {} if allowed is None or bool(allowed.all()) else {"attn_mask": allowed})
    call_backend = formula(lambda attention, heads, options: attention(*heads, **options))

    def feed_forward(self, x: Tensor, weights: Part) -> Tensor:
        inner = self.activate(self.affine(x, weights["w1"], weights["b1"]))
        output: Tensor = self.affine(inner, weights["w2"], weights["b2"])
        return output

    affine = formula(lambda x, weights, bias: x @ weights + bias)

    @staticmethod
    def split(tensor: Tensor, heads: int) -> Tensor:
        """b l d → b h l p."""
        parts: Tensor = tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
        return parts

    factor = staticmethod(lambda head_width, heads: 1 / math.sqrt(head_width))
    mask = staticmethod(masked)
    softmax = formula(lambda scores: unguarded((scores - scores.amax(-1, keepdim=True)).exp()))
    merge = formula(lambda mixed: mixed.transpose(1, 2).flatten(-2))  # b h l p → b l d
    activate = formula(lambda features: features.relu())
    norm = formula(lambda x, weights: normalised(x, weights, lambda centred: (mean_square(centred) + 1e-5).sqrt()))
    add = formula(lambda x, y: x + y)


def part(weights: Mapping[str, T], block: str) -> dict[str, T]:
    """The tensors below a name, by the rest of their names: `encoder.0.ffn` gives w1, b1, w2, b2."""
    below = f"{block}."
    return {name.removeprefix(below): tensor for name, tensor in weights.items() if name.startswith(below)}


def normalised(x: Tensor, weights: Part, divisor: Callable[[Tensor], Tensor]) -> Tensor:
    """A layer normalisation whose divisor is a function of the centred numbers."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / divisor(centred) * weights["weight"] + weights["bias"]


def mean_square(x: Tensor) -> Tensor:
    """The mean of the squares over the last axis, … 1."""
    return x.square().mean(-1, keepdim=True)


Greedy = Mapping[str, int]
"""The tokens `begin` and `end`, and the number of `steps`."""
Run = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The logits, b t v, for source, lengths and the tokens so far."""
RunWithWeights = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Weights]]
"""The same, and the weights of every attention by name, b … t s."""


class Translating:
    """A factory of models that return logits, or choose one token after the other."""

    models: Callable[..., tuple[Run, RunWithWeights]]
    """The model of a config and weights, and perhaps a backend, and the same with the weights of every attention."""

    def compute(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, Tensor],
        *,
        need_weights: bool = False,
        greedy: Greedy | None = None,
        **backend: Any,
    ) -> Callable[..., Any]:
        run, run_with_weights = self.models(config, weights, **backend)
        if greedy is None:
            return run_with_weights if need_weights else run
        options = self.check_greedy(greedy, config["target_vocab"])
        if need_weights:
            return partial(self.translated_with_weights, run, run_with_weights, options)
        return partial(self.translated, run, options)

    def translated(self, run: Run, greedy: Greedy, source: Tensor, lengths: Tensor) -> Tensor:
        """The translation of each source, b steps."""
        end, steps = greedy["end"], greedy["steps"]
        tokens = self.first(source.new_zeros(len(source), 1), greedy)
        for _ in range(self.count(steps)):
            logits = run(source, lengths, self.read_tokens(tokens))[:, -1]
            tokens = cat([tokens, self.pick(logits)[:, None]], 1)
            if self.enough((tokens[:, 1:] == end).any(1)):
                break
        return self.cut(tokens[:, 1:], end, steps)

    def translated_with_weights(
        self, run: Run, run_with_weights: RunWithWeights, greedy: Greedy, source: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Weights]:
        """The same, and the weights of the steps, zeros behind the end of a translation."""
        tokens = self.translated(run, greedy, source, lengths)
        read = pad(tokens[:, :-1], (1, 0), value=greedy["begin"])
        _, weights = run_with_weights(source, lengths, read)
        over = pad((tokens == greedy["end"]).cumsum(1)[:, :-1] > 0, (1, 0))  # b t
        return tokens, {
            name: rows if name.startswith("encoder") else self.behind(rows, over) for name, rows in weights.items()
        }

    @staticmethod
    def check_greedy(greedy: Greedy, vocabulary: int) -> Greedy:
        """Raise for tokens outside the vocabulary and for less than one step; return the argument."""
        if not all(0 <= greedy[name] < vocabulary for name in ("begin", "end")) or greedy["steps"] < 1:
            raise ValueError("a token outside the vocabulary, or less than one step")
        return greedy

    first = formula(lambda zeros, greedy: zeros + greedy["begin"])
    count = staticmethod(lambda steps: steps)
    read_tokens = formula(lambda tokens: tokens)
    pick = formula(lambda logits: logits.argmax(-1))
    enough = staticmethod(lambda ended: bool(ended.all()))
    # the weights of steps, b … t s, with zeros in those behind the end, b t
    behind = formula(lambda rows, over: rows.masked_fill(over.reshape(len(over), *[1] * (rows.dim() - 3), -1, 1), 0.0))

    @staticmethod
    def cut(tokens: Tensor, end: int, steps: int) -> Tensor:
        """All tokens behind the first end token of a row become end tokens, up to `steps`."""
        padded = pad(tokens, (0, steps - tokens.shape[1]), value=end)
        behind = (padded == end).cumsum(1) - (padded == end).long() > 0
        return padded.masked_fill(behind, end)
