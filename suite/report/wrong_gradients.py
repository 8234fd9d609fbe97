"""Which wrong gradients show: trainings of each beside those of the right one, from the same seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from attnsuite.model import RIGHT_GRADIENT, Learned
from attnsuite.report.cells import Span, code
from attnsuite.report.page import Block, Column, Table, note
from attnsuite.report.page import table as table_of

SHOWN: tuple[tuple[str, Callable[[int, int], bool]], ...] = (
    ("Shows in every seed", lambda seen, seeds: seen == seeds),
    ("Shows in some seeds", lambda seen, seeds: 0 < seen < seeds),
    ("Does not show", lambda seen, seeds: seen == 0),
)


def comparison(learned: Sequence[Learned]) -> Iterator[Block]:
    """A table of what each gradient led to, and which show; nothing where the right one was not trained."""
    found = by_gradient(learned)
    right = found.pop(RIGHT_GRADIENT, [])
    if not right or not found:
        return
    yield note(
        "A wrong gradient shows in a seed if its last loss is above, or its score below, those of the right gradient "
        f"in all {len(right)} seeds."
    )
    yield _table(right, found)
    for words, belongs in SHOWN:
        names = [name for name, of in found.items() if belongs(seen(of, right), len(of))]
        yield note(f"{words}: ", *_listed(names), ".")


def by_gradient(learned: Sequence[Learned]) -> dict[str, list[Learned]]:
    """The trainings of each gradient."""
    found: dict[str, list[Learned]] = defaultdict(list)
    for each in learned:
        found[each.implementation].append(each)
    return dict(found)


def seen(of: Sequence[Learned], right: Sequence[Learned]) -> int:
    """In how many seeds a wrong gradient is seen: a last loss above the right one's, or a score below them."""
    highest, lowest = max(each.curve[-1] for each in right), min(score(each) for each in right)
    return sum(each.curve[-1] > highest or score(each) < lowest for each in of)


def score(of: Learned) -> float:
    """The first of its scores."""
    return next(iter(of.scores.values()))


def _table(right: Sequence[Learned], found: Mapping[str, Sequence[Learned]]) -> Table:
    named = next(iter(right[0].scores))
    columns = ("gradient", Column("last loss", right=True), Column(named, right=True), Column("shows in", right=True))
    rows = [[code(RIGHT_GRADIENT), *_spreads(right), ""]]
    rows += [[code(name), *_spreads(of), f"{seen(of, right)} of {len(of)}"] for name, of in found.items()]
    return table_of(columns, rows)


def _spreads(of: Sequence[Learned]) -> tuple[str, str]:
    """The last losses and the scores, from the lowest to the highest."""
    losses, scores = sorted(each.curve[-1] for each in of), sorted(map(score, of))
    return f"{losses[0]:.3g} to {losses[-1]:.3g}", f"{scores[0]:.3f} to {scores[-1]:.3f}"


def _listed(names: Sequence[str]) -> Iterator[Span | str]:
    """Names with commas between them; "none" where there are none."""
    for place, name in enumerate(names):
        yield from ((", ",) if place else ())
        yield code(name)
    if not names:
        yield "none"
