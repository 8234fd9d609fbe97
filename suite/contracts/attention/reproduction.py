"""The smallest failing call of attention: steps that simplify a call, and its text in plain torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Case, Conventions, Reply
from attnsuite.cases.contract import Reproducer
from attnsuite.cases.expected import Expected, WithinBounds
from attnsuite.cases.formula import UPSTREAM
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.returned_weights import WEIGHTS_NAMES
from attnsuite.contracts.attention.cases.several_calls import CallSequence
from attnsuite.contracts.attention.feature import Grid, features, visible
from attnsuite.contracts.attention.features.sinks import with_sinks
from attnsuite.judging import compare
from attnsuite.model import Status

AXES: Mapping[str, Mapping[int, str]] = {
    "query": {-1: "e", -2: "l", -3: "h", -4: "b"},
    "key": {-1: "e", -2: "s", -3: "g", -4: "b"},
    "value": {-1: "v", -2: "s", -3: "g", -4: "b"},
    "output_gradient": {-1: "v", -2: "l", -3: "h", -4: "b"},
    "second_gradient": {-1: "l", -2: "h", -3: "b"},
    "sinks": {-1: "h"},
}
"""The axes of each tensor from the right; masks have those of the scores, b h l s."""
OF_MASKS = {-1: "s", -2: "l", -3: "h", -4: "b"}
LITERAL = 48
"""The most numbers of a call that are written out; more fill the screen, and are drawn from a seed instead."""
SEEDS = (0, 1, 2)
"""The seeds that are tried: with most numbers a mistake shows."""
JUNK = 977
"""The number between the numbers of a tensor with gaps; see layouts.py."""
WIDEST = 110
"""Characters of a line: what terminals show without a break."""
FEW = 8
"""The most numbers of a result that are printed whole; of more, the one that is farthest off is printed."""
MOST = 4000
"""The most characters of a reproduction: longer ones are no help."""
HARMLESS = frozenset({"rank2", "rank3", "value_width"})
"""The features that a smaller call may need: they are not why it fails, as an empty row or a lack of keys may be."""
SHOWN = 64
"""The keys of the calls that show dropped weights: 4,096 weights give a probability to a few per cent."""
DIFFER = "results differ from call to call"
"""How the difference of equal calls begins, in words."""
EMPTY = "weights = (scores - scores.amax(-1, True).detach().clamp_min(-1e300)).exp()"
"""A softmax whose empty rows are 0 and have gradients of 0; it is not yet normalised."""

# What can be simpler: each function yields calls that differ from a failing one in one respect


def _tensors(call: Call) -> dict[str, Tensor]:
    """The tensors of a call, with the gradients of its outputs."""
    upstream = {name: getattr(call, name) for name in UPSTREAM}
    return {**call.tensors, **{name: tensor for name, tensor in upstream.items() if tensor is not None}}


def _changed(call: Call, change: Callable[[str, Tensor], Tensor]) -> Call:
    tensors = {name: change(name, tensor) for name, tensor in _tensors(call).items()}
    upstream: dict[str, Any] = {name: tensors.pop(name, None) for name in UPSTREAM}
    return replace(call, **upstream, tensors=tensors)


def plainer_ways(call: Call) -> Iterator[Call]:
    """Called in the usual thread and mode, with tensors of their own."""
    if call.own_thread or call.same_storage:
        yield replace(call, own_thread=False, same_storage=False)
    if not call.grad_mode:
        yield replace(call, grad_mode=True)
    if call.same_tensor:
        yield replace(call, same_tensor=())


def fewer_options(call: Call) -> Iterator[Call]:
    """Without one of the options or masks."""
    heads = {call.tensors[name].shape[-3] for name in ("query", "key") if call.tensors[name].dim() > 2}
    for name in set(call.options) - ({"enable_gqa"} if len(heads) > 1 else set()):
        options = {other: value for other, value in call.options.items() if other != name}
        second: dict[str, Any] = {"second": "", "second_gradient": None} if name == "return_lse" else {}
        yield replace(call, options=options, **second)
    for name in set(call.tensors) - set(INPUTS):
        tensors = {other: tensor for other, tensor in call.tensors.items() if other != name}
        yield replace(call, tensors=tensors, gradient_of=tuple(other for other in call.gradient_of if other != name))


def fewer_gradients(call: Call) -> Iterator[Call]:
    """Without any gradient, or with one alone."""
    if call.gradient_of or call.requires_gradient:
        yield replace(call, gradient_of=(), requires_gradient=(), output_gradient=None, second_gradient=None)
    if len(call.gradient_of) > 1:
        yield from (replace(call, gradient_of=(name,)) for name in call.gradient_of)


def contiguous(call: Call) -> Iterator[Call]:
    """All tensors contiguous, or one of them."""
    strided = [name for name, tensor in _tensors(call).items() if not _is_plain(tensor)]
    for names in [strided, *([name] for name in strided)] if strided else []:
        plain = {name: _tensors(call)[name].contiguous().clone() for name in names}
        yield _changed(call, plain.get)


def smaller_sizes(call: Call) -> Iterator[Call]:
    """Along each axis: its first or last entry, half, or all but one. Heads in groups shrink by whole groups first, and
    as many queries as keys together.
    """
    inputs = [(call.tensors[name], AXES[name]) for name in INPUTS]
    sizes = {letter: x.shape[axis] for x, axes in inputs for axis, letter in axes.items() if x.dim() >= -axis}
    grouped = sizes.get("h") != sizes.get("g")
    if grouped and sizes["g"]:
        group = sizes["h"] // sizes["g"]
        for part in _parts(sizes["g"]):
            yield _cut(_cut(call, "h", slice(part.start * group, part.stop * group)), "g", part)
        if sizes["g"] == 1:
            yield from (_cut(call, "h", part) for part in _parts(group))
    square = sizes.get("l") == sizes.get("s")
    for axes in ("b", *(() if grouped else ("hg",)), *(("ls",) if square else ()), "l", "s", "v", "e"):
        if axes[0] in sizes:
            yield from (_cut(call, axes, part) for part in _parts(sizes[axes[0]]))


def _parts(size: int) -> Iterator[slice]:
    halves = (size // 2,) if size > 3 else ()
    for count in (1, *halves, size - 1):
        if 0 < count < size:
            yield slice(0, count)
            yield slice(size - count, size)


def _cut(call: Call, axes: str, part: slice) -> Call:
    """The call with a part of these axes. Contiguous tensors stay contiguous, other strides stay."""

    def change(name: str, tensor: Tensor) -> Tensor:
        index = [slice(None)] * tensor.dim()
        for axis, letter in AXES.get(name, OF_MASKS).items():
            if letter in axes and tensor.dim() >= -axis and (name in AXES or tensor.shape[axis] > 1):
                index[axis] = part
        smaller = tensor[tuple(index)]
        return smaller.contiguous().clone() if _is_plain(tensor) else smaller

    return _changed(call, change)


def fewer_axes(call: Call) -> Iterator[Call]:
    """Rank 2 where there is one item and head, rank 3 where there is one item."""
    shapes = [call.tensors[name].shape for name in ("query", "key")]
    for rank in range(2, len(shapes[0])):
        if all(set(shape[: len(shape) - rank]) == {1} for shape in shapes):
            less = partial(lambda to, name, x: x[(0,) * max(x.dim() - to + (name == "second_gradient"), 0)], rank)
            yield _changed(call, less)


def simpler_numbers(call: Call) -> Iterator[Call]:
    """Numbers drawn from a seed where there are many; else one tensor after the other in rounder numbers."""
    if sum(tensor.numel() for tensor in call.tensors.values()) > LITERAL:
        if seed_of(call) is None:
            yield from (seeded(call, seed) for seed in SEEDS)
        return
    for name, tensor in _tensors(call).items():
        if tensor.dtype.is_floating_point and tensor.numel():
            yield from (_changed(call, {name: rounder}.get) for rounder in _rounder(tensor))


def blank(call: Call) -> Call:
    """The same call whose numbers are all 1, row by row."""
    return _changed(call, lambda name, tensor: torch.ones_like(tensor, memory_format=torch.contiguous_format))


def seeded(call: Call, seed: int) -> Call:
    """The call with numbers that torch draws from a seed, in the order of its tensors; strides stay."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _changed(call, lambda name, tensor: _like(tensor, torch.rand(tensor.shape) > 0.3
            if tensor.dtype == torch.bool else torch.randn(tensor.shape, dtype=tensor.dtype)))  # fmt: skip


