"""What became of a submission, in words, and whether it is what must."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from attnsuite.benchmark.own_clock import quick
from attnsuite.model import Cheat, Measurement, Outcome, Status, Trial
from attnsuite.model.bounded import MARGIN, NOT_BOUNDED
from attnsuite.worker.sandbox import Protection, protects

FORGED = "forged"
"""What is written behind the suite's back is called so."""
OPERATOR = "scaled_dot_product"
"""What the operators of PyTorch's attention have in their names."""


def of_check(cheat: Cheat, outcomes: Sequence[Outcome]) -> Trial:
    """What became of it when it was checked."""
    failed = [outcome for outcome in outcomes if outcome.fails]
    if failed:
        happened = f"caught in {len(failed)} of {len(outcomes)}: {failed[0].case}: {failed[0].detail}"
    else:
        happened = f"passes all {len(outcomes)}"
    held = cheat.check == "either" or (cheat.check == "caught") == bool(failed)
    return Trial(cheat, "check", happened, held)


def of_bench(
    cheat: Cheat, row: Measurement, control: Measurement | None, home: Path, walls: Collection[str] = ()
) -> Trial:
    """What became of it when it was timed beside the honest control, in the folder `home`, behind these walls."""
    share = _share(row, control)
    forged = any(home.rglob(f"*{FORGED}*"))
    happened = f"{row.status}: {row.detail}" if row.detail else f"{row.status}"
    if share is not None and cheat.name != (control.implementation.rpartition("/")[2] if control else ""):
        happened += f"; {share:.2f} times the honest control's time"
    if cheat.bench == "shown":
        happened += f"; ran {row.kernel}"
    if cheat.bench == "walled":
        happened += "; nothing stopped it from writing" if forged else "; it wrote nothing"
    return Trial(cheat, "bench", happened, _held(cheat.bench, row, forged and protects(Protection.FILES, walls)))


def _held(must: str, row: Measurement, over_a_wall: bool) -> bool:
    timed, said = row.status == Status.MEASURED, row.detail.startswith(NOT_BOUNDED)
    true = timed and (said or (row.own_clock is not None and row.own_clock <= 1 + MARGIN))
    return {
        "measured": timed,
        "harmless": true,
        "caught": not timed or said,
        "no gain": not timed or true,
        "shown": timed and OPERATOR in row.kernel,
        "walled": not over_a_wall,
    }[must]


def _share(row: Measurement, control: Measurement | None) -> float | None:
    """Its time as a share of the control's; None where either has none."""
    if control is None or not row.seconds or not control.seconds:
        return None
    return quick(row.seconds) / quick(control.seconds)
