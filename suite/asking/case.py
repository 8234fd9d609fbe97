"""One question: how it is asked, what is true, and how replies are judged."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from suite.asking.call import Call, Conventions, Reply
from suite.records import DTYPES

if TYPE_CHECKING:
    from suite.judging.verdicts import Verdict


class Case(ABC):
    """One question, as data: a name, why it exists, and only what is unusual about it.

    The name is `family/what`. Subclasses say how to ask (`calls`), what is true (`truth`, computed before any
    implementation sees the inputs) and how replies are judged (`verdict`).
    """

    name: str
    why: str
    dtypes: tuple[str, ...] = DTYPES
    devices: tuple[str, ...] = ("cpu", "cuda")
    """The kinds of device on which it is asked."""
    in_worker: ClassVar[bool] = False
    """Asked in a process of its own, whatever the implementation: its calls may take the process down."""

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    @abstractmethod
    def calls(self, dtype: str) -> tuple[Call, ...]:
        """The calls to make, in order, in one process."""

    @abstractmethod
    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Any:
        """What is true, computed from the calls alone."""

    @abstractmethod
    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Verdict:
        """Hold the replies against the truth."""

    def counts(self, truth: Any) -> bool:
        """Whether catching a deviation here counts: not where bounds had to be so loose that luck decides."""
        return True

    def alike(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Any) -> bool:
        """Whether two sets of replies are equal within the bounds, for diagnosis; False where that makes no sense."""
        return False


def questions(cases: Iterable[Case], device: str, dtypes: Container[str] = DTYPES) -> list[tuple[Case, str]]:
    """What is asked of an implementation on a kind of device: each case in each of its dtypes that is wanted."""
    return [
        (case, dtype)
        for case in cases
        if device in case.devices
        for dtype in DTYPES
        if dtype in case.dtypes and dtype in dtypes
    ]
