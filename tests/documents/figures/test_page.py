"""docs/figures.md shows every figure as it is drawn today, and says which command draws it."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from attnsuite.documents.figures import FIGURES, targets
from attnsuite.documents.figures.drawn import bptt_errors

HOME = Path(__file__).parents[3] / "docs"
PAGE = (HOME / "figures.md").read_text(encoding="utf-8")
SVG = "{http://www.w3.org/2000/svg}"
LARGEST = 1_500_000
"""Bytes of all figures that are committed."""


def numbers(text):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", text)]


@pytest.mark.parametrize("name", FIGURES)
def test_the_page_shows_a_figure_and_the_command_that_draws_it(name):
    assert f"](figures/{name}.svg)" in PAGE
    assert any(name in command.split() for command in re.findall(r"attnsuite draw ([\w ]+)", PAGE))


def test_the_page_shows_no_figure_that_there_is_not():
    assert set(re.findall(r"\(figures/(\w+)\.svg\)", PAGE)) == set(FIGURES)


def test_committed_figures_are_whole_unchanged_and_small():
    files = sorted((HOME / "figures").glob("*.svg"))

    assert [file.stem for file in files] == list(FIGURES)
    assert sum(file.stat().st_size for file in files) < LARGEST
    targets(HOME / "figures", list(FIGURES))  # raises for one that was changed by hand


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if not figure.trains])
def test_a_committed_figure_shows_what_would_be_drawn_today(name):
    """Its description, which says where the largest numbers are; digits that hang on the order of sums aside."""
    picture = FIGURES[name].picture()

    root = ElementTree.parse(HOME / "figures" / f"{name}.svg").getroot()

    assert root.find(f"{SVG}title").text == picture.title
    said = root.find(f"{SVG}desc").text
    assert re.sub(r"[\d.e-]+", "", said) == re.sub(r"[\d.e-]+", "", picture.shown)
    assert numbers(said) == pytest.approx(numbers(picture.shown), rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("name", [name for name, figure in FIGURES.items() if figure.trains])
def test_a_committed_figure_of_a_translation_shows_the_documents_sentence_and_its_own_figure_s_title(name):
    root = ElementTree.parse(HOME / "figures" / f"{name}.svg").getroot()

    assert root.find(f"{SVG}title").text == FIGURES[name].title
    assert root.find(f"{SVG}desc").text.startswith("i'm home . → je suis chez moi .; ")


def test_the_page_quotes_what_truncated_and_randomised_gradients_cost():
    said = " ".join(PAGE.split())
    single, mean = bptt_errors.randomised()
    at = bptt_errors.PROBABILITIES.index(0.8)

    (quoted,) = re.findall(
        r"after 4 steps, .*? off by (\d+) %.*? off by (\d+) % in .*? mean of 200 of them by (\d+) %", said
    )

    due = (bptt_errors.truncated()[3], single[at], mean[at])
    assert [int(each) for each in quoted] == pytest.approx([100 * each for each in due], abs=0.6)
