"""What panels of heat maps and of curves have in common."""

from __future__ import annotations

from typing import Any

import altair as alt

from attnsuite.report.charting import FONT, INK

ABOVE = 12
"""Pixels from the upper edge of a panel to the middle of its title: the same in all, whatever their axes need."""


def sized(layers: list[Any], title: str, width: int, height: int) -> Any:
    """The layers as one panel with its title in the middle above it."""
    if title:
        text = alt.Chart(alt.Data(values=[{}])).mark_text(fontSize=13, fontWeight="bold", font=FONT, color=INK)
        layers = [*layers, text.encode(x=alt.value(width / 2), y=alt.value(-ABOVE), text=alt.value(title))]
    return alt.layer(*layers, width=width, height=height)
