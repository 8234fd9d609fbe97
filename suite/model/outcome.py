"""What became of one implementation on one case in one dtype."""

from __future__ import annotations

import math

from msgspec.structs import force_setattr

from attnsuite.model.escaping import escaped
from attnsuite.model.status import FAILURES, Reason, Status
from attnsuite.model.typed import INFINITE, Amount, Name, Row, Text

BAD_INPUT = "bad_input"
"""The family of the cases that expect an error."""
INPUT_VALIDATION = "input validation: "
"""How the detail begins where bad input was accepted, and nothing worse happened."""


class Outcome(Row, frozen=True):
    """What became of one implementation on one case in one dtype.

    `error_ratio` is the largest error in units of the oracle's bound; `seconds` is how long the answer took. `known`
    names the finding that records this failure, or is empty. `reason` says why there is no answer.
    """

    DIGITS = 3
    implementation: Name
    contract: Name
    case: Name
    dtype: Name
    device: Name
    status: Status
    detail: Text = ""
    error_ratio: Amount | None = None
    seconds: Amount | None = None
    known: Text = ""
    diagnosis: tuple[Name, ...] = ()
    """The deviations that give the same wrong answer, the likeliest first; `detail` has them in words."""
    reason: Reason = Reason.NONE

    def __post_init__(self) -> None:
        if not self.detail.isprintable():  # it may be in a submission's words
            force_setattr(self, "detail", escaped(self.detail))
        if self.error_ratio is not None and self.error_ratio >= INFINITE:
            force_setattr(self, "error_ratio", math.inf)

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a resumed run looks up, so that nothing is asked twice."""
        return (self.implementation, self.case, self.dtype, self.device)

    @property
    def says(self) -> str:
        """The status and the detail in one line; the status once, also if the detail begins with it."""
        if self.detail.startswith(f"{self.status}:"):
            return self.detail
        return f"{self.status}: {self.detail}" if self.detail else str(self.status)

    @property
    def fails(self) -> bool:
        """Whether this outcome alone makes a check fail: a failure that no finding records, and no leniency."""
        return self.status in FAILURES and not self.known and not self.lenient

    @property
    def lenient(self) -> bool:
        """Whether bad input was accepted in a check that does not fail for it."""
        return self.reason == Reason.LENIENT

    @property
    def validates_input(self) -> bool:
        """Whether the case expects an error."""
        return self.case.partition("/")[0] == BAD_INPUT
