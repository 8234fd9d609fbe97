"""Bad input, which must raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from attnsuite.cases.call import Call, Calls, Conventions, Replies, Reply
from attnsuite.cases.case import Case, CaseWrapper
from attnsuite.cases.layouts import JUNK, padded
from attnsuite.judging.compare import nearly_equal
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import BAD_INPUT, INPUT_VALIDATION, Source, Status

Row = tuple[str, str, Mapping[str, Any]]
"""A case as a row of a table: its name without the family, why it exists, and what is unusual."""
AROUND = (JUNK, JUNK, 0)
"""What surrounds the inputs in memory, in each of the calls. The first two calls are equal, so that a random output
is not taken for a read outside of the inputs."""


class BadInputCase(CaseWrapper):
    """A case whose input must be refused; its `why` says what is wrong with it. Asked in a process of its own.

    A function is called several times with the same inputs inside larger storages, to see whether it reads beyond them.
    """

    in_worker: ClassVar[bool] = True

    def __init__(self, of: Case, source: Source | None = None) -> None:
        super().__init__(of)
        self.source, self.dtypes = source, ("float32",)

    def calls(self, dtype: str) -> Calls:
        calls = self.of.calls(dtype)
        if len(calls) > 1 or calls[0].config is not None:  # a model: to build it three times takes long
            return calls
        return tuple(_surrounded(calls[0], number) for number in AROUND)

    def expected(self, calls: Calls, conventions: Conventions) -> None:
        return None

    def verdict(self, calls: Calls, replies: Replies, truth: None) -> Verdict:
        if all(reply.raised for reply in replies):
            return Verdict(Status.PASSED, replies[0].raised)
        accepted = f"{self.why} was accepted"
        if changed := sorted({name for reply in replies for name in reply.changed}):
            return Verdict(Status.WRONG, f"{accepted}, and the memory of {' and '.join(changed)} was written")
        if len(replies) == len(AROUND) and _alike(*replies[:2]) and not _alike(*replies[1:]):
            return Verdict(
                Status.WRONG, f"{accepted}, and memory outside the inputs was read: the output depends on it"
            )
        says = f"{INPUT_VALIDATION}{accepted}; the contract requires an error"
        return Verdict(Status.WRONG, says, accepted=self.family == BAD_INPUT)  # else it is a document's example


def _surrounded(call: Call, number: int) -> Call:
    """The call with each tensor inside a larger storage that holds this number elsewhere."""
    return replace(call, tensors={name: padded(tensor, number) for name, tensor in call.tensors.items()})


def _alike(one: Reply, other: Reply) -> bool:
    """Whether two replies are the same but for rounding."""
    if one.output is None or other.output is None:
        return one.output is other.output
    if (one.output.shape, one.output.dtype) != (other.output.shape, other.output.dtype):
        return False
    return nearly_equal(one.output, other.output)
