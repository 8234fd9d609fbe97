"""What `check`, `run` and other subcommands share: who is chosen, how they are named again, the exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from attnsuite import registry
from attnsuite.contracts import contract as contract_named
from attnsuite.model import EVERY_CASE, Outcome, UsageError
from attnsuite.registry import Declaration

if TYPE_CHECKING:
    from attnsuite.conformance.session import CheckRequest

Tell = Callable[[str], None]
"""Takes what is said beside the results."""
KEYS = ("implementation", "contract", "case", "dtype", "device", "status", "detail", "error_ratio", "seconds", "reason")
"""The keys of a row written with --json."""


def told(line: str) -> None:
    """Say something beside the results, on standard error."""
    print(line, file=sys.stderr)


def chosen(
    targets: Sequence[str],
    leave_out: Sequence[str],
    contract: str | None = None,
    signature: str = "",
) -> list[Declaration]:
    """The implementations that the targets name (all by default) without those to be left out.

    UsageError for a user's own function whose parameters fit several signatures, where no `signature` is named, and for
    a target that is named twice. Two that overlap, `attention/*` and `chunked`, are one set.
    """
    if repeated := _repeated(targets):
        raise UsageError(f"the target {repeated!r} is named twice; each is asked once")
    unwanted = {declaration.full_name for declaration in registry.find(leave_out, contract)} if leave_out else set()
    found = [d for d in registry.find(targets, contract, signature=signature) if d.full_name not in unwanted]
    if not found:
        raise UsageError(f"nothing is left to ask without {', '.join(sorted(unwanted))}")
    if contract is not None:
        contract_named(contract)  # raises for a folder of implementations that is not a contract of the suite
    for declaration in (each for each in found if each.named or not each.module):  # a user's own function
        if declaration.ambiguous:
            raise UsageError(f"{declaration.full_name}: {declaration.ambiguous}")
    return found


def _repeated(targets: Sequence[str]) -> str:
    """The first target that is named again, `./kernel.py` for `kernel.py` too; empty if none is."""
    before: set[Path] = set()
    for target in targets:
        if Path(target) in before:
            return target
        before.add(Path(target))
    return ""


def refuse_broken(targets: Sequence[str], declarations: Sequence[Declaration]) -> None:
    """UsageError where the only one named cannot be asked as its source stands; among others it is a row."""
    if targets and len(declarations) == 1 and (why := declarations[0].broken):
        raise UsageError(f"{declarations[0].full_name} cannot be asked: {why}")


def asked_again(
    declarations: Sequence[Declaration], request: CheckRequest, signature: str = ""
) -> dict[str, list[str]]:
    """The words of a command line that ask an implementation again as it was asked, if its registered name does not.

    By full name, and without the case and the dtype, which are in the outcome. Under EVERY_CASE are the words that say
    what was asked, for outcomes that are about all of it: an import that failed.
    """
    options = ["--signature", signature] if signature else []
    options += ["--isolate"] if request.isolate else []
    if request.time_limit != type(request).time_limit:
        options += ["--time-limit", f"{request.time_limit:g}"]
    if request.profile != type(request).profile:
        options += ["--profile", request.profile]
    options += ["--strict"] if request.strict and any(not each.shipped for each in declarations) else []
    if request.seed:
        options += ["--seed", str(request.seed)]
    options += [word for file in dict.fromkeys(gap.file for gap in request.gaps) for word in ("--known-gaps", file)]
    words = {name: [*spelled, *options] for name, spelled in registry.spelled(declarations).items()}
    narrowed = [word for case in request.cases for word in ("--case", case)]
    narrowed += [word for dtype in request.dtypes for word in ("--dtype", dtype)]
    return {name: of for name, of in words.items() if of != [name]} | ({EVERY_CASE: narrowed} if narrowed else {})


def status(outcomes: Sequence[Outcome], alone: bool = False, in_part: bool = False) -> int:
    """The exit status: 1 if an outcome fails. An implementation named `alone` must be there and not decline all.

    It may decline all that falls into a part of what is asked.
    """
    if alone and outcomes[0].status == "missing":
        raise UsageError(f"{outcomes[0].implementation} is missing: {outcomes[0].detail}")
    if any(outcome.fails for outcome in outcomes):
        return 1
    if alone and not in_part and all(outcome.status == "declined" for outcome in outcomes):
        print(f"{outcomes[0].implementation} declined all that was asked", file=sys.stderr)
        return 1
    return 0


def single_threaded() -> None:
    """Have numpy and torch use one thread, before they are loaded: many small calls take far longer on several."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def row(outcome: Outcome, walls: Sequence[str] | None = None) -> dict[str, object]:
    """An outcome as a JSON row. One about all cases has the case and the dtype `*`; `walls` stood around a stranger."""
    detail = f"known as {outcome.known}: {outcome.detail}" if outcome.known else outcome.detail
    values = {key: getattr(outcome, key) for key in KEYS}
    ratio = outcome.error_ratio
    shown = {**values, "detail": detail, "error_ratio": str(ratio) if ratio == float("inf") else ratio}
    return shown if walls is None else {**shown, "walls": list(walls)}
