"""One question: how it is asked, what is true, and how replies are judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Self

from attnsuite.cases.call import Calls, Conventions, Replies
from attnsuite.model import DTYPES, Example, Source

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.judging.verdicts import Verdict

Traits = Mapping[str, Sequence[str]]
"""What is unusual about a question, in words, by what it is about: `{"width": ("a width above 64",)}`.

Several may be about the same. A phrase is a noun; those about HOW it is asked are adverbs: `backward`.
"""
HOW = "how"


class Case(ABC):
    """One question, as data: a name, why it exists, and only what is unusual about it.

    The name is `family/what`. Subclasses say how to ask (`calls`), what is true (`truth`, computed before any
    implementation sees the inputs) and how replies are judged (`verdict`).
    """

    name: str
    why: str
    dtypes: tuple[str, ...] = DTYPES
    devices: tuple[str, ...] = ("cpu", "cuda")
    """The kinds of device on which it is asked; `on` names others."""
    source: Source | None = None
    """Where a document has the example that is asked, if one has."""
    in_worker: ClassVar[bool] = False
    """Asked in a process of its own, whatever the implementation: its calls may take the process down."""

    def on(self, *devices: str) -> Self:
        """The same case, asked on these kinds of device alone."""
        limited = copy(self)
        object.__setattr__(limited, "devices", devices)  # a case may be frozen
        return limited

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    @abstractmethod
    def calls(self, dtype: str) -> Calls:
        """The calls to make, in order, in one process."""

    @abstractmethod
    def expected(self, calls: Calls, conventions: Conventions) -> Any:
        """What is true, computed from the calls alone."""

    @abstractmethod
    def verdict(self, calls: Calls, replies: Replies, truth: Any) -> Verdict:
        """Hold the replies against the truth."""

    def traits(self, dtype: str) -> Traits:
        """What is unusual about it in this dtype, from its fields alone; nothing where it cannot be said."""
        return {}

    def lengths(self) -> Mapping[str, int]:
        """The numbers of `keys` and `queries` and the `width`, for cases that have one of each; else nothing."""
        return {}

    def counts(self, truth: Any) -> bool:
        """Whether catching a deviation here counts: not where bounds had to be so loose that luck decides."""
        return True

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: Any) -> bool:
        """Whether two sets of replies are equal within the bounds, for diagnosis; False where that makes no sense."""
        return False

    def draws(self, calls: Calls, replies: Replies, truth: Any) -> Mapping[int, Tensor]:
        """What the replies show to be kept under each seed, for diagnosis: deviations are asked with these draws."""
        return {}

    def example(self) -> Example | None:
        """What a document gives beside what the oracle computes; None where no document gives anything."""
        return None


class CaseWrapper(Case):
    """A case that makes the calls of another one; subclasses say what is true of them, and how replies are judged."""

    def __init__(self, of: Case) -> None:
        self.of = of
        self.name, self.why, self.dtypes, self.devices, self.source = of.name, of.why, of.dtypes, of.devices, of.source

    def calls(self, dtype: str) -> Calls:
        return self.of.calls(dtype)

    def traits(self, dtype: str) -> Traits:
        return self.of.traits(dtype)

    def lengths(self) -> Mapping[str, int]:
        return self.of.lengths()


class ChangedCase(CaseWrapper):
    """Another case with a difference. It asks, knows and judges as that one does, but for what a subclass overrides."""

    def expected(self, calls: Calls, conventions: Conventions) -> Any:
        return self.of.expected(calls, conventions)

    def verdict(self, calls: Calls, replies: Replies, truth: Any) -> Verdict:
        return self.of.verdict(calls, replies, truth)

    def counts(self, truth: Any) -> bool:
        return self.of.counts(truth)

    def alike(self, calls: Calls, replies: Replies, theirs: Replies, truth: Any) -> bool:
        return self.of.alike(calls, replies, theirs, truth)

    def draws(self, calls: Calls, replies: Replies, truth: Any) -> Mapping[int, Tensor]:
        return self.of.draws(calls, replies, truth)


def merged_traits(traits: Iterable[Traits]) -> Traits:
    """What holds of any of several."""
    found: dict[str, tuple[str, ...]] = {}
    for each in traits:
        for factor, phrases in each.items():
            found[factor] = tuple(dict.fromkeys((*found.get(factor, ()), *phrases)))
    return found


def list_tests(cases: Iterable[Case], device: str, dtypes: Container[str] = DTYPES) -> list[tuple[Case, str]]:
    """What is asked of an implementation on a kind of device: each case in each of its dtypes that is wanted."""
    return [
        (case, dtype)
        for case in cases
        if device in case.devices
        for dtype in DTYPES
        if dtype in case.dtypes and dtype in dtypes
    ]
