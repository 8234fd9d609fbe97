"""What became of one question."""

from __future__ import annotations

from dataclasses import dataclass

from suite.records.status import FAILURES, Reason, Status


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one implementation on one case in one dtype.

    `error_ratio` is the largest error in units of the oracle's bound; `seconds` is the time of the answer. `known`
    names the finding that records this failure, or is empty. `reason` says why it was not answered.
    """

    implementation: str
    contract: str
    case: str
    dtype: str
    device: str
    status: Status
    detail: str = ""
    error_ratio: float | None = None
    seconds: float | None = None
    known: str = ""
    diagnosis: tuple[str, ...] = ()
    """The deviations that give the same wrong answer, the likeliest first; `detail` says them in words."""
    reason: Reason = Reason.NONE

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What a resumed run looks up to see whether this was asked already."""
        return (self.implementation, self.case, self.dtype, self.device)

    @property
    def fails(self) -> bool:
        """Whether this outcome alone makes a check fail: a failure that no finding records."""
        return self.status in FAILURES and not self.known
