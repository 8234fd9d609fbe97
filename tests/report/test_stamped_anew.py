"""Pages of audits that were altered and stamped anew: what they say is held against their tables and themselves."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from builders import RUN, outcome
from builders_of_cheats import an_audit
from msgspec import structs
from restamped import altered

from attnsuite.model import Audit, CheatsAudit, Combinations, Meetings, Redrawn, Trial
from attnsuite.report.audit import write_audit
from attnsuite.report.cheats import write_cheats
from attnsuite.report.verification.index import of_results

REAL = Path(__file__).parent.parent.parent / "results"
SOUND = Audit(
    {"unscaled": {"scale": frozenset({"scale/a"})}, "unmasked": {"mask": frozenset({"mask/a", "mask/b"})}},
    says={"unscaled": "the scores are not divided", "unmasked": "the mask is ignored"},
    sources={"unscaled": "a paper", "unmasked": ""},
    families={"scale": 3, "mask": 2, "documents": 1},
    strangers={"folded": "by einsum"},
    accusations=[],
    controls=[],
    combinations=Combinations(
        1, 2, Meetings(9, 9, 100, tuple(f"slip a × {each}" for each in "bcdefg")), Meetings(7, 7, 50)
    ),
    redrawn=Redrawn(3, 12345, 1.234),
)
POOR = replace(
    SOUND,
    catches={"unscaled": {"scale": frozenset({"scale/a"})}, "unmasked": {}},
    accusations=[outcome("mask/a", "wrong", "add_norm/folded", detail="off by one")],
    contract="add_norm",
    redrawn=Redrawn(3, 100, 0.5, ((2, outcome("mask/a", "wrong", "strangers/folded", detail="off by one")),)),
)
ALONE = replace(SOUND, contract="bleu", combinations=None, redrawn=None)
FAMILIES, DEVIATIONS = "audit_families.csv", "audit_deviations.csv"


def said(results, commit=None):
    return [str(each).replace(f"{results}/", "") for each in of_results(results, None, lambda _: commit)]


@pytest.fixture
def audits(tmp_path):
    write_audit(tmp_path, [SOUND, POOR, ALONE], RUN)
    assert said(tmp_path) == []
    return tmp_path


@pytest.mark.parametrize(
    ("file", "before", "now", "says"),
    [
        ("audit.md", "| `attention` | 2 |", "| `attention` | 952 |", "column deviations: '952' of attention"),
        ("audit.md", "| `bleu` | 2 | 2 | 2 | 3 |", "| `bleu` | 2 | 9 | 2 | 3 |", "column caught: '9' of bleu"),
        ("audit.md", "| `bleu` | 2 | 2 | 2 | 3 |", "| `bleu` | 2 | 2 | 1 | 3 |", "of bleu stands here, not 2"),
        ("audit.md", "| `bleu` | 2 | 2 | 2 | 3 |", "| `bleu` | 2 | 2 | 2 | 9 |", "column families: '9' of bleu"),
        ("audit.md", "| 1 | 1 | 1 |\n", "| 1 | 1 | 0 |\n", "column accused: '0' of add\\_norm stands here, not 1"),
        ("audit.md", "| `bleu` |", "| `unheard` |", "bleu is not both in the table of counts and in the tables"),
        ("audit.md", "missed: unmasked: the mask is ignored", "all is well", "are caught by no family, and the page"),
        (
            "audit.md",
            "| 9 | 9 | 100 | 94 |",
            "| 9 | 9 | 100 | 100 |",
            "100 of 100 mistakes are caught, and 6",
        ),
        ("audit.md", "| 9 | 9 | 100 | 94 |", "| 9 | 19 | 100 | 94 |", "19 of 9 meet and"),
        ("audit.md", "| 100 | 1 | 0.50 |", "| 100 | 0 | 0.50 |", "0 accusations of add\\_norm are counted, and 1 are"),
        (DEVIATIONS, "mask 2", "", "audit.md, line 14, column caught: '2' of attention stands here, not 1"),
        (DEVIATIONS, "mask 2", "mask 90", "column cases: 90 of its questions catch a deviation, and it has 2 cases"),
        (DEVIATIONS, "mask 2", "mask two", "column caught_by: 'mask two' are no families"),
        (DEVIATIONS, "mask 2", "lost 2", "it has no family lost of attention, which catches deviations"),
        (DEVIATIONS, "attention,unmasked", "attention,unscaled", "unscaled stands there twice"),
        (DEVIATIONS, "seen_in", "seen", "its columns are not contract, deviation, mistake, seen_in, caught_by"),
        (FAMILIES, "attention,mask,2,1,unmasked", "attention,mask,2,5,unmasked", "column caught: '5' stands here, and"),
        (FAMILIES, "attention,mask,2,1,unmasked", "attention,mask,2,1,", "column caught_alone: '' stands here, and"),
        (FAMILIES, "attention,mask,2,1,unmasked", "attention,scale,2,1,unmasked", "scale stands there twice"),
        (FAMILIES, "attention,mask,2,1,unmasked", "attention,mask,two,1,unmasked", "'two' is no count"),
        ("audit_strangers.csv", "attention,folded,by einsum\n", "", "column strangers: '1' of attention stands here"),
    ],
    ids=str,
)
def test_an_audit_counts_as_its_tables_do(audits, file, before, now, says):
    altered(audits / file, before, now, audits / "audit.md")

    assert any(says.replace("\\", "") in each for each in said(audits)), said(audits)


def test_this_project_s_audit_is_held_by_its_tables(tmp_path):
    for path in REAL.glob("audit*"):
        shutil.copy(path, tmp_path)
    assert said(tmp_path) == []

    deviations = re.search(r"\| `attention` \| (\d+) \|", (tmp_path / "audit.md").read_text())[1]
    row = "| `attention` | {0} | {0} |"
    altered(tmp_path / "audit.md", row.format(deviations), row.format(f"9{deviations}"))

    complaint = f"'9{deviations}' of attention stands here, not {deviations}"
    assert [each.partition(": ")[2] for each in said(tmp_path)] == [complaint] * 2


MUSTS = {"honest": ("control", "passes", "measured"), "clock|halved": ("the clock", "passes", "caught")}


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        ("refused: it claims 1 s", "measured", "clock|halved must be caught, and measured, and is not among those"),
        ("| caught | refused: it claims 1 s", "| measured | measured", "the commit"),
        ("passes all 3", "caught in 3 of 3: x: y", "honest must be passes, and caught in 3 of 3"),
        ("passes all 3", "caught in 4 of 3: x: y", "honest was caught in 4 of 3"),
        ("passes all 3", "passes", "honest was checked, and 'passes' is no verdict"),
        ("refused: it claims 1 s", "100x faster", "clock|halved was timed, and '100x faster' is no verdict"),
        ("| passes | passes all 3", "| win | passes all 3", "must be 'win' under 'check', which no submission must"),
        ("## the clock", "## control", "clock|halved of the class control must be 'passes' under check, and"),
        ("`honest` | PyTorch's own attention. | `bench`", "`honest` | PyTorch's own attention. | `check`", "not once"),
        ("`honest`", "`unheard`", "unheard of the class control must be 'passes' under check, and"),
    ],
    ids=lambda of: of[:60],
)
def test_a_verdict_on_a_cheat_is_what_must_be_and_what_its_commit_declares(tmp_path, before, now, says):
    page = write_cheats(tmp_path, an_audit(), structs.replace(RUN, commit="0123456789ab"))
    assert said(tmp_path, MUSTS) == said(tmp_path) == []

    altered(page, before, now)

    says = "and 0123456789ab declares the clock, passes and caught" if says == "the commit" else says
    assert any(says in each for each in said(tmp_path, MUSTS)), said(tmp_path, MUSTS)


def test_a_cheat_that_is_gone_is_missed(tmp_path):
    write_cheats(
        tmp_path, replace(an_audit(), trials=an_audit().trials[:2]), structs.replace(RUN, commit="0123456789ab")
    )

    assert said(tmp_path, MUSTS) == ["cheats.md: clock|halved is not there, which 0123456789ab declares"]


def test_a_cheat_that_got_another_verdict_says_so_and_is_consistent(tmp_path):
    page = write_cheats(tmp_path, an_audit(held=False), RUN)
    assert said(tmp_path) == []

    altered(page, "- another verdict than it must get: the clock: ", "- all is well with ")

    assert any("is not among those with another verdict" in each for each in said(tmp_path))


def test_what_must_be_harmless_shown_or_walled_may_be_timed(tmp_path):
    honest, happened = an_audit().trials[0].cheat, "measured; 1.01 times the honest control's time"
    cheats = [replace(honest, name=must, bench=must) for must in ("harmless", "shown", "walled", "no gain")]
    trials = [Trial(each, "check", "passes all 3", True) for each in cheats]
    write_cheats(tmp_path, CheatsAudit([*trials, *(Trial(each, "bench", happened, True) for each in cheats)]), RUN)

    assert said(tmp_path) == []
