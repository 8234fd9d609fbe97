"""Which version gets what wrong: what depends on the version first, dtypes that are alike in one row."""

from __future__ import annotations

from builders import NASTY, outcome

from attnsuite.report.files import as_csv, as_markdown
from attnsuite.report.summary import versions_lines
from attnsuite.report.versions import Tried, versions_page

OLD = {"torch": "2.12.0", "jax": "0.10.2"}
NEW = {"torch": "2.13.0", "jax": "0.10.2"}


def tried(*of_old: tuple[str, str, str], of_new: list[tuple[str, str, str]]) -> list[Tried]:
    rows = [[outcome(case, status, dtype=dtype) for case, dtype, status in of] for of in (of_old, of_new)]
    return [Tried("old", OLD, rows[0]), Tried("new", NEW, rows[1])]


def table(of: list[Tried]) -> list[str]:
    return [line for line in as_markdown(versions_page(of)).splitlines() if line.startswith(("| `", "## "))]


def test_rows_are_cases_that_depend_on_the_version_and_those_that_fail_everywhere() -> None:
    of = tried(
        ("causal/a", "float32", "wrong"), ("causal/a", "float16", "wrong"), ("causal/a", "bfloat16", "passed"),
        ("plain/a", "float32", "passed"), ("scale/a", "float32", "raised"), ("gone/a", "float32", "passed"),
        of_new=[
            ("causal/a", "float32", "passed"), ("causal/a", "float16", "passed"), ("causal/a", "bfloat16", "passed"),
            ("plain/a", "float32", "passed"), ("scale/a", "float32", "raised"),
        ],
    )  # fmt: skip

    assert table(of) == [
        "## What depends on the version",
        "| `attention/loops` | `causal/a` | float32, float16 | **wrong** | passed |  |",
        "| `attention/loops` | `gone/a` | float32 | passed | – |  |",
        "## What fails with every version",
        "| `attention/loops` | `scale/a` | float32 | **raised** | **raised** |  |",
    ]
    lines = versions_lines(of)
    assert lines[0] == "6 questions in 2 environments: 3 depend on the environment, 1 fail in all, 2 fail in none."
    assert any("old: torch 2.12.0; 6 outcomes, 3 failures" in line for line in lines), "jax is the same in both"


def test_a_finding_is_named_and_an_environment_without_answers_says_why() -> None:
    known = outcome("causal/a", "wrong", detail="is 1, should be 2", known="a-finding")
    of = [Tried("old", OLD, [known]), Tried("none", {}, (), "the environment none cannot be built")]

    assert "| `attention/loops` | `causal/a` | float32 | **wrong** | – | known as a-finding |" in table(of)
    assert any(
        "none: 0 outcomes, 0 failures; the environment none cannot be built" in line for line in versions_lines(of)
    )


def test_hostile_words_stay_text() -> None:
    of = [Tried("old", OLD, [outcome(f"family/{number}", "wrong", detail=text) for number, text in enumerate(NASTY)])]

    page = as_markdown(versions_page(of))
    assert "<script>" not in page
    assert "\x1b" not in page + "".join(versions_lines(of))
    assert as_csv(versions_page(of).data["versions"]).count("\n") == len(NASTY) + 1