def seed_of(call: Call) -> int | None:
    """The seed that the numbers of a call come from, if one of those that are tried."""
    own = _tensors(call).values()
    return next((seed for seed in SEEDS if all(map(torch.equal, own, _tensors(seeded(call, seed)).values()))), None)


def _rounder(tensor: Tensor) -> Iterator[Tensor]:
    """The same tensor in numbers that take fewer characters; infinite ones stay."""
    units = (torch.arange(tensor.numel()) % 2).to(tensor.dtype).view(tensor.shape)  # 0 and 1: neighbours differ
    rounded = (tensor.clamp(-1, 1).round(), tensor.round(), (tensor * 10).round() / 10)
    for numbers in (torch.zeros_like(tensor), torch.ones_like(tensor), units, *rounded):
        rounded_tensor = torch.where(tensor.isfinite(), numbers + 0.0, tensor)  # no −0
        if len(_literal(rounded_tensor)) < len(_literal(tensor)) or _plainness(rounded_tensor) < _plainness(tensor):
            yield rounded_tensor.contiguous() if 0 in tensor.stride() else _like(tensor, rounded_tensor)


def _plainness(tensor: Tensor) -> int:
    """The number of entries that are neither 0 nor 1."""
    return int(((tensor != 0) & (tensor != 1)).sum())


