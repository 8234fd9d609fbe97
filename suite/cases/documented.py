"""Cases whose result a document gives: the numbers as they are printed, or the shape of unseeded draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnsuite.cases.call import Calls, Conventions, Replies
from attnsuite.cases.case import Case, CaseWrapper, ChangedCase
from attnsuite.cases.expected import Expected, PerCallCase
from attnsuite.cases.tensors import PRECISE, Array, numbers
from attnsuite.judging import compare
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Figures, Source, Status

Arrange = Callable[[Array, Mapping[str, Array]], Array]
"""Makes the documented array from an output and the attention weights by name."""

DERIVED = 1e-9
"""Relative tolerance of numbers that were derived in high precision rather than printed."""
ROUNDED_INPUTS = 4e-6
"""What rounding literal inputs to float32 may change, relatively."""
SINGLE = 1e-5
"""What a document's own run in float32 may have lost of numbers over many orders of magnitude, relatively."""


class DocumentedNumbers(ChangedCase):
    """A case of one call with numbers in a document."""

    def __init__(
        self,
        base: PerCallCase,
        figures: Figures,
        select: Callable[[Array], Array] = np.asarray,
    ) -> None:
        """`select` picks the printed part of the output."""
        super().__init__(base)
        self.figures, self.select, self.source, self.dtypes = figures, select, figures.source, PRECISE

    @property
    def printed(self) -> Array:
        """The numbers that the document prints."""
        return numbers(self.figures.values)

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Expected]) -> Verdict:
        verdict, result = self.base.verdict(calls, replies, expected), expected[0]
        if verdict.status != Status.PASSED:
            return verdict
        actual, printed = self.printed_part(replies), self.printed
        if actual.shape != printed.shape:
            return Verdict(Status.FAILED, f"output has shape {actual.shape}, the document prints {printed.shape}")
        tolerance = self.tolerance(result, str(result.form.dtype)[6:])
        if result.decided is not None and result.decided.any():
            declared = self.select(result.numbers)
            same = compare.errors(declared, printed, np.nan_to_num(tolerance)) <= 1
            printed = np.where(self.select(result.decided) & ~same, declared, printed)
        if complaint := compare.difference(actual, printed, tolerance):
            return Verdict(Status.FAILED, f"the document has another number: {complaint}", output_wrong=True)
        return verdict

    def printed_part(self, replies: Replies) -> Array:
        """The printed part of the reply."""
        output = replies[0].output
        assert output is not None, "the form has been checked"
        return self.select(compare.numbers(output))

    def tolerance(self, expected: Expected, dtype: str) -> Array:
        """Half a unit of the last printed digit, plus what the dtype may cost."""
        size = np.where(np.isfinite(self.printed), abs(self.printed), 0.0)  # an infinity has no digits
        unit: Array | float = DERIVED * size + 1e-12
        if self.figures.decimals is not None:
            unit = 0.5 * 10.0**-self.figures.decimals
        elif self.figures.significant is not None:
            digit = 10.0 ** (np.floor(np.log10(size + 1e-45)) + 1 - self.figures.significant)
            unit = 0.5 * digit + SINGLE * size
        rounding = ROUNDED_INPUTS if dtype == "float32" else 0.0
        return np.asarray(unit + rounding * size + self.slack(expected), dtype=np.float64)

    def slack(self, expected: Expected) -> Array:
        """What the dtype may cost of the printed part."""
        return self.select(expected.slack)


class DocumentedShape(ChangedCase):
    """A case of one call with a shape in a document: of the output, or of what `arrange` makes of it."""

    def __init__(
        self, base: Case, source: Source, shape: Sequence[int], arrange: Arrange = lambda output, weights: output
    ) -> None:
        super().__init__(base)
        self.source, self.shape, self.arrange, self.dtypes = source, tuple(shape), arrange, PRECISE

    def verdict(self, calls: Calls, replies: Replies, expected: Sequence[Expected]) -> Verdict:
        verdict, reply = self.base.verdict(calls, replies, expected), replies[0]
        if verdict.status != Status.PASSED or reply.output is None:
            return verdict
        weights = {
            name: compare.numbers(weights) for name, weights in reply.attention_weights.items() if weights is not None
        }
        shape = self.arrange(compare.numbers(reply.output), weights).shape
        if shape != self.shape:
            return Verdict(Status.FAILED, f"output has shape {shape}, the document prints {self.shape}")
        return verdict


class CasePair(CaseWrapper):
    """A case, and another case of one call: zeros that are right in the first are wrong in the second."""

    def __init__(self, base: Case, second: Case) -> None:
        super().__init__(base)
        self.second = second

    def calls(self, dtype: str) -> Calls:
        return (*self.base.calls(dtype), *self.second.calls(dtype))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Any, Any]:
        return self.base.expected(calls[:-1], conventions), self.second.expected(calls[-1:], conventions)

    def verdict(self, calls: Calls, replies: Replies, expected: tuple[Any, Any]) -> Verdict:
        verdict = self.base.verdict(calls[:-1], replies[:-1], expected[0])
        if verdict.status != Status.PASSED:
            return verdict
        verdict = self.second.verdict(calls[-1:], replies[-1:], expected[1])
        return verdict if verdict.status == Status.PASSED else replace(verdict, detail=f"second call: {verdict.detail}")

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: tuple[Any, Any]) -> bool:
        return self.base.alike(calls[:-1], replies[:-1], theirs[:-1], expected[0]) and self.second.alike(
            calls[-1:], replies[-1:], theirs[-1:], expected[1]
        )

    def counts(self, expected: tuple[Any, Any]) -> bool:
        return self.base.counts(expected[0])
