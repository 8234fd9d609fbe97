"""The page of audits: a row per contract, complaints, and tables of details."""

from dataclasses import replace
from pathlib import Path

from builders import NASTY, RUN, an_audit, outcome
from markdown_it import MarkdownIt

from attnsuite.model import Audit, Combinations, LevelCoverage, SeedAudit
from attnsuite.report import markdown
from attnsuite.report.audit import audit_lines, audit_page, cheats_lines, cheats_page, write_audit, write_cheats
from attnsuite.report.page import Section, Table

AUDIT_TABLES = ("audit.csv", "audit_families.csv", "audit_variants.csv", "audit_mutants.csv")

SOUND = Audit(
    {"unscaled": {"scale": frozenset({"scale/a"})}, "unmasked": {"mask": frozenset({"mask/a", "mask/b"})}},
    mistakes={"unscaled": "the scores are not divided", "unmasked": "the mask is ignored"},
    sources={"unscaled": "a paper", "unmasked": ""},
    families={"scale": 3, "mask": 2},
    variants={"folded": "by einsum"},
    accusations=[],
    controls=[],
)
COMBINED = replace(
    SOUND, combinations=Combinations(1, 2, LevelCoverage(9, 9, 100, ("slip a × b",)), LevelCoverage(7, 7, 50))
)
POOR = replace(
    SOUND,
    kills={"unscaled": {"scale": frozenset({"scale/a"})}, "unmasked": {}},
    accusations=[outcome("mask/a", "failed", "add_norm/folded", detail="off by one")],
    contract="add_norm",
)


def tables(page):
    return [block for block in page.blocks if isinstance(block, Table)]


def test_each_contract_has_a_row():
    _, contracts = tables(audit_page([SOUND, POOR], RUN))

    rows = [[cell.words for cell in row] for row in contracts.rows]
    assert rows == [["attention", *"2222010"], ["add_norm", *"2112111"]]


def test_a_complaint_has_its_contract():
    lines = audit_lines([SOUND, POOR])

    assert "attention: mutation score: 2 of 2 mutants killed" in lines
    assert "add_norm: survived: unmasked: the mask is ignored" in lines
    assert "add_norm: unnecessary: mask kills no mutant that no other family kills" in lines
    assert "add_norm: accused: add_norm/folded mask/a (float32): failed: off by one" in lines
    assert not any(line.startswith("attention: survived") for line in lines)


def test_the_page_has_complaints_and_tables_have_the_details(tmp_path):
    page = write_audit(tmp_path, [SOUND, POOR], RUN)

    totals, families, variants, mutants = ((tmp_path / name).read_text().splitlines() for name in AUDIT_TABLES)

    assert {path.name for path in tmp_path.iterdir()} == {page.name, *AUDIT_TABLES}
    assert "survived: unmasked" in page.read_text()
    assert all(f"[{name}]({name})" in page.read_text() for name in AUDIT_TABLES)
    assert totals[0] == "contract,mutants,killed,variants,accused"
    assert "attention,mask,2,1,unmasked" in families
    assert "add_norm,folded,by einsum" in variants
    assert "attention,unmasked,the mask is ignored,,mask 2" in mutants
    assert "add_norm,unmasked,the mask is ignored,," in mutants


def test_accusations_with_other_seeds_are_counted_and_named():
    accused = outcome("mask/a", "failed", "variants/folded", detail="off by one")
    lucky = replace(SOUND, redrawn=SeedAudit(3, 12345, 1.234))
    unlucky = replace(POOR, redrawn=SeedAudit(3, 100, 0.5, ((2, accused),)))

    text = markdown.render(audit_page([lucky, unlucky], RUN))
    lines = audit_lines([lucky, unlucky])

    assert "| `attention` | numbers | 3 | 12,345 | 0 | 1.23 |" in text
    assert "| `add_norm` | numbers | 3 | 100 | 1 | 0.50 |" in text
    assert "attention: other numbers, 3 seeds: correct variants fail 0 of 12,345 tests" in lines
    assert "add_norm: accused with seed 2: variants/folded mask/a (float32): off by one" in lines
    assert (lucky.passed, replace(SOUND, redrawn=unlucky.redrawn).passed) == (True, False)
    rearranged = replace(SOUND, rearranged=SeedAudit(4, 200, 0.5, ((3, accused),)))
    assert "| `attention` | combinations of features | 4 | 200 | 1 | 0.50 |" in markdown.render(
        audit_page([rearranged], RUN)
    )
    assert not rearranged.passed
    assert "Drawn from other seeds" not in markdown.render(audit_page([SOUND], RUN))


def test_hostile_words_are_no_markup():
    words = dict.fromkeys(NASTY, NASTY[4])
    audit = replace(
        SOUND, kills={name: {} for name in NASTY}, mistakes=words, sources=words, variants=words, controls=NASTY
    )

    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(markdown.render(audit_page([audit], RUN)))

    kinds = {token.type for token in tokens} | {child.type for token in tokens for child in token.children or ()}
    assert not kinds & {"html_block", "html_inline", "image", "em_open"}
    links = [child.attrs["href"] for token in tokens for child in token.children or () if child.type == "link_open"]
    assert links == list(AUDIT_TABLES)


def test_combinations_are_counted_and_survivors_named():
    lines = "\n".join(audit_lines([COMBINED]))
    assert "pairs of features: 9 of 9 are in a case; 99 of 100 mutants that are wrong for one of them alone" in lines
    assert "fused triples of features: 7 of 7 are in a case" in lines
    assert "survived a combination: slip a × b" in lines
    assert not COMBINED.passed
    assert "| pairs | 9 | 9 | 100 | 99 |" in markdown.render(audit_page([COMBINED], RUN))


def sections(page):
    return {block.title: block for block in page.blocks if isinstance(block, Section)}


def test_each_class_has_a_table_with_a_row_for_each_command():
    found = sections(cheats_page(an_audit(), RUN))

    assert list(found) == ["Expected verdicts", "control", "the clock"]
    (table,) = found["the clock"].blocks
    assert isinstance(table, Table)
    rows = [[cell.words for cell in row] for row in table.rows]
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
