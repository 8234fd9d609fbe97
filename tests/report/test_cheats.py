"""The page of exploits: a list of unexpected verdicts, then a table per class."""

from pathlib import Path

from builders import RUN
from builders_of_cheats import an_audit

from attnsuite.report.audit import cheats_lines, cheats_page, write_cheats
from attnsuite.report.page import Section, Table


def sections(page):
    return {block.title: block for block in page.blocks if isinstance(block, Section)}


def test_each_class_has_a_table_with_a_row_for_each_command():
    found = sections(cheats_page(an_audit(), RUN))

    assert list(found) == ["Expected verdicts", "control", "the clock"]
    (table,) = found["the clock"].blocks
    assert isinstance(table, Table)
    rows = [[cell.value for cell in row] for row in table.rows]
    assert rows == [
        ["clock|halved", "Halves the clock.", "check", "passes", "passes all 3"],
        ["clock|halved", "Halves the clock.", "bench", "caught", "refused: it claims 1 s"],
    ]


def test_unexpected_verdicts_are_first_on_the_page_and_last_in_the_lines():
    audit = an_audit(held=False)

    assert "Unexpected verdicts" in sections(cheats_page(audit, RUN))
    lines = cheats_lines(audit)
    assert lines[-2].startswith("unexpected verdict: the clock: clock|halved: bench: expected caught")
    assert lines[-1] == "2 submissions, 1 with an unexpected verdict, in 12 s"
    assert "\x1b" not in "".join(lines)


def test_texts_of_a_submission_are_escaped(tmp_path: Path):
    text = write_cheats(tmp_path, an_audit(held=False), RUN).read_text()

    assert "\x1b" not in text
    assert "<b>" not in text
    assert "clock|halved" not in text
