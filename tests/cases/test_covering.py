"""Covering arrays: what meets in them, what cannot, and how rows are read and written."""

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnsuite.cases.covering import Contradiction, Row, Space, drawn, met_in

MEALS = Space(
    {"meat": ("beef", "fish", "none"), "wine": ("red", "white"), "cheese": ("blue", "mild"), "bread": ("rye", "corn")},
    [
        Contradiction("fish does not go with red wine", {"meat": ("fish",), "wine": ("red",)}),
        Contradiction("white wine needs mild cheese", {"wine": ("white",), "cheese": ("blue",)}),
        Contradiction(
            "no rye bread with beef and red wine", {"meat": ("beef",), "wine": ("red",), "bread": ("rye", "corn")},
            lambda meat, wine, bread: bread == "rye",
        ),
    ],
    [("meat", "wine", "bread")],
)  # fmt: skip


def every_row(space: Space) -> list[dict[str, str]]:
    """All rows without contradiction, found by trying all."""
    rows = [dict(zip(space.factors, levels, strict=True)) for levels in product(*space.factors.values())]
    return [row for row in rows if not any(each.forbids(row) for each in space.contradictions)]


@pytest.mark.parametrize("seed", range(5))
def test_every_pair_and_fused_triple_that_can_meet_does(seed: int) -> None:
    rows = drawn(MEALS, seed, fused=True)
    for fused in (False, True):
        possible = {met for row in every_row(MEALS) for met in met_in(row, fused)} & MEALS.meetings(fused)
        assert possible <= {met for row in rows for met in met_in(row, fused)}
        assert all(row in every_row(MEALS) for row in rows), "no row has a contradiction"
        assert MEALS.coverage(rows, fused).possible == len(possible)
        assert not MEALS.coverage(rows, fused).unmet


def test_a_pair_that_can_only_meet_through_a_third_factor_is_impossible() -> None:
    assert not MEALS.possible((("cheese", "blue"), ("meat", "fish")))  # fish needs white wine, blue cheese red
    assert MEALS.possible((("cheese", "mild"), ("meat", "fish")))


def test_coverage_names_what_does_not_meet() -> None:
    rows = drawn(MEALS, 1, fused=False)
    without = [row for row in rows if (row["meat"], row["bread"]) != ("none", "corn")]
    assert len(without) < len(rows)
    assert (("bread", "corn"), ("meat", "none")) in MEALS.coverage(without, fused=False).unmet


def test_a_seed_draws_the_same_array_again_and_another_seed_another() -> None:
    assert drawn(MEALS, 3, fused=True) == drawn(MEALS, 3, fused=True)
    assert any(drawn(MEALS, 3, fused=True) != drawn(MEALS, seed, fused=True) for seed in (4, 5))


@pytest.mark.parametrize("lacking", ["sauce", "herbs"])
def test_without_a_lacking_factor_every_other_pair_meets(lacking: str) -> None:
    more = {"sauce": ("plain", "hot", "sweet"), "herbs": ("bare", "dill", "mint")}
    space = Space({**MEALS.factors, **more}, MEALS.contradictions, lacking=[["sauce", "herbs"], ["sauce"], ["herbs"]])
    rows = drawn(space, 1, fused=False)
    without = Space({name: levels for name, levels in space.factors.items() if name != lacking}, MEALS.contradictions)
    assert not without.coverage(
        [_left(row, lacking) for row in rows if row[lacking] == more[lacking][0]], fused=False
    ).unmet
    assert not space.coverage(rows, fused=False).unmet


def _left(row: Row, lacking: str) -> Row:
    return {name: level for name, level in row.items() if name != lacking}


def test_a_row_is_written_as_its_unusual_levels_and_read_again() -> None:
    row = {"meat": "none", "wine": "red", "cheese": "mild", "bread": "rye"}
    assert MEALS.write(row) == "none+mild"
    assert MEALS.read("none+mild") == row
    for other in every_row(MEALS):
        assert MEALS.read(MEALS.write(other)) == other
    plain = Space({"meat": ("beef", "fish"), "wine": ("red", "white")})
    assert (plain.write(plain.usual), plain.read("usual")) == ("usual", plain.usual)


@pytest.mark.parametrize(
    ("text", "says"),
    [("fish+water", "names the level 'water'; there are: beef, fish"), ("fish", "fish does not go with red wine")],
)
def test_an_impossible_row_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        MEALS.read(text)


def test_a_level_belongs_to_one_factor() -> None:
    with pytest.raises(ValueError, match="meat and cheese both have a level 'none'"):
        Space({"meat": ("beef", "none"), "cheese": ("blue", "none")})


def test_a_contradiction_names_levels_that_there_are() -> None:
    unknown = Contradiction("no veal", {"meat": ("veal",), "wine": ("red",)})
    with pytest.raises(ValueError, match="'no veal' names the level 'veal' of meat; there are: beef, fish"):
        Space({"meat": ("beef", "fish"), "wine": ("red", "white")}, [unknown])
    with pytest.raises(ValueError, match="names the level 'rye' of bread; there are: no such factor"):
        Space({"meat": ("beef", "fish")}, [Contradiction("no rye", {"bread": ("rye",)})])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(2, 4), min_size=3, max_size=6), st.integers(0, 1000), st.data())
def test_arrays_of_any_space_are_whole(counts: list[int], seed: int, data: st.DataObject) -> None:
    factors = {f"f{place}": tuple(f"{place}.{level}" for level in range(count)) for place, count in enumerate(counts)}
    pairs = list(combinations(factors, 2))
    chosen = data.draw(st.lists(st.sampled_from(pairs), max_size=3))
    forbidden = [
        Contradiction("so it is", {one: factors[one][:1], other: factors[other][-1:]}) for one, other in chosen
    ]
    space = Space(factors, forbidden)
    rows = drawn(space, seed, fused=False)
    possible = {met for row in every_row(space) for met in met_in(row, fused=False)}
    assert {met for row in rows for met in met_in(row, fused=False)} == possible
    assert space.coverage(rows, fused=False).possible == len(possible)
