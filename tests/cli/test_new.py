"""`attnsuite new` writes files to begin with, of attention such that run at once, and replaces none."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from targets import EACH_ARGUMENT

import attnsuite
from attnsuite import registry
from attnsuite.cases.documented import DocumentedNumbers
from attnsuite.cli import new
from attnsuite.cli.requests import New
from attnsuite.conformance.request import CheckRequest
from attnsuite.conformance.session import Session
from attnsuite.contracts import contract, names
from attnsuite.model import UsageError
from attnsuite.registry import Loaded
from attnsuite.registry.signatures import names as signature_names

RULES = Path(__file__).parents[2] / "pyproject.toml"
FEW = (
    *("plain/small", "causal/more_keys", "scale/half", "window/both", "bool_mask/per_head", "float_mask/per_head"),
    *("empty_row/bool", "empty_row/float", "gradients/causal", "gradients/grouped", "bad_input/widths_differ"),
)
"""JAX compiles for the shapes of every case."""
PLAIN = (*FEW, "plain", "causal/more_queries", "heads")

StatusOf = Callable[..., object]


def begun(status_of: StatusOf, folder: Path, name: str, *options: str) -> Path:
    assert status_of("new", name, *options) == 0
    return folder / f"{name}.py"


def ruff(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("signature", "cases"),
    [
        *((name, FEW if name == "jax" else PLAIN) for name in signature_names()),
        *((name, EACH_ARGUMENT) for name in ("xformers", "flashinfer", "numpy")),
        pytest.param("jax", EACH_ARGUMENT, marks=pytest.mark.slow),
    ],
)
def test_in_every_signature_a_file_passes_at_once(
    status_of: StatusOf, tmp_path: Path, signature: str, cases: tuple[str, ...]
) -> None:
    file = begun(status_of, tmp_path, "mine", "--signature", signature)

    (declaration,) = registry.find([str(file)])
    if registry.missing_library(declaration):
        pytest.skip(f"{signature}: its library is not installed")
    loaded = registry.load(declaration)
    assert isinstance(loaded, Loaded), loaded
    families = cases if loaded.declaration.contract == "attention" else ()
    outcomes = Session(CheckRequest(families, ("float32",)), keep_inputs=False).outcomes(loaded)

    assert [f"{item.case}: {item.says}" for item in outcomes if item.fails] == []
    assert sum(item.status == "passed" for item in outcomes) >= 10
    assert declaration.signature == ("" if signature == "sdpa" else signature)


@pytest.mark.parametrize("of", names())
def test_for_every_contract_a_file_gets_a_verdict(
    status_of: StatusOf, tmp_path: Path, capsys: pytest.CaptureFixture[str], of: str
) -> None:
    file = begun(status_of, tmp_path, "mine", "--contract", of)
    output = capsys.readouterr().out

    core = contract(of).core
    status = status_of("check", str(file), "--dtype", "float32", "--case", core)

    printed = capsys.readouterr()
    yours = "" if of == "attention" else " Write the body of its function."
    assert output == f"mine.py is written.{yours} Check it: attnsuite check mine.py\n"
    assert (status, printed.err) == (0 if of == "attention" else 1, "")
    if of != "attention":
        assert f"the body of this {of} is not written yet" in printed.out


def test_all_of_them_pass_a_linter_and_are_formatted(status_of: StatusOf, tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    for signature in signature_names():
        begun(status_of, tmp_path, f"in_{signature}", "--signature", signature)
    for name in names():
        begun(status_of, tmp_path, f"of_{name}", "--contract", name)

    checked = ruff("check", "--no-cache", "--config", RULES, tmp_path)
    formatted = ruff("format", "--no-cache", "--check", "--config", RULES, tmp_path)

    assert checked.returncode == 0, checked.stdout
    assert formatted.returncode == 0, formatted.stdout


def test_an_attention_in_another_contract_s_folder_is_tested_as_an_attention(
    status_of: StatusOf, tmp_path: Path
) -> None:
    (tmp_path / "bleu").mkdir()
    file = begun(status_of, tmp_path, "bleu/mine")

    assert registry.find([str(file)])[0].full_name == "attention/mine"


# Exercises

BODY = """    weights = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    hidden = torch.ones_like(weights, dtype=torch.bool).triu(1) & bool(is_causal)
    return torch.softmax(weights.masked_fill(hidden, -torch.inf), -1) @ value
"""


def test_an_exercise_is_a_function_to_complete_with_the_section_s_examples(
    tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    new.run(New("ada", exercise="doc-003/3.4"))
    text = (tmp_path / "ada.py").read_text(encoding="utf-8")

    assert "raise NotImplementedError" in text
    assert f"# Check it: {capsys.readouterr().out.partition('Check it: ')[2]}" in text
    assert '"doc-003/3.4.1-stepwise-query-2/output"' in text
    assert "[[0.3061, 0.821]]" in text
    assert "3.3" not in text.partition("EXAMPLES")[2]

    incomplete = attnsuite.check("ada.py", cases="documents/doc-003/3.4*", dtypes="float32")
    assert incomplete
    assert "passed" not in {outcome.status for outcome in incomplete}

    before, after = text.split("    raise NotImplementedError")
    (tmp_path / "ada.py").write_text(before + BODY + after.partition("\n")[2], encoding="utf-8")
    outcomes = attnsuite.check("ada.py", cases="documents/doc-003/3.4*", dtypes="float32")
    assert {outcome.status for outcome in outcomes} == {"passed"}
    shown = subprocess.run([sys.executable, "ada.py"], capture_output=True, text=True, check=True).stdout
    assert "0.3061" in shown


@pytest.mark.parametrize("name", [name for name in names() if not contract(name).is_model])
def test_every_contract_s_examples_are_python(name: str, tmp_path: Path) -> None:
    sections = ("doc-000", "doc-001", "doc-002", "doc-003", "doc-004")
    written = 0
    for section in sections:
        try:
            text = new.exercise(tmp_path / "mine.py", name, section)
        except UsageError:
            continue
        compile(text, "mine.py", "exec")
        written += 1
    assert bool(written) == any(isinstance(case, DocumentedNumbers) for case in contract(name).cases())
