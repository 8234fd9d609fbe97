"""Charts held against what they are to show: their stamp, and, where they can be drawn here, the drawing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from attnsuite.model import Refusal, UsageError
from attnsuite.report.charting import absent
from attnsuite.report.charts import files
from attnsuite.report.page import Chart, Picture
from attnsuite.report.verification.texts import REMEDY, text_of
from attnsuite.results.store import Recorded


@dataclass(frozen=True)
class Found:
    """The charts that are due, those among them that there are no files of, and what is amiss with the others."""

    due: Mapping[str, Picture]
    missing: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    drawn: bool = True
    """Whether they were drawn again and compared; if not, what draws is not installed."""

    def charts(self, with_missing: bool) -> tuple[Chart, ...]:
        """The charts as pages show them."""
        return tuple(
            Chart(name, picture.title, picture)
            for name, picture in self.due.items()
            if with_missing or name not in self.missing
        )


def of_charts(folder: Path, recorded: Recorded) -> Found:
    """The charts of a machine, each held against its picture."""
    due = files.due(recorded)
    can_draw = not (due and absent())
    missing, refusals = [], []
    for name, picture in due.items():
        try:
            text = text_of(folder / name)
        except UsageError as error:
            refusals.append(Refusal(str(folder / name), "", str(error)))
            continue
        if text is None:
            missing.append(name)
        elif why := _amiss(text, picture, can_draw):
            refusals.append(Refusal(str(folder / name), "", f"{why}; {REMEDY}"))
    return Found(due, tuple(missing), (*refusals, *_others(folder, due)), can_draw)


def _amiss(text: str, picture: Picture, can_draw: bool) -> str:
    """Why a file is not the chart of this picture; nothing where it is."""
    if files.stamp_in(text) != files.stamp_of_picture(picture):
        return "its stamp is not that of what the rows give"
    if can_draw and not files.is_drawing_of(text, picture):
        return "it is not as it is drawn here: it was altered, or drawn by another version"
    return ""


def _others(folder: Path, due: Mapping[str, Picture]) -> Iterator[Refusal]:
    """Charts that no row is behind, written here or elsewhere."""
    for path in sorted(folder.glob("*.svg")):
        if path.name not in due:
            remedy = REMEDY if _is_stamped(path) else "attnsuite did not write it; move it away"
            yield Refusal(str(path), "", f"no rows give such a chart; {remedy}")


def _is_stamped(path: Path) -> bool:
    """Whether a chart was written by attnsuite, as far as can be seen."""
    try:
        return bool(files.stamp_in(text_of(path) or ""))
    except UsageError:
        return False
