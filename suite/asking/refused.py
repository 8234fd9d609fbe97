"""Bad input, which must raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from attnsuite.asking.call import Calls, Conventions, Replies
from attnsuite.asking.case import Around, Case
from attnsuite.judging.verdicts import Verdict
from attnsuite.records import Source, Status

Row = tuple[str, str, Mapping[str, Any]]
"""A case as a row of a table: its name without the family, why it exists, and what is unusual."""


class Refused(Around):
    """A case whose input must be refused; its `why` says what is wrong with it. Asked in a process of its own."""

    in_worker: ClassVar[bool] = True

    def __init__(self, of: Case, source: Source | None = None) -> None:
        super().__init__(of)
        self.source, self.dtypes = source, ("float32",)

    def truth(self, calls: Calls, conventions: Conventions) -> None:
        return None

    def verdict(self, calls: Calls, replies: Replies, truth: None) -> Verdict:
        if replies[0].raised:
            return Verdict(Status.PASSED, replies[0].raised)
        return Verdict(Status.WRONG, f"accepted {self.why}; an error was due")
