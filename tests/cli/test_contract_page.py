"""`attnsuite list --contract NAME`: the docstring of the contract's file, then sections made of what it declares."""

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
    "line",
    [
        "s, declared as `conventions={point: choice}`; the first choice is the default:",
        "    empty_row        zeros, nan, mean",
        "    causal           is_causal (parameter is_causal)",
    ],
)
def test_a_page_has_the_contract_s_conventions_and_parameters(line: str) -> None:
    """tests/golden/list.txt has a page without conventions."""
    assert any(each.endswith(line) for each in page("attention_weights").splitlines())


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
