"""Whether a case catches a deviation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from attnsuite.cases import Call, Case, Mutant
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import FAILURES
from attnsuite.worker import ask

SLIP = re.compile(
    r"(NameError|UnboundLocalError|ImportError|ModuleNotFoundError|SyntaxError): "
    r"|TypeError: .*\(\) (takes \d+ positional|missing \d+ required|got an unexpected keyword)"
)
"""What Python raises where code names something that there is not, or is given other arguments than it takes."""


def catches(case: Case, calls: tuple[Call, ...], truth: object, deviation: Mutant) -> bool:
    """Whether a case catches a deviation by its mistake.

    If the case's bounds are loose only NaN and infinity count, for the rest is luck. What Python says of a slip in the
    deviation's own code is not the mistake that it is named for.
    """
    return shows_the_mistake(case, truth, failure(case, calls, truth, deviation.function))


def shows_the_mistake(case: Case, truth: object, failed: Verdict | None) -> bool:
    """Whether a deviation's failure, if it fails, is that of its mistake."""
    if failed is None or SLIP.search(failed.detail):
        return False
    return case.counts(truth) or failed.error_ratio == math.inf


def failure(case: Case, calls: tuple[Call, ...], truth: object, function: Callable[..., object]) -> Verdict | None:
    """The verdict on a function if it fails the case, else None."""
    replies = ask(function, calls)
    if any(reply.declined for reply in replies):
        return None
    verdict = case.verdict(calls, replies, truth)
    return verdict if verdict.status in FAILURES else None
