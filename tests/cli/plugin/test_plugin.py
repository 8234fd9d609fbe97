"""The pytest plugin as another package's author meets it: real packages, real pytest runs, warnings as errors."""

from __future__ import annotations

import importlib
import posixpath
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attnsuite import pytest_plugin, registry
from attnsuite.pytest_plugin import InputValidationWarning, conformance
from attnsuite.registry import Declaration

Write = Callable[[str, str], Path]
Pytest = Callable[..., subprocess.CompletedProcess[str]]
Reported = Callable[[], dict[str, tuple[str, str]]]

SUBMISSIONS = Path(__file__).parents[2] / "submissions"


THREE_LINES = """
from attnsuite.pytest_plugin import conformance
from theirs.kernels import unscaled
test_unscaled = conformance(unscaled, cases=["plain/o*", "causal/square_5", "bad_input/narrow_keys"], dtypes="float32")
"""

SETTINGS = """
[pytest]
strict = true
filterwarnings = error
pythonpath = .
"""

FINDINGS = """
[[finding]]
id = "unscaled-by-design"
implementations = ["attention/unscaled"]
cases = ["plain/one_*"]
versions = {}
says = "It does not scale."
judgement = "It should."
reproduction = ""

[[finding]]
id = "mended"
implementations = ["attention/kernels"]
cases = ["plain/small"]
versions = {}
says = "It is wrong."
judgement = "It was."
reproduction = ""
"""

WITH_FINDINGS = """
from dataclasses import replace
from pathlib import Path
from attnsuite.conformance import session
from attnsuite.contracts.attention import contract

session.Session.known = lambda self, declaration, contract: self.known_bugs(contract)
contract.CONTRACT = replace(contract.CONTRACT, known_bugs=Path(__file__).with_name("findings.toml"))
"""


@pytest.fixture
def run(write: Write, run_pytest: Pytest) -> Pytest:
    """Runs pytest in a package with kernels and a test module of three lines."""
    write("theirs/__init__.py", "")
    write("theirs/kernels.py", (SUBMISSIONS / "checked_kernels.py").read_text())
    write("tests/test_theirs.py", THREE_LINES)
    write("pytest.ini", SETTINGS)
    return run_pytest


@pytest.mark.slow
def test_a_package_is_checked_by_two_processes_and_every_outcome_is_in_the_report(
    reported: Reported, write: Write, run: Pytest
) -> None:
    write("tests/findings.toml", FINDINGS)
    write("tests/conftest.py", WITH_FINDINGS)
    write("broken.py", "def attention(query, key, value:")

    done = run(
        "-n", "2", "--attention", "theirs.kernels:attention", "--attention", "broken.py",
        "--attention-case", "plain/[os]*",
        "--attention-case", "no_keys/plain", "--attention-case", "scale/half", "--attention-case", "causal/square_16",
        "--attention-dtype", "float32",
    )  # fmt: skip

    found = reported()
    said = {name: message for name, (_, message) in found.items()}
    assert done.returncode == 1, done.stdout
    assert {name: status for name, (status, _) in found.items()} == {
        "tests.test_theirs test_unscaled[plain/one_head-float32]": "xfail",
        "tests.test_theirs test_unscaled[plain/ordinary-float32]": "failure",
        "tests.test_theirs test_unscaled[causal/square_5-float32]": "skip",
        "tests.test_theirs test_unscaled[bad_input/narrow_keys-float32]": "passed",
        "tests.test_theirs test_unscaled[declarations]": "passed",
        "attention.kernels plain/small[float32]": "failure",
        "attention.kernels plain/self_attention[float32]": "passed",
        "attention.kernels plain/one_head[float32]": "passed",
        "attention.kernels plain/ordinary[float32]": "passed",
        "attention.kernels scale/half[float32]": "failure",
        "attention.kernels causal/square_16[float32]": "skip",
        "attention.kernels no_keys/plain[float32]": "skip",
        "attention.kernels declarations": "failure",
        "attention.broken import": "failure",
    }
    unscaled = 'equals "unscaled": the scores are not divided by √d; output['
    known = said["tests.test_theirs test_unscaled[plain/one_head-float32]"]
    assert known.startswith(f"known as unscaled-by-design: {unscaled}")
    again = "\nattnsuite check theirs.kernels:unscaled --case plain/ordinary --dtype float32"
    ordinary = said["tests.test_theirs test_unscaled[plain/ordinary-float32]"]
    assert again in ordinary
    heading = "# the smallest input that fails as plain/ordinary does in float32:"
    assert f"\n{heading}\nimport torch\nfrom theirs.kernels import unscaled as attention\n" in ordinary
    again = "attnsuite check theirs.kernels:attention --case scale/half --dtype float32"
    assert f"\n{again}" in said["attention.kernels scale/half[float32]"]
    assert ordinary.startswith(f"Failed: attention/unscaled plain/ordinary (float32): failed: {unscaled}")
    assert said["tests.test_theirs test_unscaled[causal/square_5-float32]"] == "unsupported: takes no is_causal"
    half = said["attention.kernels scale/half[float32]"].removeprefix("Failed: ")
    assert half.startswith('attention/kernels scale/half (float32): failed: equals "ignores_scale": ')
    assert said["attention.kernels causal/square_16[float32]"] == "unsupported: no triangles of sixteen"
    assert said["attention.kernels no_keys/plain[float32]"] == "unsupported: lacks no_keys: never empty"
    assert "passes every case that needs just that; remove the declaration" in said["attention.kernels declarations"]
    assert "the known bug says that these tests fail, but they pass" in said["attention.kernels plain/small[float32]"]
    assert "attention/broken * (*): error: SyntaxError: " in said["attention.broken import"]
    assert "FAILED attention/kernels::scale/half[float32] - " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert "def test_conformance" not in done.stdout, "the message is the whole story"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--attention theirs.kernels:attn", "kernels.py has no function 'attn': did you mean attention?"),
        ("--attention nosuch", "unknown target 'nosuch'; implementations of attention are: attention/chunked, "),
        ("--attention missing.py", "attention/missing is missing: No module named 'nosuchlibrary'"),
        ("--attention missing.py --attention-contract nosuch", "unknown contract 'nosuch'; there are: add_norm, "),
        ("--attention-contract transformer", "--attention-contract transformer needs a target: add --attention TARGET"),
    ],
)
def test_an_invalid_request_is_one_line_and_nothing_runs(run: Pytest, write: Write, arguments: str, says: str) -> None:
    write(
        "missing.py",
        "import attnsuite\n@attnsuite.implementation(requires=['nosuchlibrary'])\ndef attention(q, k, v): ...\n",
    )

    done = run(*arguments.split())

    lines = [line for line in done.stderr.splitlines() if line]
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert len(lines) == 1
    assert lines[0].startswith("ERROR: attnsuite: ")
    assert says in lines[0]
    assert " passed" not in done.stdout


