"""A test case as data: the calls that it makes, the results that it expects, and how it judges replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attnsuite.cases.call import Calls, Conventions, Replies
from attnsuite.model import DTYPES, Source

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.judging.verdicts import Verdict


Traits = Mapping[str, Sequence[str]]
"""Unusual properties of a case in words, by topic: `{"width": ("a width above 64",)}`.

Phrases are nouns; those of the topic `HOW` are adverbs, such as `backward`.
"""
HOW = "how"


class Case(ABC):
    """One test case: its name `family/what`, its reason, and what is unusual about its inputs."""

    name: str
    why: str
    dtypes: tuple[str, ...] = DTYPES
    devices: tuple[str, ...] = ("cpu", "cuda")
    source: Source | None = None
    """Where a document has this example, if one has it."""
    in_worker: ClassVar[bool] = False
    """Runs in a process of its own for every implementation: its calls may crash the process."""

    def on(self, *devices: str) -> Self:
        """The same case, on these kinds of device alone."""
        limited = copy(self)
        object.__setattr__(limited, "devices", devices)  # a case may be frozen
        return limited

    @property
    def family(self) -> str:
        """The part of the name before the first slash."""
        return self.name.split("/")[0]

    @abstractmethod
    def calls(self, dtype: str) -> Calls:
        """The calls to make, in order, in one process."""

    @abstractmethod
    def expected(self, calls: Calls, conventions: Conventions) -> Any:
        """The expected results, computed from the calls alone, before an implementation sees the inputs."""

    @abstractmethod
    def verdict(self, calls: Calls, replies: Replies, expected: Any) -> Verdict:
        """Compare the replies with the expected results."""

    def traits(self, dtype: str) -> Traits:
        """The unusual properties of the case in this dtype, read from its fields; empty where they are unknown."""
        return {}

    def lengths(self) -> Mapping[str, int]:
        """The numbers of `keys` and `queries` and the `width`, of cases that have one of each; else empty."""
        return {}

    def counts(self, expected: Any) -> bool:
        """Whether a mutant that fails here counts as killed: not where loose bounds leave that to chance."""
        return True

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Any) -> bool:
        """Whether two sets of replies are equal within the bounds, for diagnosis."""
        return False

    def draws(self, calls: Calls, replies: Replies, expected: Any) -> Mapping[int, Tensor]:
        """The dropout masks that the replies reveal, by seed: diagnosis gives them to the mutants."""
        return {}


class CaseWrapper(Case):
    """A case with the calls of another case; subclasses say what they expect and how they judge."""

    def __init__(self, base: Case) -> None:
        self.base = base
        self.name, self.why, self.dtypes = base.name, base.why, base.dtypes
        self.devices, self.source = base.devices, base.source

    def calls(self, dtype: str) -> Calls:
        return self.base.calls(dtype)

    def traits(self, dtype: str) -> Traits:
        return self.base.traits(dtype)

    def lengths(self) -> Mapping[str, int]:
        return self.base.lengths()


class ChangedCase(CaseWrapper):
    """Another case with a difference: all that a subclass does not override is that case's."""

    def expected(self, calls: Calls, conventions: Conventions) -> Any:
        return self.base.expected(calls, conventions)

    def verdict(self, calls: Calls, replies: Replies, expected: Any) -> Verdict:
        return self.base.verdict(calls, replies, expected)

    def counts(self, expected: Any) -> bool:
        return self.base.counts(expected)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, expected: Any) -> bool:
        return self.base.alike(calls, replies, theirs, expected)

    def draws(self, calls: Calls, replies: Replies, expected: Any) -> Mapping[int, Tensor]:
        return self.base.draws(calls, replies, expected)


def list_tests(cases: Iterable[Case], device: str, dtypes: Container[str] = DTYPES) -> list[tuple[Case, str]]:
    """The tests on a kind of device: each case in each of its dtypes that is wanted."""
    return [
        (case, dtype)
        for case in cases
        if device in case.devices
        for dtype in DTYPES
        if dtype in case.dtypes and dtype in dtypes
    ]
