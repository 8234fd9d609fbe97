"""What may be simpler about a call of attention: options, gradients, layout, sizes, numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from attnsuite.cases import Call
from attnsuite.cases.contract import Simpler
from attnsuite.cases.layouts import INPUTS
from attnsuite.contracts.attention.reproduction.numbers import simpler_numbers

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


RESPECTS: tuple[Simpler, ...] = (
    plainer_ways, fewer_options, fewer_gradients, contiguous, smaller_sizes, fewer_axes, simpler_numbers,
)  # fmt: skip


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
