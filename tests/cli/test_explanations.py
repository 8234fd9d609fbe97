"""Explanations below failures: the features that they share, and a reproduction that runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from attnsuite.cli.check import run as check
from attnsuite.cli.requests import Check

WRONG = Path(__file__).parents[1] / "submissions" / "wrong_where_features_meet.py"


def lines_of(capsys: object, function: str, *cases: str) -> list[str]:
    """What a check prints."""
    status = check(Check((f"{WRONG}:{function}",), cases=cases, dtypes=("float32",)))
    printed: list[str] = capsys.readouterr().out.splitlines()  # type: ignore[attr-defined]
    return [str(status), *printed]


@pytest.mark.slow
def test_a_failing_check_ends_with_lines_that_can_be_pasted(capsys: object) -> None:
    status, *lines = lines_of(
        capsys, "loses_a_mask", "plain/small", "bool_mask/random", "float_mask/random", "float_mask/per_head"
    )

    assert status == "1"
    assert "failed only with a float mask" in lines
    start = lines.index("# the smallest input that fails as float_mask/random does in float32:")
    pasted = lines[start:]
    ran = subprocess.run([sys.executable, "-"], input="\n".join(pasted), capture_output=True, text=True, timeout=120)
    assert ran.stdout.startswith("actual [")
    assert ran.stderr == ""
