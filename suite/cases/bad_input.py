"""Bad input, which must raise an error."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from attnsuite.cases.call import Calls, Conventions, Replies, Reply
from attnsuite.cases.case import Case, CaseWrapper
from attnsuite.cases.layouts import JUNK, padded
from attnsuite.judging.compare import nearly_equal
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import BAD_INPUT, INPUT_VALIDATION, Source, Status

Row = tuple[str, str, Mapping[str, Any]]
"""A case as a row of a table: its name without the family, its reason, and what is unusual."""
AROUND = (JUNK, JUNK, 0, JUNK)
"""The numbers around the inputs in memory, by call. Two equal calls come before the one with other numbers and one
after it: a random output, or one that depends on earlier calls, is not taken for a read outside of the inputs."""


class BadInputCase(CaseWrapper):
    """A case whose input must be refused, for the reason in `why`. It runs in a process of its own, several times with
    the same inputs inside larger storages, to detect reads beyond them.
    """

    in_worker: ClassVar[bool] = True

    def __init__(self, base: Case, source: Source | None = None) -> None:
        super().__init__(base)
        self.source, self.dtypes = source, ("float32",)

    def calls(self, dtype: str) -> Calls:
        calls = self.base.calls(dtype)
        if len(calls) > 1 or calls[0].config is not None:  # a model, which takes long to build
            return calls
        tensors = calls[0].tensors
        surrounded = ({name: padded(tensor, number) for name, tensor in tensors.items()} for number in AROUND)
        return tuple(replace(calls[0], tensors=padded_tensors, state=()) for padded_tensors in surrounded)

    def expected(self, calls: Calls, conventions: Conventions) -> None:
        return None

    def verdict(self, calls: Calls, replies: Replies, expected: None) -> Verdict:
        if all(reply.error for reply in replies):
            return Verdict(Status.PASSED, replies[0].error)
        accepted = f"{self.why} was accepted"
        if changed := sorted({name for reply in replies for name in reply.changed}):
            return Verdict(Status.FAILED, f"{accepted}, and the memory of {' and '.join(changed)} was written")
        if len(replies) == len(AROUND) and _depends_on_memory(replies):
            says = f"{accepted}, and memory outside the inputs was read: the output depends on it"
            return Verdict(Status.FAILED, says)
        says = f"{INPUT_VALIDATION}{accepted}; the contract requires an error"
        return Verdict(Status.FAILED, says, accepted=self.family == BAD_INPUT)  # else it is a document's example


def _depends_on_memory(replies: Replies) -> bool:
    """Whether the call with other numbers around its inputs alone gave another result."""
    equal = [_equal(replies[0], reply) for reply in replies]
    return equal == [around == AROUND[0] for around in AROUND]


def _equal(reply: Reply, other: Reply) -> bool:
    """Whether two replies are equal except for rounding."""
    if reply.output is None or other.output is None:
        return reply.output is other.output
    alike = (reply.output.shape, reply.output.dtype) == (other.output.shape, other.output.dtype)
    return alike and nearly_equal(reply.output, other.output)
