"""The usual question to a contract whose oracle bounds its own errors: one call, one tensor held against the truth."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from suite import asking
from suite.asking import NO_MODEL, Call, Conventions, Reply
from suite.judging import compare
from suite.judging.precision import PRECISIONS, Bounded, widest
from suite.judging.rounded import Rounded
from suite.judging.verdicts import Verdict, closest, unlike
from suite.records import DTYPES, Example, Status

Array = np.ndarray[Any, Any]
Generator = np.random.Generator
Inputs = Mapping[str, Array]
"""Arguments by name: numbers in float64, masks as bool, tokens and lengths as int64."""
Oracle = Callable[..., Rounded]
"""A formula in the contract's words: numbers come as `Rounded`, masks and integers as arrays, options as they are."""

DERIVED = 1e-9
"""Relative tolerance of numbers that were derived in high precision rather than printed."""
ROUNDED_INPUTS = 4e-6
"""What rounding literal inputs to float32 may change, relatively."""
SINGLE = 1e-5
"""What a document's own run in float32 may have lost of numbers over many orders of magnitude, relatively."""


def generator(name: str) -> Generator:
    """The random numbers of a case depend on its name alone."""
    return np.random.Generator(np.random.Philox(zlib.crc32(name.encode())))


@dataclass(frozen=True)
class Question(asking.Case):
    """One call. `draw` makes its inputs; those named in `positional` are passed by position."""

    name: str
    why: str
    oracle: Oracle
    draw: Callable[[Generator], Inputs]
    positional: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = DTYPES

    def calls(self, dtype: str) -> tuple[Call, ...]:
        tensors = {name: as_tensor(array, dtype) for name, array in self.draw(generator(self.name)).items()}
        return (Call(tensors, self.options, self.positional),)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Bounded:
        (call,) = calls
        precision = PRECISIONS[dtype_of(call)]
        asked = {
            name: Rounded.exact(compare.numbers(tensor), precision, widest(dtype_of(call)))
            if tensor.dtype.is_floating_point
            else tensor.numpy()
            for name, tensor in call.tensors.items()
        }
        with np.errstate(all="ignore"):
            return self.oracle(**asked, **call.options).bounded

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Bounded) -> Verdict:
        return hold(replies[0], truth, getattr(torch, dtype_of(calls[0])))

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Bounded
    ) -> bool:
        """Equal within the bounds of the truth, widened by what the other computation may have lost."""
        other, dtype = theirs[0].output, dtype_of(calls[0])
        if other is None or tuple(other.shape) != truth.value.shape:
            return False
        values = compare.numbers(other)
        room = np.nan_to_num(truth.bound) + 8 * PRECISIONS[dtype].unit * np.nan_to_num(abs(values))
        return hold(replies[0], Bounded(values, room), getattr(torch, dtype)).status == "passed"


@dataclass(frozen=True)
class Printed(Question):
    """A question with an answer in a document: the numbers as they are printed, or derived from its definition."""

    printed: Any = ()
    decimals: int | None = None
    """How many decimals were printed; None for derived numbers."""
    significant: int | None = None
    """How many significant digits were printed, where that is what they have in common."""
    select: Callable[[Array], Array] = np.asarray
    """What of the output was printed."""
    dtypes: tuple[str, ...] = ("float64", "float32")

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Bounded) -> Verdict:
        verdict = super().verdict(calls, replies, truth)
        if verdict.status != "passed" or replies[0].output is None:
            return verdict
        actual, printed = self.select(compare.numbers(replies[0].output)), numbers(self.printed)
        if actual.shape != printed.shape:
            return Verdict(Status.WRONG, f"output has shape {actual.shape}, the document prints {printed.shape}")
        if complaint := compare.difference(actual, printed, self.tolerance(dtype_of(calls[0]), truth)):
            return Verdict(Status.WRONG, f"the document has another number: {complaint}", output_wrong=True)
        return verdict

    def tolerance(self, dtype: str, truth: Bounded) -> Array:
        """Half a unit of the last printed digit, plus what the dtype may cost."""
        printed = numbers(self.printed)
        unit: Array | float = DERIVED * abs(printed) + 1e-12
        if self.decimals is not None:
            unit = 0.5 * 10.0**-self.decimals
        elif self.significant is not None:
            digit = 10.0 ** (np.floor(np.log10(abs(printed) + 1e-45)) + 1 - self.significant)
            unit = 0.5 * digit + SINGLE * abs(printed)
        rounding = ROUNDED_INPUTS if dtype == "float32" else 0.0
        return np.asarray(unit + rounding * abs(printed) + self.select(truth.bound), dtype=np.float64)

    def example(self) -> Example:
        """The printed numbers beside the oracle's, for the reader."""
        due = self.select(self.truth(self.calls("float64"), {}).value.astype(np.float64))
        given = numbers(self.printed)
        decimals = 6 if self.decimals is None else self.decimals
        printed = first(given.reshape(due.shape) if given.size == due.size else given, decimals)
        note = f"not printed; derived from the definition: {printed}" if self.decimals is None else ""
        return row(self, "" if note else printed, first(due, decimals), note)


