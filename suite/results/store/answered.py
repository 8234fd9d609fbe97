"""Questions that others of a run answer and an implementation does not: nobody is skipped silently."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from attnsuite.model import EVERY_CASE, Measurement, Outcome, Run, UsageError
from attnsuite.results.store.contents import Placed

Question: TypeAlias = tuple[str, ...]
"""A case and a dtype, or a timed table."""
WHAT_FAILED = "what failed"
"""How a run says that each implementation was asked what it had failed before."""


def lost(placed: Iterable[Placed], runs: Mapping[str, Run]) -> Iterator[tuple[str, str]]:
    """The file that lacks an answer, and which.

    Implementations of a contract are asked the same in a run, and timed in the same tables; the run names those that
    it tests on a sample. What is asked again later
    takes the place of an answer, so that it is there all the same; of a shard others may hold the rest.
    """
    asked: dict[tuple[str, str, str, str], dict[str, set[Question]]] = defaultdict(lambda: defaultdict(set))
    there: dict[tuple[str, str, str], set[Question]] = defaultdict(set)
    about_all: set[tuple[str, str, str]] = set()
    for each in placed:
        of = each.record
        if not isinstance(of, Outcome | Measurement):
            continue
        who = each.file, of.implementation, of.device
        question: Question = (of.case, of.dtype) if isinstance(of, Outcome) else of.table
        if question[0] == EVERY_CASE:
            about_all.add(who)
        elif EVERY_CASE not in question:
            there[who].add(question)
            sampled = isinstance(of, Outcome) and of.implementation in runs[each.run].facts.sampled
            if _is_whole(runs[each.run]) and not sampled:
                asked[each.run, each.file, of.contract, of.device][of.implementation].add(question)
    for (run, file, _, device), by in asked.items():
        every = set[Question]().union(*by.values())
        for name in sorted(by):
            if (file, name, device) not in about_all and (missing := sorted(every - there[file, name, device])):
                others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
                which = f"{' '.join(missing[0]):.120}{others}"
                yield file, f"{name:.80} has no row of {which}, which others of the run {run:.40} have"


def _is_whole(run: Run) -> bool:
    """Whether all that was asked is in this run, and of everybody the same."""
    try:
        return bool(run.finished) and len(run.covers) == run.divided and WHAT_FAILED not in run.asked
    except UsageError:
        return False  # it names what is no shard, which is said elsewhere
