"""Submissions on the command line: they run in a sandbox, and their output is printed harmlessly."""

from collections.abc import Callable
from pathlib import Path

import pytest

StatusOf = Callable[..., object]


def test_the_operators_that_ran_are_printed(
    status_of: StatusOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    own = tmp_path / "mine.py"
    own.write_text(
        "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
        "def attention(query, key, value):\n    return sdpa(query, key, value)\n"
    )
    options = ("--case", "plain", "--dtype", "float32", "--results", str(tmp_path / "results"))
    status_of("check", str(own), *options)
    printed = capsys.readouterr()
    (line,) = [line for line in printed.out.splitlines() if line.startswith("operators: ")]
    assert line.startswith(
        "operators: PyTorch's own attention is called; the one recorded test ran _scaled_dot_product_"
    )
    assert "profiler" not in printed.err
