"""The command line: output, files and exit statuses that tests/golden/ does not hold."""

import io
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commanded import WITHOUT_TORCH, Cli, Run, Write, environment

from attnsuite import __main__
from attnsuite.__main__ import prepare_streams

# Without torch


def test_help_list_and_report_do_not_import_torch(attnsuite: Run, write: Write) -> None:
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent

    assert "not to be imported" in attnsuite("check", "loops", path=blocked).stderr, "the blockade holds"
    printed = attnsuite("--help", path=blocked)
    listed = attnsuite("list", path=blocked)
    reported = attnsuite("report", path=blocked)

    assert printed.returncode == listed.returncode == 0
    places = [
        printed.stdout.index(f"  {command} ") for command in ("list", "check", "audit", "report", "run", "verify")
    ]
    assert places == sorted(places), "subcommands stand in workflow order"
    assert "attention/chunked  " in listed.stdout
    assert "unsupported: dropout (takes no dropout_p)" in listed.stdout
    assert (reported.returncode, reported.stdout) == (2, "")
    assert reported.stderr == "attnsuite: results holds no results; `attnsuite run` makes them\n"


def test_a_shell_completes_subcommands_and_options(attnsuite: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ATTNSUITE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "attnsuite che")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert attnsuite().stdout.split() == ["check"]
    monkeypatch.setenv("COMP_WORDS", "attnsuite check --fail")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert attnsuite().stdout.split() == ["--fail-fast"]


def test_another_package_s_broken_entry_point_is_a_row(
    write: Write, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("installed/theirs-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    point = "[attnsuite.implementations]\ntransformers/theirs = theirs:attention\n"
    installed = write("installed/theirs-1.0.dist-info/entry_points.txt", point).parent.parent
    monkeypatch.syspath_prepend(str(installed))

    assert status_of("list") == 0
    assert status_of("check", "matmul", "theirs", "--case", "plain/small", "--dtype", "float32") == 2

    printed = capsys.readouterr().out
    assert "transformers/theirs  broken: unknown contract 'transformers'; there are: add_norm, " in printed
    assert "attention/matmul  1 of 1 passed\ntransformers/theirs  0 of 1 passed, 1 error\n" in printed


# Checking


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


def redirected_run(
    redirected: str, *arguments: str, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    command = f"{shlex.join((sys.executable, '-m', 'attnsuite', *arguments))} {redirected}"
    surroundings = environment() | variables
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=surroundings, capture_output=True, text=True, timeout=120, check=False
    )


def test_a_closed_standard_error_is_replaced(tmp_path: Path) -> None:
    done = redirected_run("2>&-", "list", "--contract", "add_norm", folder=tmp_path)

    assert done.returncode == 0
    assert done.stdout.startswith("The contract `add_norm`")


def test_an_encoding_without_a_character_gets_a_substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))

    prepare_streams()
    print("2 × failed: 1/√width … ∞", flush=True)

    assert written.getvalue() == rb"2 x failed: 1/sqrt width ... \u221e" + b"\n"
