"""`import attnsuite` gives the public names, light until they are used; `check` takes what the command line takes."""

import runpy
import subprocess
import sys
from dataclasses import fields
from importlib import metadata
from pathlib import Path

import pytest
import torch
from commanded import HOME, RIGHT, SUBMISSIONS, Write
from torch import nn

import attnsuite
from attnsuite.cli.requests import Check

STYLES = runpy.run_path(str(SUBMISSIONS / "styles.py"))


def test_all_names_are_there_and_shown() -> None:
    assert set(attnsuite.__all__) <= set(dir(attnsuite))
    assert all(getattr(attnsuite, name) is not None for name in attnsuite.__all__)
    assert attnsuite.__version__ == metadata.version("attnsuite")
    with pytest.raises(AttributeError, match="module 'attnsuite' has no attribute 'chek'; it has"):
        _ = attnsuite.chek


def test_it_is_light_until_it_is_used() -> None:
    says = (
        "import sys, attnsuite; attnsuite.UsageError, attnsuite.Outcome, dir(attnsuite); print('torch' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True, cwd=HOME)

    assert done.stdout == "False\n"


def test_a_file_is_checked_and_its_outcomes_are_data(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("mine.py", RIGHT)

    results = attnsuite.check(file, cases="plain", dtypes=torch.float32)
    of_two = attnsuite.check([str(file), "attention/loops"], cases=["plain/small"], dtypes=["float32"])

    assert {outcome.status for outcome in results} == {attnsuite.Status.PASSED}
    assert {outcome.dtype for outcome in results} == {"float32"}
    assert [outcome.implementation for outcome in of_two] == ["attention/mine", "attention/loops"]
    assert capsys.readouterr() == ("", "")


def test_it_takes_the_options_of_the_command_line(write: Write, tmp_path: Path) -> None:
    file = write("mine.py", RIGHT.replace("0.5", "0.25"))
    places = {"results": tmp_path / "out", "junit": tmp_path / "out.xml", "json": tmp_path / "rows.json"}

    results = attnsuite.check(f"{file}:attention", cases="plain", dtypes="float32", fail_fast=True, **places)

    assert [outcome.fails for outcome in results] == [True]
    assert all(path.exists() for path in places.values())
    assert len(attnsuite.load_results(tmp_path / "out")) == 1


def test_every_option_of_the_command_line_can_be_given(write: Write) -> None:
    file = write("mine.py", RIGHT)
    own = ("targets", "contract", "dtypes", "device", "cases")
    options = {item.name: getattr(Check(), item.name) for item in fields(Check) if item.name not in own}

    (results,) = attnsuite.check(file, cases="plain/small", dtypes="float32", **options)

    assert results.status == "passed"


@pytest.mark.parametrize(
    ("target", "options", "says"),
    [
        (3, {}, "check expects a function, a class or a module, or names and files as the command line does; got int"),
        ([], {}, "got list"),
        ("loops", {"case": "plain"}, "check takes no 'case'; valid names: targets, contract, cases, "),
        ("loops", {"cases": "nosuch"}, "no case of attention matches 'nosuch'"),
        (print, {"contract": "nosuch"}, "unknown contract 'nosuch'"),
    ],
)
def test_what_cannot_be_carried_out_raises(target: object, options: dict[str, object], says: str) -> None:
    with pytest.raises(attnsuite.UsageError) as caught:
        attnsuite.check(target, **options)

    assert says in str(caught.value)


def test_a_module_of_the_caller_s_is_in_training_mode_again_afterwards() -> None:
    module = nn.Sequential(nn.Dropout(0.5), STYLES["Module"]())
    module[0].eval()

    outcomes = attnsuite.check(module[1], dtypes="float32", cases="plain/small")

    assert [outcome.status for outcome in outcomes] == ["passed"]
    assert (module.training, module[0].training, module[1].training) == (True, False, True)
    assert module[1].dropout.training


def test_a_class_can_be_checked_from_python_and_one_that_cannot_be_made_is_refused() -> None:
    outcomes = attnsuite.check(STYLES["Plain"], cases="plain/small", dtypes=torch.float32)

    assert [outcome.status for outcome in outcomes] == ["passed"]
    with pytest.raises(attnsuite.UsageError, match="Made is a class that is made with width, heads"):
        attnsuite.check(STYLES["Made"])
