"""`attnsuite draw` as a user types it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnsuite.documents.figures import FIGURES

HOME = Path(__file__).parents[2]


def drawing_is_possible():
    """Skip the test where the libraries that draw are absent."""
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


def run(*arguments, cwd, path=()):
    """The command in a process of its own, with folders put first where Python looks for modules."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, HOME)))}
    command = [sys.executable, "-m", "attnsuite", "draw", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def refused(capsys, status):
    """The one line of a request that cannot be carried out."""
    said = capsys.readouterr()
    assert (status, said.out, said.err.count("\n")) == (2, "", 1)
    return said.err


@pytest.mark.slow
def test_figures_are_drawn_by_name_or_pattern_and_their_files_are_printed(tmp_path):
    drawing_is_possible()

    done = run("masked_softmax", "position_c*", "--to", "there", cwd=tmp_path)

    files = [f"there/{name}.{kind}" for name in ("masked_softmax", "position_curves") for kind in ("svg", "png")]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == files
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_extra_one_line_says_what_to_install(module, tmp_path):
    drawing_is_possible()
    (tmp_path / f"{module}.py").write_text("raise ModuleNotFoundError('there is none here')")

    done = run("identity", cwd=tmp_path, path=[tmp_path])

    package = {"altair": "altair", "vl_convert": "vl-convert-python"}[module]
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f'attnsuite: drawing needs {package}: python -m pip install "attnsuite[charts]"\n'
    assert not (tmp_path / "figures").exists()


def test_an_unknown_figure_is_refused_with_the_list(capsys, status_of):
    said = refused(capsys, status_of("draw", "identity", "masked_sofmax"))

    assert said.startswith("attnsuite: unknown figure 'masked_sofmax': did you mean masked_softmax? There are: ")
    assert all(name in said for name in FIGURES)
    assert refused(capsys, status_of("draw", "nosuch")).startswith("attnsuite: unknown figure 'nosuch'; there are: ")


def test_the_list_names_every_figure_and_draws_none(capsys, status_of, tmp_path):
    assert status_of("draw", "--list") == 0

    said = capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == list(FIGURES)
    assert list(tmp_path.iterdir()) == []


def test_an_option_goes_with_figures_that_take_it(capsys, status_of):
    said = refused(capsys, status_of("draw", "kernels", "weights", "--causal"))
    assert said == "attnsuite: kernels takes no --causal; figures that take it: weights\n"

    said = refused(capsys, status_of("draw", "--causal"))
    assert said == "attnsuite: --causal goes with a figure that is named; figures that take it: weights\n"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("raise RuntimeError('no such luck')", "attention/mine gave no weights: RuntimeError: no such luck"),
        ("return query * float('nan')", "attention/mine returned NaN or infinity, which cannot be drawn"),
        (
            "return value[..., :1]",
            "attention/mine gave no weights: ValueError: it returned shape (1, 1, 6, 1), expected (1, 1, 6, 2)",
        ),
        ("return 1", "attention/mine gave no weights: ValueError: it returned int, expected a tensor"),
    ],
)
def test_an_attention_that_gives_no_weights_is_one_line(body, says, write, capsys, status_of, tmp_path):
    drawing_is_possible()
    write("mine.py", f"def attention(query, key, value):\n    {body}\n")

    said = refused(capsys, status_of("draw", "weights", "--attention", "mine.py"))

    assert said.startswith(f"attnsuite: {says}")
    assert not (tmp_path / "figures" / "weights.svg").exists()


def test_an_attention_that_cannot_be_causal_is_not_drawn_so(write, capsys, status_of):
    drawing_is_possible()
    write("mine.py", "def attention(query, key, value):\n    return value\n")

    said = refused(capsys, status_of("draw", "weights", "--attention", "mine.py", "--causal"))

    assert said == "attnsuite: attention/mine is not causal: attention/mine takes no is_causal\n"


def test_rows_that_do_not_sum_to_one_are_said_to(write, status_of, tmp_path):
    drawing_is_possible()
    write("mine.py", "def attention(query, key, value):\n    return (query @ key.mT).softmax(-1) @ value * 0.5\n")

    assert status_of("draw", "weights", "--attention", "mine.py", "--sentence", "the cat sat") == 0

    assert "rows sum to 0.5 at least and 0.5 at most, not to 1" in (tmp_path / "figures" / "weights.svg").read_text()


def test_an_attention_that_returns_its_weights_too_is_drawn(write, status_of):
    drawing_is_possible()
    body = "    weights = (query @ key.mT).softmax(-1)\n    return weights @ value, weights\n"
    write("mine.py", f"def attention(query, key, value):\n{body}")

    assert status_of("draw", "weights", "--attention", "mine.py", "--sentence", "the cat sat") == 0


@pytest.mark.parametrize(("sentence", "count"), [("", 0), (" \n\t", 0), ("word " * 41, 41)])
def test_a_sentence_has_words_and_not_too_many(sentence, count, capsys, status_of):
    drawing_is_possible()

    said = refused(capsys, status_of("draw", "weights", "--sentence", sentence))

    assert said == f"attnsuite: expected a sentence of 1 to 40 words, got {count}\n"


def test_there_is_no_seed_below_0(capsys, status_of):
    said = refused(capsys, status_of("draw", "cross_attention", "--seed", "-1"))

    assert said == "attnsuite: --seed should lie between 0 and 4294967295, not be -1\n"


def test_attention_is_one_implementation_that_can_be_called(capsys, status_of):
    drawing_is_possible()

    assert "means" in refused(capsys, status_of("draw", "weights", "--attention", "torch_sdpa"))
    assert "unknown target 'chunkd'" in refused(capsys, status_of("draw", "weights", "--attention", "chunkd"))
