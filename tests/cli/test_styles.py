"""Classes, modules and functions that return their weights too: checked on the command line as functions are."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
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
EVALUATED = "it is asked in evaluation mode, in which nn.Dropout drops nothing"
MISNAMED = (
    "attention/{} takes mask, which attention does not know: rename mask to attn_mask where it means the same, or say "
    "--signature jax or mlx where it is that library's; cases that need it are declined"
)
NEVER_GIVEN = "never given: mask (its meaning was not tested)"
PAIR = "it returns (output, weights): the first is taken as the output, and the second is judged beside it"


class Checked(NamedTuple):
    status: object
    lines: list[str]
    said: str


Check = Callable[..., Checked]
StatusOf = Callable[..., object]
Write = Callable[[str, str], Path]


@pytest.fixture
def check(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> Check:
    """Checks what tests/submissions/styles.py calls so, as the command line does."""

    def run(name: str, *options: str, cases: tuple[str, ...] = ("plain",)) -> Checked:
        asked = [word for case in cases for word in ("--case", case)]
        status = status_of("check", f"{STYLES}:{name}", "--dtype", "float32", *asked, *options)
        printed = capsys.readouterr()
        lines = [line for line in printed.out.splitlines() if not line.startswith(("walls: ", "operators: "))]
        return Checked(status, lines, printed.err)

    return run


# Classes and modules


def test_of_a_class_an_instance_is_called(check: Check) -> None:
    status, lines, _ = check("Plain")

    assert (status, lines) == (0, ["attention/Plain  8 of 8 passed", f"Plain {IS_A_CLASS}"])


@pytest.mark.parametrize("name", ["Module", "Inherits"])
def test_a_module_is_asked_in_evaluation_mode_and_its_forward_is_the_declaration(check: Check, name: str) -> None:
    status, lines, _ = check(name, cases=("plain", "gradients/plain", "causal/square_5"))

    assert (status, lines[:2]) == (0, [MISNAMED.format(name), f"attention/{name}  9 of 9 passed; 1 more declined"])
    assert "declined: takes no is_causal" in lines[2]
    assert lines[3:] == [f"{name} {IS_A_CLASS}; {EVALUATED}", PAIR, NEVER_GIVEN]


def test_dropout_is_mentioned_where_a_module_has_any(write: Write, status_of: StatusOf, capsys) -> None:  # type: ignore[no-untyped-def]
    file = write(
        "bare.py",
        """
        from torch import nn

        class Bare(nn.Module):
            def forward(self, query, key, value):
                return nn.functional.scaled_dot_product_attention(query, key, value)
        """,
    )
    status_of("check", f"{file}:Bare", "--case", "plain", "--dtype", "float32")

    assert f"\nBare {IS_A_CLASS}; it is asked in evaluation mode\n" in capsys.readouterr().out


def test_one_whose_attributes_cannot_be_asked_for_is_asked_all_the_same(write: Write, status_of: StatusOf) -> None:
    file = write(
        "strict.py",
        """
        from torch import nn


        class Strict(nn.Module):
            def __getattr__(self, name):
                raise RuntimeError(f"nothing is called {name}")

            def forward(self, query, key, value):
                return nn.functional.scaled_dot_product_attention(query, key, value)
        """,
    )

    assert status_of("check", f"{file}:Strict", "--case", "plain", "--dtype", "float32") == 0


def test_a_module_that_was_made_is_asked_as_well(check: Check) -> None:
    status, lines, _ = check("instance")

    passed = "attention/instance  8 of 8 passed"
    assert (status, lines) == (
        0,
        [MISNAMED.format("instance"), passed, f"instance is a module: {EVALUATED}", PAIR, NEVER_GIVEN],
    )


def test_what_was_made_with_arguments_is_named_by_its_instance(check: Check) -> None:
    assert check("made").status == 0


def test_a_parameter_with_almost_the_due_name_is_pointed_out(check: Check) -> None:
    lines = check("Module").lines

    assert lines[0] == MISNAMED.format("Module")


@pytest.mark.parametrize("name", ["instance", "Inherits"])
def test_so_is_one_that_only_an_import_shows(name: str, check: Check) -> None:
    assert [line for line in check(name).lines if "which attention does not know" in line] == [MISNAMED.format(name)]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Made", "Made is a class that is made with width, heads: write an instance below it, mine = Made(width=…, "),
        ("Raises", "Raises() raises ValueError: 128 is not divisible by 5"),
        ("Silent", "Silent is a class whose instances cannot be called: give it a method __call__"),
        ("Applied", "Applied is an autograd Function, which is not called but applied: name Applied.apply"),
        ("Empty", "Empty is a module without a method forward"),
        ("empty", "empty is a module without a method forward"),
    ],
)
def test_what_is_not_clear_is_answered_with_what_to_write(check: Check, name: str, says: str) -> None:
    status, lines, said = check(name)

    assert (status, lines) == (2, [])
    assert said.startswith(f"attnsuite: {says}")
    assert said.count("\n") == 1


def test_a_module_with_weights_is_answered_with_a_function_to_write(check: Check) -> None:
    status, lines, said = check("Projects")

    assert (status, lines) == (2, [])
    first, *code = said.splitlines()
    assert first.startswith(
        "attnsuite: Projects has weights of its own (w_query.weight, w_query.bias, w_key.weight and 1 "
    )
    assert first.endswith("as below, and name it, FILE.py:multi_head_attention")
    assert "        weights = {'w_query.weight': w_query.T, 'w_key.weight': w_key.T}" in code


def test_what_is_applied_can_be_named(check: Check) -> None:
    assert check("Applied.apply").status == 0


def test_a_file_with_one_class_needs_no_name(write: Write, status_of: StatusOf) -> None:
    file = write(
        "only.py", "import torch\nclass Only:\n    def __call__(self, query, key, value):\n        return value\n"
    )

    assert status_of("check", str(file), "--dtype", "float32", "--case", "plain/small") == 1


def test_a_class_may_be_decorated(write: Write, status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(
        "decorated.py",
        """
        import torch
        from attnsuite import implementation

        @implementation(conventions={"empty_row": "mean"})
        class Mine:
            def __call__(self, query, key, value, attn_mask=None):
                scores = query @ key.mT / query.shape[-1] ** 0.5
                if attn_mask is not None:
                    scores = scores.masked_fill(attn_mask == 0, -1e9)
                return scores.softmax(-1) @ value
        """,
    )

    status = status_of("check", str(file), "--dtype", "float32", "--case", "empty_row/bool")

    assert status == 0
    assert "attention/decorated  1 of 1 passed" in capsys.readouterr().out


# Pairs


def test_weights_that_come_along_are_judged_too(check: Check) -> None:
    status, lines, _ = check("pair", "--jobs", "2")

    assert (status, lines) == (0, ["attention/pair  8 of 8 passed", PAIR])


def test_nothing_may_come_along(check: Check) -> None:
    assert check("nothing_beside").status == 0


def test_a_dictionary_may_name_the_weights(check: Check) -> None:
    status, lines, _ = check("by_name")

    assert (status, lines) == (0, ["attention/by_name  8 of 8 passed", PAIR])


@pytest.mark.parametrize(("name", "of"), [("by_no_name", "'lse', 'p'"), ("by_two_names", "'attn', 'weights'")])
def test_of_a_dictionary_that_does_not_say_which_are_the_weights_one_line_says_so(
    check: Check, name: str, of: str
) -> None:
    status, lines, _ = check(name, cases=("plain/small",))

    says = f"a Tensor beside a dictionary of {of}, which says of no one tensor that it is 'weights'"
    assert status == 1
    assert f"1 × wrong: returned {says}, should return a Tensor" in lines[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("wrong_weights", "wrong: the output is right, the weights beside it are not: weights["),
        ("wrong_output", "; the weights are right"),
        ("wrong_both", "; the weights are wrong too: weights["),
        (
            "turned_weights",
            "the output is right, the weights beside it are not: weights have shape (",
        ),
        ("weights_first", ", as the second of the pair does: return output, weights"),
    ],
)
def test_a_pair_says_which_of_the_two_is_wrong(check: Check, name: str, says: str) -> None:
    status, lines, _ = check(name, cases=("plain/small", "plain/many_items"))

    assert status == 1
    assert says in lines[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wrong_weights", "wrong_by_name"])
def test_wrong_weights_are_reproduced_by_what_is_pasted(check: Check, name: str) -> None:
    _, lines, _ = check(name)

    pasted = lines[next(place for place, line in enumerate(lines) if line.startswith("# the smallest")) :]
    ran = subprocess.run([sys.executable, "-"], input="\n".join(pasted), capture_output=True, text=True, timeout=120)

    actual, expected = ran.stdout.removeprefix("actual ").split(" expected ")
    assert ran.stderr == ""
    assert json.loads(actual) != json.loads(expected)


@pytest.mark.slow
def test_a_failing_class_is_reproduced_by_what_is_pasted(
    write: Write, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        "wrong.py",
        """
        from torch import nn

        class Wrong(nn.Module):
            def __init__(self):
                super().__init__()
                self.dropout = nn.Dropout(0.5)

            def forward(self, query, key, value):
                weights = (query @ key.mT).softmax(-1)
                return self.dropout(weights) @ value, weights
        """,
    )
    status_of("check", f"{file}:Wrong", "--dtype", "float32", "--case", "plain")
    lines = capsys.readouterr().out.splitlines()

    assert 'wrong: equals "unscaled": the scores are not divided by √e' in lines[1]
    pasted = lines[next(place for place, line in enumerate(lines) if line.startswith("# the smallest")) :]
    ran = subprocess.run([sys.executable, "-"], input="\n".join(pasted), capture_output=True, text=True, timeout=120)
    assert ran.stdout.startswith("actual [[")
    assert ran.stderr == ""


def test_weights_under_dropout_are_looked_at_by_shape_alone(check: Check) -> None:
    status, lines, _ = check("with_dropout", cases=("dropout",))

    assert (status, lines[-1]) == (0, PAIR)
    assert "wrong" not in lines[0]


@pytest.mark.parametrize("contract", ["additive_attention"])
def test_another_contract_s_weights_may_come_along(check: Check, contract: str) -> None:
    status, lines, _ = check(contract, "--contract", contract)

    assert (status, lines[-1]) == (0, PAIR)


def test_weights_come_along_unasked_where_they_are_judged_when_asked(
    write: Write, status_of: StatusOf, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(
        "always.py",
        """
        from attnsuite.implementations.multi_head_attention.split_heads import multi_head_attention as eager

        def multi_head_attention(query, key, value, *weights, **named):
            return eager(query, key, value, *weights, **named | {"need_weights": True})
        """,
    )
    asked = ("--case", "plain", "--case", "weights/usual", "--dtype", "float32")
    status_of("check", str(file), "--contract", "multi_head_attention", *asked)
    (line, *_) = capsys.readouterr().out.splitlines()

    assert "wrong" not in line
    assert "passed" in line


def test_where_no_weights_may_come_along_one_tensor_is_due(check: Check) -> None:
    status, lines, _ = check("attention_scores", "--contract", "attention_scores")

    assert status == 1
    assert "wrong: returned a pair, should return the output alone" in lines[1]


# Defaults


def test_a_parameter_with_a_default_is_no_part_of_the_core(check: Check) -> None:
    status, lines, _ = check("attention_weights", "--contract", "attention_weights")

    assert (status, lines[0]) == (0, "attention_weights/styles  4 of 4 passed; 1 more declined")
    assert lines[1].strip() == "1 × declined: takes no normaliser"


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


def test_a_pair_may_be_plugged_in(status_of: StatusOf, capsys: pytest.CaptureFixture[str]) -> None:
    target = f"split_heads+{STYLES}:Module"

    status = status_of("check", target, "--dtype", "float32", "--case", "plain")

    assert status == 0, capsys.readouterr().out
