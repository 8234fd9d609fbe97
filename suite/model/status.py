"""The statuses of outcomes and measurements, and the reasons for having no answer."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """What became of a case (in an outcome) or of a workload (in a measurement). The values are those in JSON rows."""

    PASSED = "passed"
    MEASURED = "measured"
    WRONG = "wrong"
    RAISED = "raised"
    DIED = "died"
    HUNG = "hung"
    OUT_OF_MEMORY = "out_of_memory"
    REFUSED = "refused"
    """No time is shown, because the implementation fails its contract on what the workload uses."""
    DECLINED = "declined"
    MISSING = "missing"


STATUSES = (
    Status.PASSED,
    Status.WRONG,
    Status.RAISED,
    Status.DIED,
    Status.HUNG,
    Status.DECLINED,
    Status.MISSING,
)
"""The statuses of an outcome, in the order of tables."""

MEASURED_STATUSES = (
    Status.MEASURED,
    Status.OUT_OF_MEMORY,
    Status.RAISED,
    Status.DIED,
    Status.HUNG,
    Status.REFUSED,
    Status.DECLINED,
    Status.MISSING,
)
"""The statuses of a measurement, in the order of tables."""

FAILURES = (Status.WRONG, Status.RAISED, Status.DIED, Status.HUNG)
"""Outcomes that make a check fail, unless a finding records them."""

SILENT = (Status.DIED, Status.HUNG)
"""The failures of which there is no answer: to ask again may take as long again."""
BENCHMARK_FAILURES = (Status.RAISED, Status.DIED, Status.HUNG, Status.REFUSED)
"""Measurements that make a benchmark fail. Out of memory is a limit of the machine, and no failure."""


class Reason(StrEnum):
    """Why a case or a workload has no answer, if the status alone does not say it."""

    NONE = ""
    UNTAKEN = "untaken"
    """The signature has no parameter for something that the case needs."""
    LACKING = "lacking"
    """The implementation declares that it lacks something that the case needs."""
    AT_RUN_TIME = "at_run_time"
    """The implementation raised NotImplementedError when it was asked."""
    UNDEFINED = "undefined"
    """Under the declared convention the case has no defined answer."""
    CORE = "core"
    """The core of the contract, which nobody may decline, was declined; the status is `wrong`."""
    NOT_ASKED = "not_asked"
    """The cases before it hung, so this one was not asked."""
    TOO_SLOW = "too_slow"
    """A call takes longer than the profile has time for."""
    LENIENT = "lenient"
    """A submission accepted bad input in a check that is not strict: the status is `wrong`, and the check passes."""