@dataclass(frozen=True)
class Shaped(Question):
    """An example whose numbers are unseeded draws: its shape remains."""

    shape: tuple[int, ...] = ()
    dtypes: tuple[str, ...] = ("float64", "float32")

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Bounded) -> Verdict:
        verdict, output = super().verdict(calls, replies, truth), replies[0].output
        if verdict.status == "passed" and output is not None and tuple(output.shape) != self.shape:
            return Verdict(Status.WRONG, f"output has shape {tuple(output.shape)}, the document prints {self.shape}")
        return verdict

    def example(self) -> Example:
        computed = self.truth(self.calls("float64"), {}).value.shape
        return row(self, str(self.shape), str(computed), "unseeded draws")


class MustRaise(asking.Case):
    """What must be refused; `why` says what it is. Asked in a process of its own."""

    dtypes: tuple[str, ...] = ("float32",)
    in_worker: ClassVar[bool] = True

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> None:
        return None

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: None) -> Verdict:
        if replies[0].raised:
            return Verdict(Status.PASSED, replies[0].raised)
        return Verdict(Status.WRONG, f"accepted {self.why}; an error was due")


@dataclass(frozen=True)
class Refused(MustRaise):
    """Bad input to a function."""

    name: str
    why: str
    draw: Callable[[Generator], Inputs]
    positional: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        tensors = {name: as_tensor(array, dtype) for name, array in self.draw(generator(self.name)).items()}
        return (Call(tensors, self.options, self.positional),)


def hold(reply: Reply, due: Bounded, dtype: torch.dtype, name: str = "output") -> Verdict:
    """Hold one reply against the truth: first what it is, then its numbers."""
    if complaint := unfit(reply, due.value.shape, dtype, name):
        return complaint
    assert reply.output is not None
    return closest([(name, compare.numbers(reply.output), due, 1.0)])


def unfit(reply: Reply, shape: tuple[int, ...], dtype: torch.dtype, name: str = "output") -> Verdict | None:
    """What is wrong with a reply before any number is read: errors, types, shapes, dtypes, changed or shared inputs."""
    if reply.raised:
        return Verdict(Status.RAISED, reply.raised)
    if reply.output is None:
        due = "a callable" if reply.kind.endswith(NO_MODEL) else "a Tensor"
        return Verdict(Status.WRONG, f"returned {reply.kind}, should return {due}")
    if complaint := unlike(name, reply.output, shape, dtype):
        return Verdict(Status.WRONG, complaint)
    if reply.changed:
        return Verdict(Status.WRONG, f"changed its input {' and '.join(reply.changed)}")
    if reply.aliased:
        return Verdict(Status.WRONG, f"the {name} shares memory with {' and '.join(reply.aliased)}")
    if reply.overwritten:
        return Verdict(Status.WRONG, f"a later call changed this {name}")
    return None


def within(lengths: Any, keys: int) -> Array:
    """Valid lengths b or b l as a boolean mask b 1 s or b l s."""
    valid = np.asarray(lengths)
    mask: Array = np.arange(keys) < valid.reshape(*valid.shape, *(1,) * (3 - valid.ndim))
    return mask


def dtype_of(call: Call) -> str:
    """The dtype that a call is asked in: that of its numbers, or of the model's weights."""
    tensors = (*call.tensors.values(), *call.weights.values())
    return next(str(tensor.dtype).removeprefix("torch.") for tensor in tensors if tensor.dtype.is_floating_point)


def as_tensor(array: Array, dtype: str) -> Tensor:
    """Numbers in the dtype; masks, tokens and lengths as they are."""
    tensor = torch.from_numpy(np.array(array))
    return tensor.to(getattr(torch, dtype)) if tensor.dtype.is_floating_point else tensor


def numbers(values: Any) -> Array:
    """Nested lists as float64, with "-inf" and "nan" as such."""
    return np.asarray(values, dtype=object).astype(np.float64)


def row(case: asking.Case, printed: str, computed: str, note: str) -> Example:
    """What a document prints beside what is computed. `why` says where: "doc-004, section 11.2: y_hat"."""
    document, _, _ = case.name.removeprefix("documents/").partition("/")
    section, quantity = case.why.partition("section ")[2].split(": ")
    return Example(case.name, document, section, quantity, printed, computed, note=note)


def first(values: Array, decimals: int, most: int = 6) -> str:
    """The first numbers of an array, row by row."""
    flat = values.reshape(-1)
    return ", ".join(f"{value:.{decimals}f}" for value in flat[:most]) + (", …" if flat.size > most else "")
