"""Pictures → SVG with Altair, SVG → PNG with vl-convert. Both are imported where something is drawn, and not before."""

from __future__ import annotations

import re
from xml.sax.saxutils import escape

from attnsuite.documents.figures.picture import HeatMaps, Picture
from attnsuite.report.charting import load_fonts, svg_of

ZOOM = 2.0
"""Pixels of a PNG for each of the SVG: sharp on screens with two pixels for one."""
DECIMALS = 2
"""Decimals of coordinates in an SVG: a hundredth of a pixel is never seen."""


def svg(name: str, picture: Picture) -> str:
    """The picture as the text of an SVG file on white, with a title and a description for who cannot see it."""
    from attnsuite.documents.figures.render import curves, heat_maps

    drawn = svg_of(heat_maps.chart(picture) if isinstance(picture, HeatMaps) else curves.chart(picture))
    return _described(_shortened(drawn), name, picture)


def png(svg: str) -> bytes:
    """The same picture as the bytes of a PNG file."""
    import vl_convert

    load_fonts()
    data: bytes = vl_convert.svg_to_png(svg, scale=ZOOM)
    return data


def _shortened(svg: str) -> str:
    """The drawing with coordinates of few decimals."""
    return re.sub(r' (?:d|transform|x|y|x1|x2|y1|y2)="[^"]*"', lambda found: _short_numbers(found[0]), svg)


def _short_numbers(text: str) -> str:
    return re.sub(r"-?\d+\.\d+(?:e-?\d+)?", lambda found: f"{round(float(found[0]), DECIMALS):g}", text)


def _described(svg: str, name: str, picture: Picture) -> str:
    opening, ending, rest = svg.partition(">")
    said = (
        f'<title id="{name}-title">{escape(picture.title)}</title><desc id="{name}-desc">{escape(picture.shown)}</desc>'
    )
    return f'{opening} role="img" aria-labelledby="{name}-title {name}-desc"{ending}{said}{rest}'
