"""The numbers of figures: weights of attentions and of trained translators, and gradients through time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.documents.learning import Translator, translator, translator_from
from attnsuite.documents.learning.data import BEGIN, END, greedy
from attnsuite.model import UsageError
from attnsuite.registry import Loaded
from attnsuite.registry.backends import gaps
from attnsuite.registry.loading import as_backend, as_usage_error

EMBEDDING = 16
"""The width of random embeddings of words."""
ROUNDING = 1e-3
"""The largest difference of a row's sum from 1 without a remark: float32 is more precise, and it is invisible."""

# Implementations, and the weights of an attention

Function = Callable[..., Any]


def implementation(name: str, contract: str | None = None) -> Loaded:
    """The implementation of a target. Raises UsageError unless exactly one can be called."""
    declarations = registry.find([name], contract)
    if len(declarations) > 1:
        names = ", ".join(declaration.full_name for declaration in declarations)
        raise UsageError(f"{name!r} matches {len(declarations)} implementations, expected one: {names}")
    loaded = registry.load(declarations[0])
    if not isinstance(loaded, Loaded):
        raise UsageError(f"nothing can be drawn with {declarations[0].full_name}: {loaded.reason}")
    return loaded


@cache
def function(name: str) -> Function:
    """The function of an implementation that ships, by its full name."""
    return implementation(name).function


