"""Which implementations a command is about, and what commands that test or time have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from attnsuite import registry
from attnsuite.contracts import file_of
from attnsuite.model import Measurement, Outcome, UsageError
from attnsuite.registry import Declaration
from attnsuite.results import RunWriter

Tell = Callable[[str], None]
"""Prints a hint that is no result."""


def told(line: str) -> None:
    """Print a hint on standard error."""
    print(line, file=sys.stderr, flush=True)


def silent(line: str) -> None:
    """Discard a hint (Python API, --quiet)."""


def chosen(
    targets: Sequence[str], skipped: Sequence[str] = (), contract: str | None = None, signature: str | None = None
) -> list[Declaration]:
    """The implementations that the targets name (all by default) without the skipped ones.

    Several may overlap: `attention/*` and `chunked` are one set. UsageError for a target that is named twice, and for a
    user's own function whose parameters fit several signatures, where no `signature` is given.
    """
    if repeated := _repeated(targets):
        raise UsageError(f"the target {repeated!r} is named twice; each is tested once")
    every = registry.find(targets, contract, signature=signature or "")
    if not (wanted := registry.without(every, skipped, contract)):
        raise UsageError(f"nothing is left to test without {', '.join(skipped)}")
    if contract is not None:
        file_of(contract)  # raises for a folder of implementations that is not a contract of the suite
    return wanted


def chosen_or_refused(
    targets: Sequence[str], skipped: Sequence[str], contract: str | None, signature: str | None
) -> list[Declaration]:
    """The same; of several targets a file that is refused is a broken declaration with the reason, and no error."""
    if len(targets) < 2:
        return chosen(targets, skipped, contract, signature)
    refused = {target: each for target in targets if (each := _refused(target, contract, signature))}
    others = [target for target in targets if target not in refused]
    names = {each.full_name for each in refused.values()}
    if len(names) < len(refused):
        raise UsageError("files of one name cannot be tested together; test them one by one")
    return [*(chosen(others, skipped, contract, signature) if others else ()), *refused.values()]


def _refused(target: str, contract: str | None, signature: str | None) -> Declaration | None:
    """Why a file cannot be tested, as a broken declaration; None where it can be, or is no file."""
    file = Path(target)
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        chosen([target], (), contract, signature)
    except UsageError as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        return Declaration(contract or "attention", file.stem, "", file=str(file.resolve()), broken=reason)
    return None


def _repeated(targets: Sequence[str]) -> str:
    """The first target that is named again, `./kernel.py` for `kernel.py` too; empty without any."""
    before: set[Path] = set()
    for target in targets:
        if Path(target) in before:
            return target
        before.add(Path(target))
    return ""


def refuse_broken(targets: Sequence[str], declarations: Sequence[Declaration]) -> None:
    """UsageError where the only target cannot be tested as its source stands; among others it is a row."""
    if targets and len(declarations) == 1 and (why := declarations[0].broken):
        raise UsageError(f"{declarations[0].full_name} cannot be tested: {why}")


def single_threaded() -> None:
    """Have numpy and torch use one thread, before they are loaded: many small calls take far longer on several."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def say_how_it_starts(writer: RunWriter, tell: Tell = told) -> None:
    """Print what was repaired in results/, and whether an interrupted run is resumed."""
    for line in writer.notes:
        tell(line)
    if writer.resumed:
        there = f"{len(writer.stored(Outcome))} outcomes and {len(writer.stored(Measurement))} measurements"
        tell(f"resuming the run of {writer.run.started}: {there} are there already")
