"""`attnsuite verify` on a page that was edited."""

from stored import MACHINE, RUN, outcome, record

from attnsuite.cli.report import report
from attnsuite.cli.requests import Verify
from attnsuite.cli.verify import run


def test_an_edited_page_is_named(tmp_path, capsys):
    record(tmp_path, RUN, outcome())
    report(tmp_path, draws=False)
    page = tmp_path / MACHINE.name / "cases.html"
    page.write_text("<!doctype html><!-- attnsuite -->")

    assert run(Verify(paths=(tmp_path,))) == 1
    assert f"{page}: it differs from the rows" in capsys.readouterr().out