def weights_of(attention: Function, query: Tensor, key: Tensor, **options: Any) -> Tensor:
    """The weights of an attention, … l s, for queries … l e and keys … s e: its output with the identity as values.

    A call has e columns of values, because some attentions need values as wide as queries. Raises ValueError for an
    output of another type or shape.
    """
    width, keys = query.shape[-1], key.shape[-2]
    identity, columns = torch.eye(keys, -(-keys // width) * width, dtype=query.dtype), []
    for start in range(0, keys, width):
        value = identity[:, start : start + width].expand(*key.shape[:-1], width).contiguous()
        output = attention(query, key, value, **options)
        if not isinstance(output, Tensor):
            raise ValueError(f"it returned {type(output).__name__}, expected a tensor")
        if output.shape != query.shape:
            raise ValueError(f"it returned shape {tuple(output.shape)}, expected {tuple(query.shape)}")
        columns.append(output)
    return torch.cat(columns, -1)[..., :keys]


def normal(seed: int) -> Callable[..., Tensor]:
    """A function that draws a standard normal tensor of a shape."""
    draw = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=draw, dtype=torch.float64)


def drawn_queries_and_keys(words: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Queries and keys, l e: a random vector per word, multiplied by random matrices."""

    def drawn(what: str, *shape: int) -> Tensor:
        digest = hashlib.sha256(f"0 {what}".encode(errors="backslashreplace")).digest()
        return normal(int.from_bytes(digest[:6], "big"))(*shape)

    x = torch.stack([drawn(f"word {word}", EMBEDDING) for word in words])
    query, key = (drawn(f"map of the {role}", EMBEDDING, EMBEDDING) / EMBEDDING**0.5 for role in ("query", "key"))
    return x @ query, x @ key


def weights_of_target(target: str, query: Tensor, key: Tensor, causal: bool) -> tuple[str, Tensor, str]:
    """The full name of an attention, its weights in float32, l s, and a remark where rows do not sum to 1.

    Raises UsageError for an attention that cannot be called, raises, or returns numbers that are not finite.
    """
    loaded = implementation(target, "attention")
    name = loaded.declaration.full_name
    if causal and (reason := gaps(loaded.declaration).get("causal")):
        raise UsageError(f"{name} is not causal: {reason}")
    query, key = (tensor.float()[None, None] for tensor in (query, key))
    with as_usage_error(f"{name} gave no weights:"):
        weights = weights_of(as_backend(loaded), query, key, **({"is_causal": True} if causal else {}))
    if not weights.isfinite().all():
        raise UsageError(f"{name} returned NaN or infinity, which cannot be drawn")
    low, high = (float(extreme) for extreme in weights.sum(-1).aminmax())
    remark = f"rows sum to {low:.4g} to {high:.4g}, not to 1" if max(1 - low, high - 1) > ROUNDING else ""
    return name, weights[0, 0], remark


# Translations: the attention of trained translators


@cache
def trained(name: str, checkpoint: Path | None = None) -> Translator:
    """A translator, once per process: from a checkpoint, or else from the cache, or trained."""
    return translator_from(name, checkpoint) if checkpoint else translator(name)


@dataclass(frozen=True)
class Translation:
    """A sentence, its translation, and the weights of each attention by name, heads queries keys, without padding."""

    source: tuple[str, ...]
    """The tokens of the sentence, `<eos>` last."""
    target: tuple[str, ...]
    """The decoder's input: `<bos>`, then its own words."""
    weights: Mapping[str, Tensor]
    by: str
    """The translator, in words."""

    @property
    def subtitle(self) -> str:
        """The sentence, its translation and the implementation."""
        return f"{' '.join(self.source[:-1])} → {' '.join(self.target[1:])}; {self.by} in float32"


def translate(name: str, by: Translator, sentence: str, attention: str = "") -> Translation:
    """Translate a sentence, with a named attention backend if given, and return the weights.

    Raises UsageError for unknown words, a too long sentence, and an attention that raises.
    """
    words = by.source.known(sentence)
    if not 1 <= len(words) < by.steps:
        raise UsageError(f"expected a sentence of 1 to {by.steps - 1} tokens, got {len(words)}: {sentence!r:.80}")
    backend: dict[str, Any] = {"attention": as_backend(implementation(attention, "attention"))} if attention else {}
    full_name = f"{name}/eager{f'+{attention}' if attention else ''}"
    with as_usage_error(f"{full_name} gave no weights:"):
        translation, weights = _watched(function(f"{name}/eager"), by, words, backend)
    source, target = (*words, END), (BEGIN, *translation)
    lengths = {"source": len(source), "target": len(target)}
    return Translation(source, target, {key: _cut(matrix, key, lengths) for key, matrix in weights.items()}, full_name)


def _watched(
    factory: Function, by: Translator, words: list[str], backend: Mapping[str, Any]
) -> tuple[list[str], Mapping[str, Tensor]]:
    """The words of the translation, and the weights of all attentions."""
    source, lengths = by.source.rows([words], by.steps)
    numbers = greedy(factory(by.config, by.weights, **backend), source, lengths, by.target, by.steps)
    translation = by.target.sentence(numbers[0].tolist())
    decoder_input = torch.tensor([[by.target[BEGIN], *numbers[0, : len(translation)].tolist()]])
    _, weights = factory(by.config, by.weights, **backend, need_weights=True)(source, lengths, decoder_input)
    return translation, weights


def _cut(weights: Tensor, name: str, lengths: Mapping[str, int]) -> Tensor:
    """The weights of the sentence without padding, heads queries keys; weights without heads have one."""
    queries = lengths["source" if name.startswith("encoder") else "target"]
    keys = lengths["target" if name.endswith("self_attention") else "source"]
    return (weights[0] if weights.dim() == 4 else weights)[:, :queries, :keys]


# Backpropagation through time


def gradient(name: str, *tensors: Tensor, seed: int | None = None, **options: Any) -> Tensor:
    """The result of an implementation of `recurrent_gradient`, with this seed of torch's generator."""
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        result: Tensor = function(f"recurrent_gradient/{name}")(*tensors, **options)
    return result


def flow(steps: int, seed: int | None = None, **scheme: Any) -> Tensor:
    """The factor by which the gradient of each step's loss reaches each step's hidden state, losses by states.

    The network has one unit and the weight 1, so that the scheme alone changes the flow. A row is the gradient with
    respect to hidden states where one step has an error.
    """
    zeros, zero, one = torch.zeros(steps, 1).double(), torch.zeros(1).double(), torch.ones(1, 1).double()
    rows = []
    for step in range(steps):
        target = zeros.clone()
        target[step] = -steps  # the loss is a mean over steps: its gradient at this one is then 1
        tensors = (zeros, target, zero, one, one, one)
        rows.append(gradient("autograd", *tensors, seed=seed, of="d_hidden", **scheme)[:, 0])
    return torch.stack(rows)
