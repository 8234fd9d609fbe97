"""Rows held against what this attnsuite defines: the work of workloads, and the statements of claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite.machine import suite_hash
from attnsuite.model import DTYPES, Claimed, Measurement, Refusal, Run, Status, WorkloadFacts
from attnsuite.results.store.contents import Placed

if TYPE_CHECKING:
    from attnsuite.cases import Workload

RELATIVE = 1e-5
"""By how much a number that is kept to six digits may be off."""
STATEMENT = ("document", "section", "says", "quantity")
"""What a row has of a claim that its range belongs to."""


def unlike_definitions(folder: Path, placed: Sequence[Placed], runs: Mapping[str, Run]) -> Iterator[Refusal]:
    """Rows of a machine's folder that are not what this version defines, as far as it defines the same as theirs."""
    mine = suite_hash() if any(isinstance(each.record, Claimed) for each in placed) else ""
    for each in placed:
        run, where = runs[each.run], (str(folder / each.file), f"line {each.line}")
        if isinstance(each.record, Measurement):
            yield from (Refusal(*where, why) for why in _work(each.record, run))
        elif isinstance(each.record, Claimed) and run.suite == mine:
            yield from (Refusal(*where, why) for why in _statement(each.record))


def _work(of: Measurement, run: Run) -> Iterator[str]:
    """Where the work of a workload is not what follows from it.

    A workload of an earlier version may be another of the same name: it is the same where the run notes it in the very
    words that it has here. Shapes that somebody typed are not made again: whoever types one chooses how long it takes.
    """
    noted = run.facts.workloads.get(of.contract, {}).get(of.workload)
    if of.status != Status.MEASURED or noted is None:
        return
    workload = _registered(of.contract).get(of.workload)
    if workload is None or noted != WorkloadFacts(workload.group, workload.shape, workload.why, workload.length):
        return
    if of.dtype not in DTYPES or of.direction not in workload.directions:
        return  # said already, or timed by a version in which it could be
    try:
        asked = workload.under(run.facts.conventions.get(of.implementation, {})).work(of.dtype, of.direction)
    except Exception as error:  # whatever a stranger's run notes as conventions, this is about them
        yield f"no work follows from what it declares to mean ({type(error).__name__}: {error!s:.80})"
        return
    for name, due in asked.items():
        found = of.work.get(name)
        if found is None or not abs(found - due) <= RELATIVE * due:
            said = "not there" if found is None else f"{found:.6g}"
            yield f"work.{name} is {said}, and a call of {of.workload} takes {due:.6g}"


@cache
def _registered(name: str) -> Mapping[str, Workload]:
    """The workloads of a contract, by name; none of a contract that this version does not know."""
    from attnsuite.contracts import contract, names  # needs torch, which folders without times do without

    return {each.name: each for each in contract(name).workloads()} if name in names() else {}


def _statement(of: Claimed) -> Iterator[str]:
    """Where a row of this very version says of a claim what the claim does not."""
    from attnsuite.documents.claims import every  # needs torch

    claim = next((each for each in every() if each.name == of.claim), None)
    if claim is None:
        yield f"this version has no claim {of.claim!r:.80}"
        return
    for name in STATEMENT:
        if getattr(of, name) != getattr(claim, name):
            yield f"{name} is {getattr(of, name)!r:.80}, and the claim has {getattr(claim, name)!r:.80}"
    if (of.due, of.evidence) != (claim.due.words, claim.evidence):
        yield f"{of.due!r:.80} is due, {of.evidence}; the claim has {claim.due.words!r}, {claim.evidence}"
