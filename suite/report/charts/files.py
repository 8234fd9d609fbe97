"""Measurements and losses → charts in SVG files. Without the libraries that draw, charts that are still true stay."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from attnsuite.model import RESULTS
from attnsuite.report import charting, learning, render
from attnsuite.report.benchmark.views import View, material
from attnsuite.report.charting import NEEDED, absent
from attnsuite.report.charts.pictures import pictures
from attnsuite.report.ours import refuse_foreign, text_of
from attnsuite.report.page import Chart, Picture
from attnsuite.results.store import Recorded, replace_file
from attnsuite.results.store.files import one_line

STAMP = re.compile(r"<!-- attnsuite ([0-9a-f]{16})(?: ([0-9a-f]{16}))? -->")
"""The mark of a chart that was written here: what it shows, hashed, and how it came to be drawn so."""


@dataclass(frozen=True)
class Charts:
    """The charts in a folder that show what is recorded; `missing` counts those that were not drawn.

    `removed` counts charts of a former report that are no longer there. `wanted` is whether any were to be drawn, so
    that those which are missing lack what draws.
    """

    charts: tuple[Chart, ...] = ()
    missing: int = 0
    removed: int = 0
    wanted: bool = True

    @property
    def note(self) -> str:
        """What the page says of charts that are left out, which follows from the files alone."""
        if not self.missing:
            return ""
        needed = f"python -m pip install {' '.join(NEEDED.values())}"
        return f"Charts left out: {self.missing}. To draw them: {needed}, then attnsuite report."

    def told(self, results: Path) -> str:
        """What is said where they are left out of these results, with what was removed; empty where none are."""
        if not self.missing:
            return ""
        report = "attnsuite report" + ("" if results == RESULTS else f" --results {shlex.quote(str(results))}")
        left_out = self.note if self.wanted else f"Charts left out: {self.missing}. To draw them: {report}."
        return left_out + (f" Removed, because they showed earlier numbers: {self.removed}." if self.removed else "")


def write_charts(folder: Path | str, recorded: Recorded, draws: bool = True) -> Charts:
    """Draw what is recorded into `folder`, and remove charts of a former report that show something else.

    Without the libraries that draw, or where nothing is to be drawn, a chart of a former report stays as long as it
    shows what is recorded now.
    Raises UsageError when the folder cannot be written, and for a picture of such a name that was not drawn here.
    """
    folder, drawn = Path(folder), due(recorded)
    lacking = absent() if drawn and draws else []
    kept: list[Chart] = []
    missing = 0
    for name, picture in drawn.items():
        stamp = stamp_of_picture(picture)
        if draws and not lacking:
            if not _is_drawn(folder / name, stamp):
                refuse_foreign(folder / name, lambda text: STAMP.search(text) is not None)
                replace_file(folder / name, _stamped(_drawn(picture), stamp))
        elif _stamp_of(folder / name) != stamp:
            missing += 1
            continue
        kept.append(Chart(name, picture.title, picture))
    removed = _remove_others(folder, {chart.file for chart in kept})
    return Charts(tuple(kept), missing, removed if missing else 0, draws)


def due(recorded: Recorded) -> dict[str, Picture]:
    """What there is to draw, by file name. Only the first view that has a chart gets its plain name."""
    of = material(recorded)
    found: dict[str, Picture] = {}
    for view in of.views:
        for name, picture in pictures(view, of).items():
            plain = f"{name}.svg"
            found.setdefault(f"{name}-{_slug(view)}.svg" if plain in found else plain, picture)
    return found | learning.pictures(recorded)


def _slug(view: View) -> str:
    return re.sub(r"[^a-z0-9]+", "-", f"{view.setting.contract}-{view.setting.device}".lower()).strip("-")[:60]


def _drawn(picture: Picture) -> str:
    from altair.utils.schemapi import debug_mode

    from attnsuite.report.render import svg

    draw: Callable[[Picture], str] = svg.render
    with debug_mode(False):  # the whole is held against Vega-Lite's schema when it is drawn, so its parts need not be
        return draw(picture)


def stamp_of_picture(picture: Picture) -> str:
    """What a picture shows, hashed."""
    said = json.dumps(picture.data, sort_keys=True)
    return hashlib.sha256(said.encode(errors="backslashreplace")).hexdigest()[:16]


def _stamped(svg: str, stamp: str) -> str:
    opening, ending, rest = svg.partition(">")
    return f"{opening}{ending}<!-- attnsuite {stamp} {_way(svg)} -->{rest}\n"


def _is_drawn(path: Path, stamp: str) -> bool:
    """Whether the file is what drawing would give: the same picture by the same code, not changed since."""
    text = _text_of(path)
    found = STAMP.search(text)
    return bool(found and found.groups() == (stamp, _way(STAMP.sub("", text, count=1).removesuffix("\n"))))


def _way(svg: str) -> str:
    """A hash of the chart itself, of the code that draws and of the libraries that it draws with."""
    folder = Path(render.__file__ or "").parent
    files = (folder / "svg.py", folder / "placing.py", Path(charting.__file__))
    here = [file.read_bytes() for file in files]
    libraries = [f"{module} {import_module(module).__version__}".encode() for module in NEEDED]
    return hashlib.sha256(b"\0".join([*here, *libraries, svg.encode()])).hexdigest()[:16]


def _stamp_of(path: Path) -> str:
    """The stamp of a chart; empty where there is no file, or one that was not written here."""
    return stamp_in(_text_of(path))


def stamp_in(text: str) -> str:
    """What a chart shows, hashed, by its stamp; empty where it has none."""
    found = STAMP.search(text)
    return found.group(1) if found else ""


def is_drawing_of(text: str, picture: Picture) -> bool:
    """Whether a chart is what drawing the picture gives here, but for its stamp. Needs what draws."""
    return STAMP.sub("", text, count=1) == f"{_drawn(picture)}\n"


def _text_of(path: Path) -> str:
    return text_of(path) or ""


def _remove_others(folder: Path, kept: set[str]) -> int:
    """Remove the charts that were written here and are not among these; other files stay."""
    stale = [path for path in sorted(folder.glob("*.svg")) if path.name not in kept and _stamp_of(path)]
    for path in stale:
        with one_line(path, "removed"):
            path.unlink(missing_ok=True)
    return len(stale)
