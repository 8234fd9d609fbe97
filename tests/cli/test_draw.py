"""`attnsuite draw` as a user types it."""

import pytest


@pytest.fixture(autouse=True)
def drawing_is_possible():
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")


@pytest.mark.slow
def test_figures_are_drawn_by_name_or_pattern_and_their_files_are_printed(attnsuite, tmp_path):
    done = attnsuite("draw", "masked_softmax", "position_c*", "--to", "there")

    files = [f"there/{name}.{kind}" for name in ("masked_softmax", "position_curves") for kind in ("svg", "png")]
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == files
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_without_the_extra_one_line_says_what_to_install(module, attnsuite, tmp_path):
    (tmp_path / f"{module}.py").write_text("raise ModuleNotFoundError('there is none here')")

    done = attnsuite("draw", "identity", path=tmp_path)

    package = {"altair": "altair", "vl_convert": "vl-convert-python"}[module]
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f'attnsuite: drawing needs {package}: python -m pip install "attnsuite[charts]"\n'
    assert not (tmp_path / "figures").exists()
