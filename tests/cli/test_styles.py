"""Classes, modules and functions that return their weights too: checked on the command line as functions are."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

import attnsuite
from attnsuite.model import UsageError

STYLES = Path(__file__).parents[1] / "submissions" / "styles.py"
IS_A_CLASS = "is a class: an instance made without arguments is called"
EVALUATED = "it is tested in evaluation mode"
MISNAMED = (
    "attention/{} takes mask, which attention does not know: rename mask to attn_mask where it means the same; cases "
    "that need it are unsupported"
)
UNTESTED = "not tested: the parameter mask"
PAIR = "it returns (output, weights): the first is judged as the output, the second as its weights"


class Checked(NamedTuple):
    status: object
    lines: list[str]
    said: str


Check = Callable[..., Checked]
StatusOf = Callable[..., object]


@pytest.fixture
def check(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> Check:
    """Checks what tests/submissions/styles.py calls so, as the command line does."""

    def run(name: str, *options: str, cases: tuple[str, ...] = ("plain",)) -> Checked:
        asked = [word for case in cases for word in ("--case", case)]
        status = status_of("check", f"{STYLES}:{name}", "--dtype", "float32", *asked, *options)
        printed = capsys.readouterr()
        lines = [line for line in printed.out.splitlines() if not line.startswith(("sandbox: ", "operators: "))]
        return Checked(status, lines, printed.err)

    return run


# Classes and modules


def test_of_a_class_an_instance_is_called(check: Check) -> None:
    status, lines, _ = check("Plain")

    assert (status, lines) == (0, ["attention/Plain  8 of 8 passed", f"Plain {IS_A_CLASS}"])


@pytest.mark.parametrize("name", ["Module", "Inherits"])
def test_a_module_is_asked_in_evaluation_mode_and_its_forward_is_the_declaration(check: Check, name: str) -> None:
    status, lines, _ = check(name, cases=("plain", "gradients/plain", "causal/square_5"))

    assert (status, lines[:2]) == (0, [MISNAMED.format(name), f"attention/{name}  9 of 9 passed; 1 more unsupported"])
    assert "unsupported: takes no is_causal" in lines[2]
    assert lines[3:] == [f"{name} {IS_A_CLASS}; {EVALUATED}", PAIR, UNTESTED]


# Pairs


def test_a_dictionary_may_name_the_weights(check: Check) -> None:
    status, lines, _ = check("by_name")

    assert (status, lines) == (0, ["attention/by_name  8 of 8 passed", PAIR])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wrong_weights", "failed: the output is right, its weights are not: weights["),
        ("wrong_output", "; the weights are right"),
        ("wrong_both", "; the weights are wrong too: weights["),
        ("turned_weights", "the output is right, its weights are not: weights have shape ("),
        ("weights_first", ", as the second of the pair does: return output, weights"),
    ],
)
def test_a_pair_says_which_of_the_two_is_wrong(check: Check, name: str, says: str) -> None:
    status, lines, _ = check(name, cases=("plain/small", "plain/many_items"))

    assert status == 1
    assert says in lines[1]


# Defaults


# From Python


def in_python(name: str) -> type:
    """What the file of submissions calls so."""
    found: type = runpy.run_path(str(STYLES))[name]
    return found


def test_a_module_of_the_caller_s_is_in_training_mode_again_afterwards() -> None:
    module = nn.Sequential(nn.Dropout(0.5), in_python("Module")())
    module[0].eval()

    outcomes = attnsuite.check(module[1], dtypes="float32", cases="plain/small")

    assert [outcome.status for outcome in outcomes] == ["passed"]
    assert (module.training, module[0].training, module[1].training) == (True, False, True)
    assert module[1].dropout.training


def test_a_class_can_be_checked_from_python_and_one_that_cannot_be_made_is_refused() -> None:
    assert [
        outcome.status for outcome in attnsuite.check(in_python("Plain"), cases="plain/small", dtypes=torch.float32)
    ] == ["passed"]
    with pytest.raises(UsageError, match="Made is a class that is made with width, heads"):
        attnsuite.check(in_python("Made"))


# Plugged in
