"""The implementations that a command tests or times, and helpers that these commands share."""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from attnsuite import registry
from attnsuite.model import Measurement, Outcome, UsageError
from attnsuite.registry import Declaration
from attnsuite.results import RunWriter

Hint = Callable[[str], None]
"""A function that prints a hint, which is not a result."""


def print_hint(line: str) -> None:
    """Print a hint on standard error."""
    print(line, file=sys.stderr, flush=True)


def silent(line: str) -> None:
    """Discard a hint (Python API, --quiet)."""


def chosen(
    targets: Sequence[str], skipped: Sequence[str] = (), contract: str | None = None, signature: str | None = None
) -> list[Declaration]:
    """The implementations that the targets name (by default all), without the skipped ones.

    Targets may overlap, as `attention/*` and `chunked`. Raises UsageError for a target that is named twice, and for a
    function whose parameters fit several signatures, if no `signature` is given.
    """
    paths = [Path(target) for target in targets]
    if repeated := [target for place, target in enumerate(targets) if paths[place] in paths[:place]]:
        raise UsageError(f"target {repeated[0]!r} is named twice; name it once")
    every = registry.find(targets, contract, signature=signature or "")
    if not (wanted := registry.without(every, skipped, contract)):
        raise UsageError(f"--except {' --except '.join(skipped)} leaves nothing to test")
    return wanted


def chosen_or_refused(
    targets: Sequence[str], skipped: Sequence[str], contract: str | None, signature: str | None
) -> list[Declaration]:
    """The same, but a wrong file among several targets becomes a broken declaration with the reason."""
    if len(targets) < 2:
        return chosen(targets, skipped, contract, signature)
    refused = {target: declaration for target in targets if (declaration := _refused(target, contract, signature))}
    others = [target for target in targets if target not in refused]
    names = {declaration.full_name for declaration in refused.values()}
    if len(names) < len(refused):
        raise UsageError("files with the same name cannot be tested together; test them one at a time")
    return [*(chosen(others, skipped, contract, signature) if others else ()), *refused.values()]


def _refused(target: str, contract: str | None, signature: str | None) -> Declaration | None:
    """A broken declaration with the reason why a file cannot be tested; None for other targets."""
    file = Path(target)
    if file.suffix != ".py" or not file.is_file():
        return None
    try:
        chosen([target], (), contract, signature)
    except UsageError as error:
        reason = str(error).partition("\n")[0].rstrip(":")
        return Declaration(contract or "attention", file.stem, "", file=str(file.resolve()), broken=reason)
    return None


def refuse_broken(targets: Sequence[str], declarations: Sequence[Declaration]) -> None:
    """Raise UsageError if the only target has a broken source; among several targets it is a row."""
    if targets and len(declarations) == 1 and (why := declarations[0].broken):
        raise UsageError(f"{declarations[0].full_name} cannot be tested: {why}")


def single_threaded() -> None:
    """Set numpy and torch to one thread before they are loaded; many small calls are slower on several threads."""
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")


def print_start(writer: RunWriter, hint: Hint = print_hint) -> None:
    """Print repairs in results/, and whether an interrupted run is resumed."""
    for line in writer.notes:
        hint(line)
    if writer.resumed:
        counts = f"{len(writer.stored(Outcome))} outcomes and {len(writer.stored(Measurement))} measurements"
        hint(f"resuming the run of {writer.run.started}: {counts} are stored")
