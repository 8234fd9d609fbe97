"""Requests that cannot be carried out, besides those of tests/golden/: one line on standard error and status 2."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commanded import WITHOUT_TORCH, Cli, Run, Write, environment

from attnsuite import __main__


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        "check loops --dtype foo",
        "check loops --seed x",
        "check loops --results /dev/null",
        "bench loops --shape l=8,foo=1",
        "bench loops --budget 0",
        "learn --epochs 0",
        "compare a b --margin 2",
        "audit --benchmark --jobs 2",
        "merge shards",
        "chek",
    ],
)
def test_a_wrong_value_is_refused_before_torch_is_imported(line: str, attnsuite: Run, write: Write) -> None:
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent

    done = attnsuite(*line.split(), path=blocked)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "not to be imported" not in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_cuda_is_one_line_and_status_2(cli: Cli) -> None:
    result = cli("check", "loops", "--device", "cuda")

    assert result.status == 2
    assert "finds no CUDA device; use --device cpu\n" in result.err


def test_a_full_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "attnsuite", "check", "matmul", "--case", "plain/small", "--dtype", "float32"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment(),
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.strip() == "attnsuite: cannot write to standard output or an open file: No space left on device"


def test_an_error_of_the_system_is_reported_with_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        Path("/dev/null/mine").mkdir()

    monkeypatch.setattr(__main__, "app", fails)
    monkeypatch.setattr(sys, "argv", ["attnsuite"])

    with pytest.raises(SystemExit, match="2"):
        __main__.main()
    assert capsys.readouterr().err == "attnsuite: cannot access /dev/null/mine: Not a directory\n"
