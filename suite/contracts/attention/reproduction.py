"""The smallest failing call of attention: what can be simpler about a call, and how it is written as plain torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Conventions, Reply
from attnsuite.cases.contract import Reproducer, Simpler
from attnsuite.cases.expected import Expected, PerCallCase, WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.returned_weights import WEIGHTS_NAMES
from attnsuite.contracts.attention import feature
from attnsuite.contracts.attention.cases.case import due
from attnsuite.contracts.attention.feature import features
from attnsuite.judging import compare

AXES: Mapping[str, Mapping[int, str]] = {
    "query": {-1: "e", -2: "l", -3: "h", -4: "b"},
    "key": {-1: "e", -2: "s", -3: "g", -4: "b"},
    "value": {-1: "v", -2: "s", -3: "g", -4: "b"},
    "output_gradient": {-1: "v", -2: "l", -3: "h", -4: "b"},
}
"""The axes of each tensor from the right; masks have those of the scores, b h l s."""
OF_MASKS = {-1: "s", -2: "l", -3: "h", -4: "b"}
Change = Callable[[str, Tensor], Tensor]


def everything(call: Call) -> dict[str, Tensor]:
    """The tensors of a call, that of the output's gradient among them."""
    given = {} if call.output_gradient is None else {"output_gradient": call.output_gradient}
    return {**call.tensors, **given}


def changed(call: Call, change: Change) -> Call:
    """The call with all its tensors changed."""
    found = {name: change(name, tensor) for name, tensor in everything(call).items()}
    return replace(call, output_gradient=found.pop("output_gradient", None), tensors=found)


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
    for name in call.options:
        yield replace(call, options={each: value for each, value in call.options.items() if each != name})
    for name in set(call.tensors) - set(INPUTS):
        tensors = {each: tensor for each, tensor in call.tensors.items() if each != name}
        yield replace(call, tensors=tensors, gradient_of=tuple(each for each in call.gradient_of if each != name))


def fewer_gradients(call: Call) -> Iterator[Call]:
    """Without any gradient, or with one alone."""
    if call.gradient_of:
        yield replace(call, gradient_of=(), output_gradient=None)
    if len(call.gradient_of) > 1:
        yield from (replace(call, gradient_of=(name,)) for name in call.gradient_of)


def contiguous(call: Call) -> Iterator[Call]:
    """All tensors row by row, or one of them."""
    if not all(_is_plain(tensor) for tensor in everything(call).values()):
        yield changed(call, lambda name, tensor: tensor.contiguous().clone())
    for which, tensor in everything(call).items():
        if not _is_plain(tensor):
            yield changed(call, partial(_made_contiguous, which))


def _made_contiguous(which: str, name: str, tensor: Tensor) -> Tensor:
    return tensor.contiguous().clone() if name == which else tensor


