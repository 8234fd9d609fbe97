"""Cases whose answer a document gives: the numbers as they are printed, or the shape of unseeded draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnsuite.cases.call import Calls, Conventions, Replies
from attnsuite.cases.case import Case, CaseWrapper, ChangedCase
from attnsuite.cases.expected import Expected, PerCallCase
from attnsuite.cases.tensors import PRECISE, Array, numbers
from attnsuite.judging import compare
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Example, Figures, Source, Status

DERIVED = 1e-9
"""Relative tolerance of numbers that were derived in high precision rather than printed."""
ROUNDED_INPUTS = 4e-6
"""What rounding literal inputs to float32 may change, relatively."""
SINGLE = 1e-5
"""What a document's own run in float32 may have lost of numbers over many orders of magnitude, relatively."""
SHOWN = 6
"""How many numbers of an example a table shows, and with how many decimals where a document prints none."""


class DocumentedNumbers(ChangedCase):
    """A case of one call with an answer in a document, in numbers."""

    def __init__(
        self,
        of: PerCallCase,
        figures: Figures,
        select: Callable[[Array], Array] = np.asarray,
        *,
        remark: str = "",
        where_decided: str = "",
    ) -> None:
        """`select` is what of the output is printed, `remark` what the table says behind the quantity.

        `where_decided` is what the table says where the contract decides otherwise than the document.
        """
        super().__init__(of)
        self.figures, self.select, self.remark, self.where_decided = figures, select, remark, where_decided
        self.source, self.dtypes = figures.source, PRECISE

    @property
    def printed(self) -> Array:
        """The numbers as the document gives them."""
        return numbers(self.figures.values)

    def verdict(self, calls: Calls, replies: Replies, truth: Sequence[Expected]) -> Verdict:
        found, due = self.of.verdict(calls, replies, truth), truth[0]
        if found.status != Status.PASSED:
            return found
        actual, printed = self.answered(replies), self.printed
        if actual.shape != printed.shape:
            return Verdict(Status.WRONG, f"output has shape {actual.shape}, the document prints {printed.shape}")
        tolerance = self.tolerance(due, str(due.form.dtype)[6:])
        if due.decided is not None and due.decided.any():
            decides = self.select(due.decided)
            printed = np.where(decides, self._as_declared(self.select(due.numbers), printed, tolerance), printed)
        if complaint := compare.difference(actual, printed, tolerance):
            return Verdict(Status.WRONG, f"the document has another number: {complaint}", output_wrong=True)
        return found

    def answered(self, replies: Replies) -> Array:
        """What came of what is printed."""
        output = replies[0].output
        assert output is not None, "the form has been looked at"
        return self.select(compare.numbers(output))

    def computed(self, dues: Sequence[Expected]) -> Array:
        """What the oracle has for it."""
        return self.select(dues[0].numbers)

    @staticmethod
    def _as_declared(due: Array, printed: Array, tolerance: Array) -> Array:
        """The document's numbers where they are due by the declared convention; else what is due by it."""
        same = compare.errors(due, printed, np.nan_to_num(tolerance)) <= 1
        return np.where(same, printed, due)

    def tolerance(self, due: Expected, dtype: str) -> Array:
        """Half a unit of the last printed digit, plus what the dtype may cost."""
        size = np.where(np.isfinite(self.printed), abs(self.printed), 0.0)  # an infinity is no number with digits
        unit: Array | float = DERIVED * size + 1e-12
        if self.figures.decimals is not None:
            unit = 0.5 * 10.0**-self.figures.decimals
        elif self.figures.significant is not None:
            digit = 10.0 ** (np.floor(np.log10(size + 1e-45)) + 1 - self.figures.significant)
            unit = 0.5 * digit + SINGLE * size
        rounding = ROUNDED_INPUTS if dtype == "float32" else 0.0
        return np.asarray(unit + rounding * size + self.room(due), dtype=np.float64)

    def room(self, due: Expected) -> Array:
        """What the dtype may cost of what is printed."""
        return self.select(due.room)

    def example(self) -> Example:
        """The printed numbers beside the oracle's."""
        due, *_ = dues = self.expected(self.calls("float64"), {})
        decimals = SHOWN if self.figures.decimals is None else self.figures.decimals
        printed, computed = first_numbers(self.printed, decimals), first_numbers(self.computed(dues), decimals)
        derived = self.figures.source.given != "digits" and self.figures.decimals is None
        notes = [f"not printed; derived from the definition: {printed}"] if derived else []
        if due.decided is not None and due.decided.any() and self.where_decided:
            notes.append(self.where_decided)
        row = example(self.name, self.figures.source, "" if derived else printed, computed, "; ".join(notes))
        return replace(row, quantity=row.quantity + self.remark)


class DocumentedShape(ChangedCase):
    """A case of one call with a shape in a document, whose numbers are unseeded draws."""

    def __init__(self, of: PerCallCase, source: Source, shape: Sequence[int]) -> None:
        super().__init__(of)
        self.source, self.shape, self.dtypes = source, tuple(shape), PRECISE

    def verdict(self, calls: Calls, replies: Replies, truth: Sequence[Expected]) -> Verdict:
        found, output = self.of.verdict(calls, replies, truth), replies[0].output
        if found.status == Status.PASSED and output is not None and tuple(output.shape) != self.shape:
            return Verdict(Status.WRONG, f"output has shape {tuple(output.shape)}, the document prints {self.shape}")
        return found

    def example(self) -> Example:
        due, *_ = self.expected(self.calls("float64"), {})
        assert self.source is not None
        return example(self.name, self.source, str(self.shape), str(due.form.shape), "unseeded draws")


class CasePair(CaseWrapper):
    """A case, and another one of one call beside it: zeros that are right in the one are wrong in the other."""

    def __init__(self, of: Case, beside: Case) -> None:
        super().__init__(of)
        self.beside = beside

    def calls(self, dtype: str) -> Calls:
        """The case's own, and last the one beside it."""
        return (*self.of.calls(dtype), *self.beside.calls(dtype))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Any, Any]:
        return self.of.expected(calls[:-1], conventions), self.beside.expected(calls[-1:], conventions)

    def verdict(self, calls: Calls, replies: Replies, truth: tuple[Any, Any]) -> Verdict:
        found = self.of.verdict(calls[:-1], replies[:-1], truth[0])
        if found.status != Status.PASSED:
            return found
        beside = self.beside.verdict(calls[-1:], replies[-1:], truth[1])
        return beside if beside.status == Status.PASSED else replace(beside, detail=f"beside it: {beside.detail}")

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: tuple[Any, Any]) -> bool:
        return self.of.alike(calls[:-1], replies[:-1], theirs[:-1], truth[0]) and self.beside.alike(
            calls[-1:], replies[-1:], theirs[-1:], truth[1]
        )

    def counts(self, truth: tuple[Any, Any]) -> bool:
        return self.of.counts(truth[0])

    def example(self) -> Example | None:
        return self.of.example()


def example(name: str, source: Source, printed: str, computed: str, note: str) -> Example:
    """What a document prints beside what is computed."""
    where = (source.document, source.section, source.quantity)
    return Example(name, *where, printed, computed, note=note, given=source.given)


def first_numbers(values: Array, decimals: int) -> str:
    """The first numbers of an array, row by row."""
    flat = values.reshape(-1)
    return ", ".join(f"{value:.{decimals}f}" for value in flat[:SHOWN]) + (", …" if flat.size > SHOWN else "")
