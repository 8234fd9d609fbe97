"""`attnsuite verify` on the committed results, whole and damaged."""

import shutil
from pathlib import Path

import pytest

from attnsuite.cli.report import report
from attnsuite.cli.requests import Verify
from attnsuite.cli.verify import run

RESULTS = Path(__file__).parents[2] / "results"
SMALL = "intel-xeon-family-6-model-207-16-cores-nvidia-h100-80gb-hbm3"


@pytest.fixture
def copy(tmp_path):
    results = tmp_path / "results"
    shutil.copytree(RESULTS / SMALL, results / SMALL)
    report(results, draws=False)
    return results


def verify(path, capsys):
    status = run(Verify(paths=(path,)))
    return status, capsys.readouterr().out


def test_an_edited_page_is_named(copy, capsys):
    page = copy / SMALL / "cases.html"
    page.write_text("<!doctype html><!-- attnsuite -->")

    status, printed = verify(copy, capsys)

    assert status == 1
    assert f"{page}: it differs from the rows" in printed