def test_cases_are_selected_like_other_tests(run: Pytest) -> None:
    words = "one_head and float32 or declarations"

    done = run(
        "--attention", "matmul", "--collect-only", "-q", "-k", words, "--attention-case", "plain", "--ignore", "tests"
    )

    assert done.returncode == 0
    assert done.stdout.splitlines()[:2] == [
        "attention/matmul::plain/one_head[float32]",
        "attention/matmul::declarations",
    ]
    assert "2/33 tests collected (31 deselected)" in done.stdout


def test_without_the_option_a_run_is_as_before_and_imports_no_torch(
    run: Pytest, reported: Reported, write: Write
) -> None:
    write("plain/test_plain.py", "import sys\ndef test_plain():\n    assert 'torch' not in sys.modules\n")

    done = run("plain")

    assert done.returncode == 0
    assert reported() == {"plain.test_plain test_plain": ("passed", "")}


# The function, here


def names_of(test: Callable[..., None]) -> list[str]:
    """The names of a test's parameter sets."""
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    return list(mark.kwargs["ids"])


def test_there_is_a_parameter_set_for_every_case_and_dtype_and_one_for_declarations() -> None:
    names = names_of(conformance(scaled_dot_product_attention))

    assert len(set(names)) == len(names)
    assert names[-1] == "declarations"
    assert {"plain/small-float64", "plain/small-bfloat16", "bad_input/narrow_keys-float32"} < set(names)
    assert names == names_of(conformance(scaled_dot_product_attention))


def only_test(**options: Any) -> Callable[[], None]:
    """The test with a negative probability, of attention that takes any number for one."""

    def lenient(query: Tensor, key: Tensor, value: Tensor, dropout_p: float = 0.0) -> Tensor:
        return scaled_dot_product_attention(query, key, value)

    test = conformance(lenient, cases="bad_input/dropout_below_zero", dtypes="float32", **options)
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    return partial(test, *mark.args[1][0])


def test_accepted_bad_input_is_a_warning() -> None:
    with pytest.warns(InputValidationWarning, match=r"dropout_p = −0.1 was accepted; the contract requires an error"):
        only_test()()


def test_accepted_bad_input_is_a_failure_where_that_is_strict() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"dropout_p = −0.1 was accepted"):
        only_test(strict=True)()


test_a_correct_function = conformance(
    scaled_dot_product_attention, cases=("plain/small", "bad_input/narrow_keys"), dtypes=("float32", "bfloat16")
)


def test_a_function_in_the_folder_of_the_test_is_named_by_its_file(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write("tests/beside_the_test.py", "def attention(query, key, value): ...\n")
    monkeypatch.syspath_prepend(file.parent)
    declaration = registry.from_function(importlib.import_module("beside_the_test").attention).declaration

    assert declaration.module == "beside_the_test"
    assert pytest_plugin._words(declaration) == (f"{file}:attention",)


def test_a_module_that_commands_find_is_named_as_a_module() -> None:
    assert pytest_plugin._words(Declaration("attention", "join", "join", "posixpath", posixpath.__file__)) == (
        "posixpath:join",
    )
