"""Where labels go so that none lies on another, in pixels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

LINE = 15.0
"""Pixels: the height of a line of text."""
WIDTHS = {**dict.fromkeys("ijl.,:;|'", 2.9), **dict.fromkeys("ftrI-() ", 3.8), **dict.fromkeys("mwMW%", 9.6)}
"""Pixels: the widths of narrow and wide letters at the size of labels."""
LETTER = 6.5
"""Pixels: the width of all other letters."""
OVERHANG = 24.0
"""Pixels by which a label may stand out of its panel on the right: so much of the gap to the next panel is free."""
NEAR = 10.0
"""Pixels from a point to its label."""
MARK = 8.0
"""Pixels: half the side of the square that a point takes."""
ALONG = 16.0
"""Square pixels that a point of a line counts as, where a label covers it: the line is 4 wide, and points 4 apart."""
SWEEPS = 6
"""The most rounds in which each label is placed again around the others; after a few, none moves any more."""

Point = tuple[float, float]
"""Across and down."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions from `low` to `high`, at least `gap` apart, in the order wanted and as near to it as possible.

    Minimises the squared distances moved: isotonic regression by pooling adjacent violators.
    """
    order = sorted(range(len(wanted)), key=lambda place: (wanted[place], place))
    pools: list[tuple[float, int]] = []
    for rank, place in enumerate(order):
        pools.append((wanted[place] - rank * gap, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (last, many), (other, few) = pools.pop(), pools.pop()
            pools.append(((last * many + other * few) / (many + few), many + few))
    most = max(high - (len(order) - 1) * gap, low)
    levels = [min(max(mean, low), most) for mean, count in pools for _ in range(count)]
    found = [0.0] * len(order)
    for rank, (place, level) in enumerate(zip(order, levels, strict=True)):
        found[place] = level + rank * gap
    return found


def beside(
    points: Sequence[Point], texts: Sequence[str], size: tuple[float, float], lines: Sequence[Sequence[Point]] = ()
) -> list[Box]:
    """A box for the text of each point, near it and within `size`, that covers as little as possible of the others.

    `lines` are the corners of lines that labels should not cover.
    """
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in points]
    along = [point for line in lines for point in _along(line)]
    widths = [sum(WIDTHS.get(letter, LETTER) for letter in text) for text in texts]
    found = [next(_around(point, width))[0] for point, width in zip(points, widths, strict=True)]
    fixed = []  # for each point its boxes, and how bad each is whatever the other labels do
    for place, (point, width) in enumerate(zip(points, widths, strict=True)):
        others = [*marks[:place], *marks[place + 1 :]]
        fixed.append([
            (box, bad + _cost(point, box, others) + ALONG * _inside(box, along) + _out(box, size))
            for box, bad in _around(point, width)
        ])  # fmt: skip
    for _ in range(SWEEPS):
        before = list(found)
        for place, point in enumerate(points):
            others = [*found[:place], *found[place + 1 :]]
            costs = {box: bad + _cost(point, box, others) for box, bad in fixed[place]}
            found[place] = min(costs, key=costs.__getitem__)
        if found == before:
            break
    return found


def _cost(point: Point, box: Box, others: Sequence[Box]) -> float:
    """How bad a label there would be: what it covers of others, and how much of them the leader to it crosses."""
    hidden = sum(_shared(box, other) for other in others)
    leader = _along((point, nearest(point, box)))
    led = sum(left < x < right and top < y < bottom for x, y in leader for left, top, right, bottom in others)
    return hidden + 12.0 * led


def _inside(box: Box, points: Sequence[Point]) -> int:
    """How many of these points a box covers."""
    left, top, right, bottom = box
    return sum(left < x < right and top < y < bottom for x, y in points)


def nearest(point: Point, box: Box) -> Point:
    """Where the leader from a point meets the box of its label: on the nearer side, at half the height."""
    return min(max(point[0], box[0]), box[2]), (box[1] + box[3]) / 2


def _along(line: Sequence[Point]) -> Iterator[Point]:
    """Points along a line, four pixels apart."""
    for (x, y), (to_x, to_y) in pairwise(line):
        steps = max(1, int(math.hypot(to_x - x, to_y - y) / 4))
        yield from ((x + (to_x - x) * step / steps, y + (to_y - y) * step / steps) for step in range(steps + 1))


def _around(point: Point, width: float) -> Iterator[tuple[Box, float]]:
    """Boxes near a point, and how bad each is by itself: to the right is best, far is worse than near."""
    (x, y), half = point, LINE / 2
    for ring, (across, down) in product(range(6), _SIDES):
        away = NEAR + ring * LINE * 0.8
        left = x + across * away - (width if across < 0 else width / 2 if across == 0 else 0)
        middle = y + down * (away + half if across == 0 else away)
        yield (left, middle - half, left + width, middle + half), 8.0 * ring + _SIDES.index((across, down))


_SIDES = ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1))
"""Directions from a point, across and down, the best place for a label first."""


def _shared(one: Box, other: Box) -> float:
    """The area that two boxes have in common."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return across * down if across > 0 and down > 0 else 0.0


def _out(box: Box, size: tuple[float, float]) -> float:
    beyond = max(0.0, -box[0], box[2] - size[0] - OVERHANG), max(0.0, -box[1], box[3] - size[1])
    return 100.0 * sum(beyond)