# How tensors are laid out and written


def _is_plain(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.storage_offset()


def _like(tensor: Tensor, numbers: Tensor) -> Tensor:
    """Other numbers, laid out as a tensor is, with junk in its gaps."""
    if _is_plain(tensor) or not tensor.numel():
        return numbers.contiguous()
    strides, size = _extent(tensor)
    junk = torch.full((size,), JUNK).to(tensor.dtype)
    return junk.as_strided(tensor.shape, strides, tensor.storage_offset()).copy_(numbers)


def _extent(tensor: Tensor) -> tuple[tuple[int, ...], int]:
    """The strides of a tensor, 1 where they are 0, and the numbers that a storage needs to hold it."""
    strides = tuple(stride or 1 for stride in tensor.stride())
    reach = sum((n - 1) * by for n, by in zip(tensor.shape, strides, strict=True))
    return strides, int(tensor.storage_offset() + reach + 1)


def _as_text(tensor: Tensor, drawn: bool) -> str:
    """The tensor as an expression in plain torch: a literal, or a draw from the seed that is set."""
    if _is_plain(tensor) or not tensor.numel():
        return _values(tensor, drawn)
    stored = tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]
    if stored.shape != tensor.shape and not drawn:
        return f"{_as_text(stored.contiguous(), drawn)}.expand{tuple(tensor.shape)}"
    strides, size = _extent(tensor)
    place = f"{tuple(tensor.shape)}, {strides}, {tensor.storage_offset()}"
    return f"torch.full(({size},), {JUNK}{_dtype(tensor, '.')}).as_strided({place}).copy_({_values(tensor, drawn)})"


def _values(tensor: Tensor, drawn: bool) -> str:
    shape = ", ".join(map(str, tensor.shape)) or "()"
    if drawn:
        return f"torch.rand({shape}) > 0.3" if tensor.dtype == torch.bool else f"torch.randn({shape}{_dtype(tensor)})"
    if tensor.numel() > LITERAL or not tensor.numel():
        for number, name in ((1, "ones"), (0, "zeros")):
            if (tensor == number).all():
                return f"torch.{name}({shape}{_dtype(tensor)})"
    return f"torch.tensor({_literal(tensor)}{_dtype(tensor)})"


def _dtype(tensor: Tensor, usual: str = "") -> str:
    return usual if tensor.dtype in (torch.float32, torch.bool) else f", dtype={tensor.dtype}"


def _literal(tensor: Tensor) -> str:
    """The numbers, each as the shortest decimal that is this number in its dtype."""
    if tensor.dim():
        return f"[{', '.join(map(_literal, tensor))}]"
    number = tensor.item()
    if tensor.dtype == torch.bool or not math.isfinite(number):
        return str(number) if tensor.dtype == torch.bool else f"float('{number}')"
    texts = (f"{number:.{digits}g}" for digits in range(1, 18))
    text = next(text for text in texts if torch.tensor(float(text), dtype=tensor.dtype) == tensor)
    return text if {".", "e"} & set(text) else f"{text}."


# How a failing call is written


def written(call: Call, reply: Reply, expected: Expected | None, conventions: Conventions) -> Sequence[str]:
    """A failing call as lines of plain torch, with the formula of the expected output; none if torch cannot say it."""
    seed, formula = seed_of(call), _formula(call, conventions)
    if call.own_thread or call.same_storage or formula is None:
        return ()
    lines = [] if seed is None else [f"torch.manual_seed({seed})"]
    lines += _packed(_definitions(call, seed is not None))
    if isinstance(expected, WithinBounds):
        lines += _printed(call, reply, expected, formula)
    else:
        lines.append(f'print("actual", {_called(call)}.shape, "expected: an error")')
    return lines if sum(map(len, lines)) <= MOST else ()


