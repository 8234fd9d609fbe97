"""The numbers of a call that is to be pasted: few and round, or drawn from a seed; and how tensors are written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from attnsuite.cases import Call

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


def written(tensor: Tensor, drawn: bool) -> str:
    """The tensor as an expression in plain torch: a literal, or a draw from the seed that is set."""
    if not _has_gaps(tensor):
        return _values(tensor, drawn)
    kept = tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())
    if tensor[kept].shape != tensor.shape and not drawn:
        return f"{written(tensor[kept].contiguous(), drawn)}.expand{tuple(tensor.shape)}"
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