def smaller_sizes(call: Call) -> Iterator[Call]:
    """Along each axis: its first or last entry, half, or all but one. Heads in groups shrink by whole groups first, and
    as many queries as keys together.
    """
    sizes = _sizes(call)
    grouped = sizes.get("h") != sizes.get("g")
    if grouped and sizes["g"]:
        yield from _fewer_groups(call, sizes["h"] // sizes["g"], sizes["g"])
    square = sizes.get("l") == sizes.get("s")
    for axes in ("b", *(() if grouped else ("hg",)), *(("ls",) if square else ()), "l", "s", "v", "e"):
        if axes[0] in sizes:
            yield from (_cut(call, axes, part) for part in _parts(sizes[axes[0]]))


def fewer_axes(call: Call) -> Iterator[Call]:
    """Rank 2 where there is one item and head, rank 3 where there is one item."""
    shapes = [call.tensors[name].shape for name in ("query", "key")]
    for rank in range(2, len(shapes[0])):
        if all(set(shape[: len(shape) - rank]) == {1} for shape in shapes):
            yield changed(call, partial(_without_axes, rank))


def _without_axes(rank: int, name: str, tensor: Tensor) -> Tensor:
    return tensor[(0,) * max(tensor.dim() - rank, 0)]


def blank(call: Call) -> Call:
    """The same call whose numbers are all 1, row by row."""
    return changed(call, lambda name, tensor: torch.ones_like(tensor, memory_format=torch.contiguous_format))


def _is_plain(tensor: Tensor) -> bool:
    return tensor.is_contiguous() and not tensor.storage_offset()


def _sizes(call: Call) -> dict[str, int]:
    """The size of each axis that the inputs have."""
    return {
        letter: call.tensors[name].shape[axis]
        for name in INPUTS
        for axis, letter in AXES[name].items()
        if call.tensors[name].dim() >= -axis
    }


def _parts(size: int) -> Iterator[slice]:
    halves = (size // 2,) if size > 3 else ()
    for count in (1, *halves, size - 1):
        if 0 < count < size:
            yield slice(0, count)
            yield slice(size - count, size)


def _fewer_groups(call: Call, group: int, groups: int) -> Iterator[Call]:
    for part in _parts(groups):
        yield _cut(_cut(call, "h", slice(part.start * group, part.stop * group)), "g", part)
    if groups == 1:
        yield from (_cut(call, "h", part) for part in _parts(group))


def _cut(call: Call, axes: str, part: slice) -> Call:
    """The call with a part of these axes. What was laid out row by row stays so, other strides are kept."""

    def change(name: str, tensor: Tensor) -> Tensor:
        letters = AXES.get(name, OF_MASKS)
        index = [slice(None)] * tensor.dim()
        for axis, letter in letters.items():
            if letter in axes and tensor.dim() >= -axis and (name in AXES or tensor.shape[axis] > 1):
                index[axis] = part
        found = tensor[tuple(index)]
        return found.contiguous().clone() if _is_plain(tensor) else found

    return changed(call, change)


LITERAL = 48
"""The numbers of a call that are written out; more fill the screen, and are drawn from a seed instead."""
SEEDS = (0, 1, 2)
"""Seeds that are tried: with most numbers a mistake shows."""
JUNK = 977
"""What stands between the numbers of a tensor with gaps; see layouts.py."""


def simpler_numbers(call: Call) -> Iterator[Call]:
    """Numbers drawn from a seed where there are many; else one tensor after the other in rounder numbers."""
    if sum(tensor.numel() for tensor in call.tensors.values()) > LITERAL:
        if seed_of(call) is None:
            yield from (seeded(call, seed) for seed in SEEDS)
        return
    tensors = dict(call.tensors)
    if call.output_gradient is not None:
        tensors["output_gradient"] = call.output_gradient
    for name, tensor in tensors.items():
        if tensor.dtype.is_floating_point and tensor.numel():
            yield from (_with(call, name, rounder) for rounder in _rounder(tensor))


def seeded(call: Call, seed: int) -> Call:
    """The call with numbers that torch draws from a seed, in the order of its tensors; strides stay."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        tensors = {name: _drawn(tensor) for name, tensor in call.tensors.items()}
        upstream = None if call.output_gradient is None else _drawn(call.output_gradient)
    return replace(call, tensors=tensors, output_gradient=upstream)


def seed_of(call: Call) -> int | None:
    """The seed that the numbers of a call come from, if one of those that are tried."""
    return next((seed for seed in SEEDS if _equal(seeded(call, seed), call)), None)


def as_text(tensor: Tensor, drawn: bool) -> str:
    """The tensor as an expression in plain torch: a literal, or a draw from the seed that is set."""
    if not _has_gaps(tensor):
        return _values(tensor, drawn)
    kept = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
    if tensor[kept].shape != tensor.shape and not drawn:
        return f"{as_text(tensor[kept].contiguous(), drawn)}.expand{tuple(tensor.shape)}"
    strides = tuple(stride or 1 for stride in tensor.stride())
    place = f"{tuple(tensor.shape)}, {strides}, {tensor.storage_offset()}"
    junk = f"torch.full(({_room(tensor, strides)},), {JUNK}{_dtype(tensor, '.')})"
    return f"{junk}.as_strided({place}).copy_({_values(tensor, drawn)})"


def _values(tensor: Tensor, drawn: bool) -> str:
    shape = ", ".join(map(str, tensor.shape)) or "()"
    if drawn and tensor.dtype == torch.bool:
        return f"torch.rand({shape}) > 0.3"
    if drawn:
        return f"torch.randn({shape}{_dtype(tensor)})"
    if tensor.numel() > LITERAL or not tensor.numel():
        for number, name in ((1, "ones"), (0, "zeros")):
            if (tensor == number).all():
                return f"torch.{name}({shape}{_dtype(tensor)})"
    return f"torch.tensor({_literal(tensor)}{_dtype(tensor)})"


def _dtype(tensor: Tensor, usual: str = "") -> str:
    return usual if tensor.dtype in (torch.float32, torch.bool) else f", dtype={tensor.dtype}"


def _literal(tensor: Tensor) -> str:
    if tensor.dim():
        return f"[{', '.join(map(_literal, tensor))}]"
    return str(tensor.item()) if tensor.dtype == torch.bool else _number(tensor)


def _number(tensor: Tensor) -> str:
    """The shortest decimal that is this number in its dtype."""
    number = tensor.item()
    if not math.isfinite(number):
        return f"float('{number}')"
    texts = (f"{number:.{digits}g}" for digits in range(1, 18))
    text = next(text for text in texts if torch.tensor(float(text), dtype=tensor.dtype) == tensor)
    return text if {".", "e"} & set(text) else f"{text}."


def _rounder(tensor: Tensor) -> Iterator[Tensor]:
    """The same tensor in numbers that take fewer characters; infinite ones stay."""
    finite = tensor.isfinite()
    length = len(_literal(tensor))
    shapes = (torch.zeros_like(tensor), torch.ones_like(tensor), _units(tensor), tensor.clamp(-1, 1).round())
    for found in (*shapes, tensor.round(), (tensor * 10).round() / 10):
        rounded = torch.where(finite, found + 0.0, tensor)  # no −0
        if len(_literal(rounded)) < length or _plainness(rounded) < _plainness(tensor):
            yield rounded.contiguous() if 0 in tensor.stride() else _like(tensor, rounded)


def _like(tensor: Tensor, numbers: Tensor) -> Tensor:
    """Other numbers, laid out as a tensor is, with junk in its gaps."""
    if not _has_gaps(tensor):
        return numbers.contiguous()
    strides = tuple(stride or 1 for stride in tensor.stride())
    junk = torch.full((_room(tensor, strides),), JUNK).to(tensor.dtype)
    return junk.as_strided(tensor.shape, strides, tensor.storage_offset()).copy_(numbers)


def _room(tensor: Tensor, strides: tuple[int, ...]) -> int:
    """The numbers that a storage needs to hold a tensor with these strides."""
    return int(tensor.storage_offset() + sum((n - 1) * by for n, by in zip(tensor.shape, strides, strict=True)) + 1)


def _units(tensor: Tensor) -> Tensor:
    """0 and 1 in turn, so that neighbours differ."""
    return (torch.arange(tensor.numel()) % 2).to(tensor.dtype).view(tensor.shape)


def _plainness(tensor: Tensor) -> int:
    """How many of the numbers are neither 0 nor 1."""
    return int(((tensor != 0) & (tensor != 1)).sum())


def _with(call: Call, name: str, tensor: Tensor) -> Call:
    if name == "output_gradient":
        return replace(call, output_gradient=tensor)
    return replace(call, tensors={**call.tensors, name: tensor})


def _drawn(tensor: Tensor) -> Tensor:
    if tensor.dtype == torch.bool:
        return _like(tensor, torch.rand(tensor.shape) > 0.3)
    return _like(tensor, torch.randn(tensor.shape, dtype=tensor.dtype))


def _has_gaps(tensor: Tensor) -> bool:
    return bool(tensor.numel()) and (not tensor.is_contiguous() or bool(tensor.storage_offset()))


def _equal(one: Call, other: Call) -> bool:
    gradients = (one.output_gradient, other.output_gradient)
    alike = gradients[1] is None or torch.equal(*gradients)  # type: ignore[arg-type]
    return alike and all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


WIDEST = 110
"""Characters of a line: what terminals show without a break."""
FEW = 8
"""The numbers of an answer that are printed whole; of more, the one that is farthest off is printed."""
MOST = 4000
"""Characters of a reproduction: longer ones are no help."""
EMPTY = "weights = (scores - scores.amax(-1, True).detach().clamp_min(-1e300)).exp()"
"""A softmax whose empty rows are 0 and have gradients of 0; it is not yet normalised."""


def written(call: Call, reply: Reply, due: Expected | None, conventions: Conventions) -> Sequence[str]:
    """The lines; none where the call cannot be said in plain torch."""
    seed = seed_of(call)
    formula = _formula(call, conventions)
    if call.own_thread or call.same_storage or formula is None:
        return ()
    drawn = [] if seed is None else [f"torch.manual_seed({seed})"]
    lines = [*drawn, *_packed(_definitions(call, seed is not None))]
    lines += _printed(call, reply, due, formula) if isinstance(due, WithinBounds) else [_accepted(call)]
    return lines if sum(map(len, lines)) <= MOST else ()


def _definitions(call: Call, drawn: bool) -> Iterator[tuple[str, str]]:
    for name, tensor in call.tensors.items():
        if name in call.same_tensor[1:]:
            yield name, call.same_tensor[0]
            continue
        text = as_text(tensor, drawn)
        wants = name in call.gradient_of
        yield name, f"({text}).requires_grad_()" if wants else text
    if call.output_gradient is not None:
        yield "output_gradient", as_text(call.output_gradient, drawn)


def _packed(definitions: Iterator[tuple[str, str]]) -> list[str]:
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
    """The call itself, with the options that are given."""
    masks = {name: name for name in call.tensors if name not in call.positional}
    options = {name: repr(value) for name, value in call.options.items()}
    given = [*call.positional, *(f"{name}={value}" for name, value in (masks | options).items())]
    text = f"attention({', '.join(given)})"
    return text if call.grad_mode else f"torch.no_grad()(attention){text.removeprefix('attention')}"


def _formula(call: Call, conventions: Conventions) -> list[str] | None:
    """The expected output, in float64; None where a feature cannot be said in plain torch."""
    arguments = {**call.options, **call.tensors}
    texts = {"key": "key.double()", "value": "value.double()", "scores": "", "weights": "scores.softmax(-1)"}
    empty = _leaves_rows_empty(call, conventions)
    if empty:
        texts["weights"] = "weights / weights.sum(-1, True).clamp_min(1e-300)"
    for each in feature.features():
        changed = _changed(each, texts, each.value(arguments), call, conventions)
        if changed is None:
            return None
        texts = changed
        if each.stage == "source":
            texts["scores"] = f"query.double() @ {texts['key']}.mT"
    scores = f"scores = {texts['scores']}"
    weights = [EMPTY] if empty else []
    return [scores, *weights, f"expected = {texts['weights']} @ {texts['value']}"]


def _leaves_rows_empty(call: Call, conventions: Conventions) -> bool:
    """Whether some query may attend to nothing, though there are keys."""
    queries, keys = (call.tensors[name].shape[-2] for name in ("query", "key"))
    grid = feature.Grid(torch.arange(queries), torch.arange(keys), queries, keys)
    seen = feature.visible({**call.options, **call.tensors}, grid, conventions)
    return keys > 0 and seen is not None and not bool(seen.any(-1).all())


def _changed(
    each: feature.Feature, texts: dict[str, str], value: Any, call: Call, conventions: Conventions
) -> dict[str, str] | None:
    """The expressions after a feature has done its part at its stage."""
    if each.in_torch is None:
        return texts if value is None else None
    at = {"source": ("key", "value"), "score": ("scores",), "visibility": ("scores",), "weights": ("weights",)}
    found = {name: each.in_torch(texts[name], value, call, conventions) for name in at[each.stage]}
    return None if None in found.values() else {**texts, **found}  # type: ignore[dict-item]


def _printed(call: Call, reply: Reply, due: WithinBounds, formula: Sequence[str]) -> list[str]:
    """Compute the expected output, make the call, print both where they differ most."""
    called = f"{_called(call)}[0]" if reply.pair else _called(call)
    if reply.raised or reply.output is None:
        return [*formula, 'print("expected", expected.tolist())', f'print("actual", {called})']
    if due.form.unfit(reply) and not due.form.of_gradients(reply):
        return _form(called, reply, formula)
    if reply.weights is not None and not due.verdict(replace(reply, weights=None)).detail:
        return _weights(call, reply.weights_name, formula)
    name, place = _worst(reply, due)
    if name:
        both = f"({called}, expected)"
        gradients = f"(torch.autograd.grad(o, {name}, output_gradient.to(o))[0] for o in {both})"
        lines = [*formula, f"actual, expected = {gradients}"]
    else:
        lines = [*formula, f"actual = {called}"]
    at = f"[{', '.join(map(str, place))}].item()" if place else ".tolist()"
    return [*lines, f'print("actual", actual{at}, "expected", expected{at})']


def _weights(call: Call, name: str, formula: Sequence[str]) -> list[str]:
    """Of a pair whose output is right: the weights beside it, which may have a name there."""
    *steps, last = formula
    expected, _, _ = last.rpartition(" @ ")
    beside = f"[1][{name!r}]" if name in WEIGHTS_NAMES else "[1]"
    printed = 'print("actual", actual.tolist(), "expected", expected.tolist())'
    return [*steps, expected, f"actual = {_called(call)}{beside}", printed]


def _form(called: str, reply: Reply, formula: Sequence[str]) -> list[str]:
    """What is wrong about an answer beside its numbers."""
    if reply.changed:
        name = reply.changed[0]
        before = f"before, actual = {name}.clone(), {called}"
        return [before, f'print("{name} before", before.tolist(), "and after", {name}.tolist())']
    if reply.aliased:
        addresses = ", ".join(f"{each}.untyped_storage().data_ptr()" for each in ("actual", reply.aliased[0]))
        return [
            f"actual = {called}",
            f'print("addresses of the output and of {reply.aliased[0]}, which differ:", {addresses})',
        ]
    printed = 'print("actual", actual.shape, actual.dtype, "expected", expected.shape, query.dtype)'
    return [*formula, f"actual = {called}", printed]


def _accepted(call: Call) -> str:
    return f'print("actual", {_called(call)}.shape, "expected: an error")'


def _worst(reply: Reply, due: WithinBounds) -> tuple[str, tuple[int, ...]]:
    """The gradient that is wrong, empty for the output, and its worst place where it has too many numbers to print."""
    pairs = [("", reply.output, due.output, due.accept)]
    pairs += [(name, reply.gradients[name], bounded, 1.0) for name, bounded in due.gradients.items()]
    for name, tensor, bounded, accept in pairs:
        if tensor is None or tensor.numel() != bounded.value.size:
            return name, ()
        actual = compare.numbers(tensor)
        value = bounded.value.reshape(actual.shape)
        errors = compare.errors(actual, value, bounded.bound.reshape(actual.shape))
        if errors.max(initial=0.0) > accept:
            worst = np.unravel_index(int(errors.argmax()), errors.shape)
            return name, tuple(map(int, worst)) if errors.size > FEW else ()
    return "", ()


RESPECTS: tuple[Simpler, ...] = (
    plainer_ways, fewer_options, fewer_gradients, contiguous, smaller_sizes, fewer_axes, simpler_numbers,
)  # fmt: skip


@dataclass(frozen=True)
class AsCalled(PerCallCase):
    """These very calls, each held against the oracle."""

    made: Calls
    name: str = "reproduction/smallest"
    why: str = "the smallest call that fails"

    def calls(self, dtype: str) -> Calls:
        return self.made

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        return tuple(due(call, conventions) for call in calls)


def reproducing() -> Reproducer:
    """What attention knows of its calls."""
    said = frozenset(point for each in features() if each.visible for point in each.conventions)
    return Reproducer(AsCalled, RESPECTS, written, said, blank)