def _definitions(call: Call, drawn: bool) -> Iterator[tuple[str, str]]:
    needing = {*call.gradient_of, *call.requires_gradient}
    for name, tensor in _tensors(call).items():
        if name in call.same_tensor[1:]:
            yield name, call.same_tensor[0]
        else:
            text = _as_text(tensor, drawn)
            yield name, f"({text}).requires_grad_()" if name in needing else text


def _packed(definitions: Iterable[tuple[str, str]]) -> list[str]:
    """As few assignments as fit their lines; what uses another name gets a line of its own."""
    rows: list[list[tuple[str, str]]] = []
    for name, text in definitions:
        together = [*rows[-1], (name, text)] if rows else []
        if together and len(_assigned(together)) <= WIDEST and text not in INPUTS:
            rows[-1] = together
        else:
            rows.append([(name, text)])
    return [_assigned(row) for row in rows]


def _assigned(row: Sequence[tuple[str, str]]) -> str:
    return f"{', '.join(name for name, _ in row)} = {', '.join(text for _, text in row)}"


def _called(call: Call) -> str:
    """The call itself, with the options that it has."""
    options = {name: name for name in call.tensors if name not in call.positional}
    options |= {name: repr(value) for name, value in call.options.items()}
    arguments = ", ".join([*call.positional, *(f"{name}={value}" for name, value in options.items())])
    return f"{'attention' if call.grad_mode else 'torch.no_grad()(attention)'}({arguments})"


STAGES: Mapping[str, tuple[str, ...]] = {
    "source": ("key", "value"), "score": ("scores",), "visibility": ("scores",), "weights": ("weights",), "output": (),
}  # fmt: skip
"""The expressions that a feature changes at its stage."""


def _formula(call: Call, conventions: Conventions) -> list[str] | None:
    """The expected output, in float64; None where a feature cannot be said in plain torch."""
    texts = {"key": "key.double()", "value": "value.double()", "scores": "", "weights": "scores.softmax(-1)"}
    empty = _leaves_rows_empty(call, conventions)
    if empty:
        texts["weights"] = "weights / weights.sum(-1, True).clamp_min(1e-300)"
    for feature in features():
        value = feature.value({**call.options, **call.tensors})
        if feature.in_torch is None and value is not None:
            return None
        for name in STAGES[feature.stage] if feature.in_torch else ():
            text = feature.in_torch(texts[name], value, call, conventions)  # type: ignore[misc]
            if text is None:
                return None
            texts[name] = text
        if feature.stage == "source":
            texts["scores"] = f"query.double() @ {texts['key']}.mT"
    expected = f"expected = {texts['weights']} @ {texts['value']}"
    return [f"scores = {texts['scores']}", *([EMPTY] if empty else []), expected]


def _leaves_rows_empty(call: Call, conventions: Conventions) -> bool:
    """Whether some query may attend to nothing, though there are keys."""
    queries, keys = (call.tensors[name].shape[-2] for name in ("query", "key"))
    grid = Grid(torch.arange(queries), torch.arange(keys), queries, keys)
    seen = visible({**call.options, **call.tensors}, grid, conventions)
    return keys > 0 and seen is not None and not bool(seen.any(-1).all())


def _printed(call: Call, reply: Reply, expected: WithinBounds, formula: Sequence[str]) -> list[str]:
    """Compute the expected output, make the call, print both where they differ most."""
    called = f"{_called(call)}[0]" if reply.pair or call.second else _called(call)
    if reply.error or reply.output is None:
        return [*formula, 'print("expected", expected.tolist())', f'print("actual", {called})']
    if expected.form.unfit(reply) and not expected.form.gradients_complaint(reply):
        return _form(called, reply, formula)
    if reply.weights is not None and not expected.verdict(replace(reply, weights=None)).detail:
        return _weights(call, reply.weights_name, formula)
    name, place = _worst(reply, expected)
    if name == call.second != "":
        lines = [*formula[:-1], f"actual, expected = {_called(call)}[1], {_lse(call)}"]
    elif name and call.second_gradient is not None:
        upstream, both = "output_gradient.to(o[0]), second_gradient.to(o[1])", f"(expected, {_lse(call)})"
        gradients = f"(torch.autograd.grad(o, {name}, [{upstream}])[0] for o in ({_called(call)}, {both}))"
        lines = [*formula, f"actual, expected = {gradients}"]
    elif name:
        gradients = f"(torch.autograd.grad(o, {name}, output_gradient.to(o))[0] for o in ({called}, expected))"
        lines = [*formula, f"actual, expected = {gradients}"]
    else:
        lines = [*formula, f"actual = {called}"]
    at = f"[{', '.join(map(str, place))}].item()" if place else ".tolist()"
    return [*lines, f'print("actual", actual{at}, "expected", expected{at})']


