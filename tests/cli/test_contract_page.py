"""`attnsuite list --contract NAME`: the docstring of the contract's file, then sections made of what it declares."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from attnsuite.cli.list import WIDTH, page_of
from attnsuite.contracts import contract, names

BUG = """
[[finding]]
id = "kernel-drops-a-token"
implementations = ["bleu/loops"]
cases = ["plain/*"]
versions = { torch = ">=2" }
says = "The kernel drops a token."
judgement = "Wrong."
reproduction = "print()"
upstream = "issue 7"
"""


def page(name: str) -> str:
    return "\n".join(page_of(contract(name)))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("bleu", "    bleu(prediction, reference, *, k) -> score"),
        ("bleu", "Axes: `p` prediction, `r` reference, the score has none. Papineni"),
        ("bleu", "    no match         a p_n of 0 makes the score 0: nothing is smoothed"),
        ("attention_weights", "s, declared as `conventions={point: choice}`; the first choice is the default:"),
        ("attention_weights", "    empty_row        zeros, nan, mean"),
        ("attention_weights", "    causal           is_causal (parameter is_causal)"),
        ("attention_weights", "    dtypes           float64, float32, float16, bfloat16"),
        ("bleu", "    float32          tokens, which are counted as this dtype"),
        ("bleu", "42 tests in all dtypes; `attnsuite list --cases --contract bleu` lists them:"),
        ("bleu", "    k                3, such as k/1: single tokens alone"),
        ("bleu", "    size             1, size/long: 600 tokens, the last is wrong"),
        ("bleu", "mutants: mistakes that the cases detect and a diagnosis names; sources in brackets:"),
        ("bleu", "    percent               the score is multiplied by 100 [sacrebleu]"),
        ("bleu", "2 correct variants: implementations in other styles, which pass every case:"),
        ("bleu", "    struck_out       lists, from the longest n-grams to the shortest"),
        ("bleu", "Not tested:"),
        ("bleu", "    corpus scores    counts summed over many sentences"),
    ],
)  # fmt: skip
def test_a_page_has_the_decisions_of_the_docstring_and_what_the_file_declares(name: str, line: str) -> None:
    assert any(each.startswith(line) or each.endswith(line) for each in page(name).splitlines())


def test_a_page_shows_known_bugs_of_the_installed_versions(tmp_path: Path) -> None:
    file = tmp_path / "findings.toml"
    file.write_text(BUG)

    lines = list(page_of(replace(contract("bleu"), known_bugs=file)))

    assert lines[lines.index("Known bugs of the installed libraries, which do not fail a run:") + 2] == (
        "    kernel-drops-a-token The kernel drops a token. [torch >=2; issue 7]"
    )
    assert "Known bugs" not in page("bleu"), "a section without entries is left out"


@pytest.mark.parametrize("name", names())
def test_every_page_fits_a_terminal_and_names_all_its_mutants(name: str) -> None:
    lines = page(name).splitlines()

    long = [line for line in lines if len(line) > WIDTH and " " in line.strip()]
    assert long in ([], [line for line in long if line.startswith("    " + name)]), "only a signature may be longer"
    terms = {line.split()[0] for line in lines if line.strip()}
    assert {mutant.name for mutant in contract(name).mutants()} <= terms


def test_the_command_prints_the_page_and_then_the_implementations(
    status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("list", "--contract", "bleu") == 0

    printed = capsys.readouterr().out
    assert printed.startswith(page("bleu") + "\n\nbleu: 2 implementations\n  bleu/eager  ")
