"""The oracle of the contract `multi_head_attention`, how inputs are drawn, and the computation in steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call
from attnsuite.cases.backends import ExpectedBackendCall, Script
from attnsuite.cases.computations import Arguments, Axes, Sizes, Steps, check_mask
from attnsuite.cases.formula import Formula
from attnsuite.cases.mutants import formula
from attnsuite.cases.tensors import Array, Generator, Inputs, dtype_of
from attnsuite.contracts import shared
from attnsuite.contracts.attention.features.causal import causal_mask
from attnsuite.contracts.attention.features.dropout import dropout
from attnsuite.contracts.blocks.multi_head_attention.contract import POSITIONAL
from attnsuite.contracts.shared import Attention, Heads, Options, masked, softmax
from attnsuite.contracts.steps.additive_attention import Mask
from attnsuite.contracts.steps.attention_scores import scaled_dot
from attnsuite.judging.running_error import WithError


def oracle(
    query: WithError, key: WithError, value: WithError, w_query: WithError, w_key: WithError, w_value: WithError, *,
    num_heads: int, w_output: WithError | None = None, b_value: WithError | None = None,
    b_output: WithError | None = None, dropout_p: float = 0.0, keep_mask: Array | None = None, drawn: bool = False,
    **options: Any,
) -> WithError:  # fmt: skip
    """The heads side by side, b l c, or mapped, b l o. `keep_mask`, b h l s, is False where a weight is dropped."""
    values = _split(_mapped(value, w_value, b_value), num_heads)  # b h s v
    scores, allowed = _scores(query, key, w_query, w_key, num_heads, **options)
    dropped = _dropped(scores.softmax(allowed), dropout_p, keep_mask) if dropout_p else None
    heads = scores.attend(values, allowed) if dropped is None else dropped @ values  # b h l v
    merged = heads.each(lambda array: np.concatenate(list(array.swapaxes(0, 1)), -1))  # b l c
    return merged if w_output is None else _mapped(merged, w_output, b_output)


def attention_weights(
    query: WithError, key: WithError, value: WithError, w_query: WithError, w_key: WithError, w_value: WithError, *,
    num_heads: int, **options: Any,
) -> WithError:  # fmt: skip
    """The weights of every head before dropout, b h l s."""
    for unused in ("w_output", "b_value", "b_output", "dropout_p", "keep_mask"):
        options.pop(unused, None)
    scores, allowed = _scores(query, key, w_query, w_key, num_heads, **options)
    return scores.softmax(allowed)


def numbers_of(step: str, query: WithError, key: WithError, value: WithError, **options: Any) -> WithError:
    """The numbers of a step, without a mask and dropout."""
    heads = int(options["num_heads"])
    inputs = {"query": query, "key": key, "value": value}
    maps = {name: _mapped(x, options[f"w_{name}"], options.get(f"b_{name}")) for name, x in inputs.items()}
    kind, _, role = step.partition("_")
    if kind in ("mapped", "split"):
        return maps[role] if kind == "mapped" else _split(maps[role], heads)
    scores = scaled_dot(_split(maps["query"], heads), _split(maps["key"], heads))
    allowed = np.ones(scores.shape, bool)
    if step in ("scores", "weights"):
        return scores if step == "scores" else scores.softmax(allowed)
    attended = scores.attend(_split(maps["value"], heads), allowed)  # b h l v
    back = attended if step == "heads" else attended.each(lambda array: array.swapaxes(1, 2))
    return back.each(lambda array: array.reshape(*array.shape[:2], -1)) if step == "merged" else back


def visible_keys(shape: tuple[int, ...], attn_mask: Array | None, is_causal: bool) -> Array:
    """The visible keys, b h l s."""
    allowed = np.broadcast_to(True if attn_mask is None else attn_mask, shape)
    return allowed & causal_mask(shape[-2], shape[-1], np.arange) if is_causal else allowed


def _scores(
    query: WithError, key: WithError, w_query: WithError, w_key: WithError, heads: int, *,
    b_query: WithError | None = None, b_key: WithError | None = None, attn_mask: Array | None = None,
    is_causal: bool = False,
) -> tuple[WithError, Array]:  # fmt: skip
    """The scores and the visible keys, b h l s."""
    scores = scaled_dot(_split(_mapped(query, w_query, b_query), heads), _split(_mapped(key, w_key, b_key), heads))
    return scores, visible_keys(scores.shape, attn_mask, is_causal)


def _mapped(x: WithError, weights: WithError, bias: WithError | None) -> WithError:
    return x @ weights if bias is None else x.affine(weights, bias)


def _split(x: WithError, heads: int) -> WithError:
    """b l (h p) → b h l p."""
    return x.each(lambda array: np.stack(np.split(array, heads, axis=-1), axis=1))


def _dropped(weights: WithError, p: float, keep_mask: Array | None) -> WithError:
    """The weights after dropout; p = 1 keeps none."""
    if p == 1:
        return weights.each(np.zeros_like)
    assert keep_mask is not None
    return weights.each(lambda array: np.where(keep_mask, array, 0)) * (1 / (1 - p))


def mapped(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """A linear map with an optional bias."""
    return x @ weights if bias is None else x @ weights + bias


class MultiHead(Steps):
    """The formula in steps that a mutant may replace."""

    axes = Axes(query="b l q", key="b s k", value="b s v", w_query="q d", w_key="k d", w_value="v c", w_output="c o",
        b_query="d", b_key="d", b_value="c", b_output="o")  # fmt: skip

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, w_query: Tensor, w_key: Tensor, w_value: Tensor, *,
        num_heads: int, w_output: Tensor | None = None, b_query: Tensor | None = None, b_key: Tensor | None = None,
        b_value: Tensor | None = None, b_output: Tensor | None = None, attn_mask: Tensor | None = None,
        is_causal: bool = False, dropout_p: float = 0.0, attention: Attention | None = None, need_weights: bool = False,
        step: str = "", drawn: bool = False,
    ) -> Any:  # fmt: skip
        dtype, wide = query.dtype, self.wide(query)
        query, key, value, w_query, w_key, w_value = (
            tensor.to(wide) for tensor in (*self.roles(query, key, value), w_query, w_key, w_value)
        )
        b_query, b_key, b_value, w_output, b_output = (
            tensor if tensor is None else tensor.to(wide) for tensor in (b_query, b_key, b_value, w_output, b_output)
        )
        maps = self.to_queries(query, w_query, b_query), self.to_keys(key, w_key, b_key), self.to_values(value, w_value)
        heads = self.split(maps[0], num_heads), self.split(maps[1], num_heads), self.split(maps[2], num_heads)
        bias = None if b_value is None else self.split(b_value[None, None], num_heads)  # 1 h 1 v
        options = {"attn_mask": attn_mask, "is_causal": is_causal, "dropout_p": dropout_p}
        attend: Callable[..., Tensor] = lambda heads, options: self.attend(*heads, **options)  # noqa: E731
        read = shared.through_whole_identity
        if backend := self.choose(attention):
            attend, read = partial(self.attend_by_backend, backend, dtype), self.read
        attended = self.with_bias(attend, heads, bias, options).to(wide)  # b h l v
        output = self.merge(attended)  # b l c
        if w_output is not None:
            output = self.to_output(output, w_output, b_output)
        output = self.finish(output, dropout_p).to(dtype)
        if step:
            return output, {step: self.numbers(maps, b_value, num_heads, attended)[step].to(dtype)}
        if not need_weights:
            return output
        weights = read(lambda values: attend((*heads[:2], values), self.options_to_read(options)), heads[2])
        return output, self.recalled(self.returned(weights).to(dtype))

    def numbers(
        self, maps: tuple[Tensor, Tensor, Tensor], b_value: Tensor | None, heads: int, attended: Tensor
    ) -> dict[str, Tensor]:
        """The numbers of each step, without a mask; `attended` are the heads, b h l v."""
        query, key, value = (*maps[:2], maps[2] if b_value is None else maps[2] + b_value)
        mapped = {"mapped_query": query, "mapped_key": key, "mapped_value": value}
        split = {name.replace("mapped", "split"): self.split(x, heads) for name, x in mapped.items()}
        scores = split["split_query"] @ split["split_key"].mT * self.factor(split["split_query"], split["split_value"])
        rows = {"heads": attended, "heads_back": attended.transpose(1, 2), "merged": self.merge(attended)}
        return mapped | split | rows | {"scores": scores, "weights": self.softmax(scores)}

    def attend_by_backend(self, backend: Attention, dtype: torch.dtype, heads: Heads, options: Options) -> Tensor:
        """The output of every head, b h l v, in the dtype of the inputs."""
        return self.call_backend(backend, self.to_backend(heads, dtype), self.needed(options))

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, *, attn_mask: Tensor | None = None, is_causal: bool = False,
        dropout_p: float = 0.0,
    ) -> Tensor:  # fmt: skip
        """The output of every head, b h l v."""
        scores = query @ key.mT * self.factor(query, value)  # b h l s
        scores = scores if attn_mask is None else self.mask(scores, attn_mask)
        weights = self.softmax(self.causal(scores) if is_causal else scores)
        return (dropout(weights, dropout_p) if dropout_p else weights) @ value

    @staticmethod
    def check(arguments: Arguments, sizes: Sizes) -> None:
        heads, mask = arguments["num_heads"], arguments["attn_mask"]
        if arguments["w_output"] is None and arguments["b_output"] is not None:
            raise ValueError("an output bias without an output map")
        if heads < 1 or sizes["d"] % heads or sizes["c"] % heads:
            raise ValueError("the heads do not divide the columns")
        if not 0 <= arguments["dropout_p"] <= 1:
            raise ValueError("dropout_p is not a probability")
        check_mask(mask, sizes["b"], heads, sizes["l"], sizes["s"])
        if mask is not None and mask.dim() not in (2, 4):
            raise ValueError(f"the mask has {mask.dim()} axes, expected 2 or 4")

    roles = staticmethod(lambda query, key, value: (query, key, value))
    to_queries = formula(mapped)
    to_keys = formula(mapped)
    to_values = formula(lambda x, weights: x @ weights)

    @staticmethod
    def split(x: Tensor, heads: int) -> Tensor:
        """b n (h p) → b h n p."""
        parts: Tensor = x.unflatten(-1, (heads, -1))
        return parts.transpose(1, 2)

    @staticmethod
    def with_bias(
        attend: Callable[[Heads, Options], Tensor], heads: Heads, bias: Tensor | None, options: Options
    ) -> Tensor:
        """The output of every head, b h l v, whose values have this bias."""
        query, key, value = heads
        return attend((query, key, value if bias is None else value + bias), options)

    call_backend = formula(lambda attention, heads, options: attention(*heads, **options))
    choose = staticmethod(lambda attention: attention)  # the backend
    to_backend = staticmethod(lambda heads, dtype: tuple(tensor.to(dtype) for tensor in heads))  # in the inputs' dtype
    # the backend's arguments: a probability of 0 and False are left out
    needed = staticmethod(lambda options: {name: o for name, o in options.items() if isinstance(o, Tensor) or o})
    options_to_read = staticmethod(lambda options: {**options, "dropout_p": 0.0})  # when weights are read
    read = staticmethod(shared.through_identity)
    factor = staticmethod(lambda query, value: 1 / math.sqrt(query.shape[-1]))
    mask = staticmethod(masked)
    causal = formula(lambda scores: masked(scores, causal_mask(scores.shape[-2], scores.shape[-1], torch.arange)))
    softmax = staticmethod(softmax)
    merge = formula(lambda heads: heads.transpose(1, 2).flatten(2))  # b h l v → b l (h v)
    to_output = formula(mapped)
    finish = formula(lambda output, p: output)
    returned = formula(lambda weights: weights)  # the returned weights, b h l s
    recalled = formula(lambda weights: weights)


KEY_MAPS = {"w_key", "w_value", "b_key", "b_value"}
"""The weights of keys and values."""


def draw(
    random: Generator, *, batch: int = 2, queries: int = 5, keys: int = 7, num_heads: int = 2, head_width: int = 4,
    width: int = 0, value_head_width: int = 0, query_width: int = 0, key_width: int = 0, value_width: int = 0,
    out_width: int = 0, biases: tuple[str, ...] = (), size: float | Array = 1.0, peak: float = 3.0,
    mask: Mask | None = None, one_sequence: bool = False, key_heads: int = 0, **shapes: tuple[int, ...],
) -> Inputs:  # fmt: skip
    """Inputs whose scores differ by several units, and values with a non-zero mean.

    Missing widths are the `width` of all heads together; there is an output map if it has a width. Of `one_sequence`
    all three inputs are the queries. Of fewer `key_heads`, each one serves a group of neighbouring heads: theirs are
    equal. A tensor's name with a shape replaces that tensor.
    """
    width = width or num_heads * head_width
    widths = {"query": query_width or width, "key": key_width or width, "value": value_width or width}
    columns = {"query": width, "key": width, "value": num_heads * value_head_width or width, "output": out_width}
    sizes: dict[str, tuple[int, ...]]
    sizes = {name: (batch, queries if name == "query" else keys, own) for name, own in widths.items()}
    sizes |= {f"w_{name}": (own, columns[name]) for name, own in widths.items()}
    if out_width:
        sizes["w_output"] = (columns["value"], out_width)
    sizes |= {name: (columns[name.removeprefix("b_")],) for name in biases}
    inputs = {name: random.normal(size=shape) for name, shape in (sizes | shapes).items()}
    inputs |= {name: array / np.sqrt(len(array)) for name, array in inputs.items() if name[:2] == "w_"}
    inputs |= {"query": size * inputs["query"], "key": size * inputs["key"], "value": inputs["value"] + 0.5}
    inputs["w_query"] = peak * inputs["w_query"]
    for name in KEY_MAPS & inputs.keys() if key_heads else ():
        alone = inputs[name].reshape(*inputs[name].shape[:-1], num_heads, -1)[..., :key_heads, :]
        inputs[name] = np.repeat(alone, num_heads // key_heads, -2).reshape(inputs[name].shape)
    if one_sequence:
        inputs |= dict.fromkeys(("key", "value"), inputs["query"])
    return inputs if mask is None else inputs | {"attn_mask": mask(random)}


def visible(call: Call, shape: tuple[int, ...]) -> Array:
    """The visible keys, b h l s."""
    mask = call.tensors.get("attn_mask")
    return visible_keys(shape, None if mask is None else mask.numpy(), bool(call.options.get("is_causal")))


def hidden(call: Call) -> Array:
    """The hidden keys, b h l s."""
    query, key = call.tensors["query"], call.tensors["key"]
    return ~visible(call, (len(query), heads_in(call), query.shape[1], key.shape[1]))


def heads_in(call: Call) -> int:
    """The number of heads of a call."""
    return int(call.options["num_heads"] or 0)


case = Formula(oracle, POSITIONAL, draw, options=("is_causal", "dropout_p", "need_weights", "step", "drawn"),
    shared=("num_heads",), always={"num_heads": 2}, weights=attention_weights, hidden=hidden)  # fmt: skip


def heads_of(output: Array, heads: int) -> Array:
    """The heads of an output without a map, b l (h v) → b h l v."""
    return np.stack(np.split(output, heads, axis=-1), axis=1)


def group_of_keys(w_key: Tensor, heads: int) -> int:
    """The number of heads that have the keys of the first one: more than 1 in cases of grouped queries."""
    split = w_key.unflatten(-1, (heads, -1))
    return int((split == split[:, :1]).all(-1).all(0).sum())


def scripts(call: Call, first: Call) -> list[Script]:
    """The expected call of the backend, and those that read its weights, without dropout, if they are requested."""
    tensors, options, heads = call.tensors, call.options, heads_in(call)
    (items, queries, _), keys = tensors["query"].shape, tensors["key"].shape[1]
    width, value_width = (tensors[name].shape[1] // heads for name in ("w_query", "w_value"))
    may_attend, hides = None, ""
    if "attn_mask" in tensors or options.get("is_causal"):
        may_attend = visible(call, (items, heads, queries, keys))
        hides = "what attn_mask hides" if "attn_mask" in tensors else "what comes after a query, as is_causal does"
    expected = ExpectedBackendCall(
        (items, heads, queries, width), (items, heads, keys, width), (items, heads, keys, value_width),
        dtype_of(call), hides, may_attend, float(options.get("dropout_p") or 0.0),
    )  # fmt: skip
    reading = -(-keys // value_width) if call.need_weights else 0
    return [[expected, *[replace(expected, dropout_p=0.0)] * reading]]