def _lse(call: Call) -> str:
    """The expected log-sum-exp, from the scores of the keys."""
    sinks = call.tensors.get("sinks")
    return f"{'scores' if sinks is None else with_sinks(call)}.logsumexp(-1)"


def _weights(call: Call, name: str, formula: Sequence[str]) -> list[str]:
    """The weights of a pair whose output is right; they may have a name there."""
    *steps, last = formula
    second = f"[1][{name!r}]" if name in WEIGHTS_NAMES else "[1]"
    printed = 'print("actual", actual.tolist(), "expected", expected.tolist())'
    return [*steps, last.rpartition(" @ ")[0], f"actual = {_called(call)}{second}", printed]


def _form(called: str, reply: Reply, formula: Sequence[str]) -> list[str]:
    """A result that is wrong in other ways than in its numbers."""
    if reply.changed:
        name = reply.changed[0]
        before = f"before, actual = {name}.clone(), {called}"
        return [before, f'print("{name} before", before.tolist(), "and after", {name}.tolist())']
    if reply.aliased:
        other = reply.aliased[0]
        addresses = ", ".join(f"{name}.untyped_storage().data_ptr()" for name in ("actual", other))
        return [f"actual = {called}", f'print("addresses of the output and of {other}, which differ:", {addresses})']
    printed = 'print("actual", actual.shape, actual.dtype, "expected", expected.shape, query.dtype)'
    return [*formula, f"actual = {called}", printed]


def _worst(reply: Reply, expected: WithinBounds) -> tuple[str, tuple[int, ...]]:
    """The gradient or second output that is wrong, empty for the output, and its worst place where it has too many
    numbers to print.
    """
    pairs = [("", reply.output, expected.output, expected.accept)]
    pairs += [(name, reply.gradients[name], bounded, 1.0) for name, bounded in expected.gradients.items()]
    for name, tensor, bounded, accept in pairs:
        if tensor is None or tensor.numel() != bounded.value.size:
            return name, ()
        actual = compare.numbers(tensor)
        errors = compare.errors(actual, *(x.reshape(actual.shape) for x in (bounded.value, bounded.bound)))
        if errors.max(initial=0.0) > accept:
            worst = np.unravel_index(int(errors.argmax()), errors.shape)
            return name, tuple(map(int, worst)) if errors.size > FEW else ()
    seconds = (expected.attentions or {}).items()
    return next((name for name, second in seconds if second.verdict(name, reply).status != Status.PASSED), ""), ()


def case_of(calls: Calls) -> Case:
    """A case of these very calls, each compared with the oracle."""
    return CallSequence("reproduction/smallest", "the smallest call that fails", lambda draw: calls)


def equal_calls() -> Calls:
    """Two calls with equal scores, whose values are the identity: the output is the weights, 1/SHOWN each."""
    zeros = torch.zeros(1, 1, SHOWN, SHOWN)
    call = Call({"query": zeros, "key": zeros.clone(), "value": torch.eye(SHOWN)[None, None]})
    return call, call


def noise(replies: Sequence[Reply]) -> str:
    """How the outputs of equal calls differ: by weights that were dropped, with what probability, or otherwise."""
    first, second = (reply.output for reply in replies)
    if first is None or second is None or first.shape != second.shape or compare.nearly_equal(first, second):
        return ""
    kept = first[first != 0].double()
    p = 1 - 1 / (SHOWN * float(kept.mean()))
    share, deviation = 1 - kept.numel() / first.numel(), math.sqrt(max(p * (1 - p), 0.0) / first.numel())
    if 0 < p < 1 and float(kept.max() - kept.min()) < 1e-3 * float(kept.mean()) and abs(share - p) < 5 * deviation:
        return f"{DIFFER}: weights are dropped with p = {p:.3g}, though no dropout was requested"
    return f"{DIFFER}, though nothing random was requested"


def reproducing() -> Reproducer:
    """The functions that reduce a failing call of attention and write it as plain torch."""
    simpler = (plainer_ways, fewer_options, fewer_gradients, contiguous, smaller_sizes, fewer_axes, simpler_numbers)
    conventions = frozenset(point for feature in features() if feature.visible for point in feature.conventions)
    return Reproducer(case_of, simpler, written, conventions, blank, HARMLESS, equal_calls(), noise)
