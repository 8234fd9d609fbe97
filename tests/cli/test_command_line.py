"""The command line as its users meet it: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import pytest
from commanded import KERNELS, WITHOUT_TORCH, Run, Write, rows

KEYS = ["implementation", "contract", "case", "dtype", "device", "status", "detail", "error_ratio", "seconds", "reason"]

# Without torch


def test_help_list_and_report_do_without_torch(attnsuite: Run, write: Write) -> None:
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent

    assert "not to be imported" in attnsuite("check", "loops", path=blocked).stderr, "the blockade holds"
    shown = attnsuite("--help", path=blocked)
    listed = attnsuite("list", path=blocked)
    reported = attnsuite("report", path=blocked)

    assert shown.returncode == listed.returncode == 0
    places = [shown.stdout.index(f"  {command} ") for command in ("list", "check", "audit", "report", "run", "verify")]
    assert places == sorted(places), "subcommands stand in workflow order"
    assert "attention/chunked  " in listed.stdout
    assert "unsupported: dropout (takes no dropout_p)" in listed.stdout
    assert (reported.returncode, reported.stdout) == (2, "")
    assert reported.stderr == "attnsuite: results holds no results; `attnsuite run` makes them\n"


def test_the_program_says_its_version_and_helps_in_short(
    status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("--version") == 0
    assert re.fullmatch(r"attnsuite \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)
    assert status_of("check", "-h") == 0
    in_short = capsys.readouterr().out
    assert status_of("check", "--help") == 0
    assert capsys.readouterr().out == in_short
    assert status_of() == 0
    assert capsys.readouterr().out.startswith("Usage: attnsuite [OPTIONS] COMMAND")


def test_a_shell_is_told_how_subcommands_and_options_go_on(attnsuite: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ATTNSUITE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "attnsuite che")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert attnsuite().stdout.split() == ["check"]
    monkeypatch.setenv("COMP_WORDS", "attnsuite check --fail")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert attnsuite().stdout.split() == ["--fail-fast"]


def test_another_package_s_broken_entry_point_is_a_row(
    write: Write,
    status_of: Callable[..., object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write("installed/theirs-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    point = "[attnsuite.implementations]\ntransformers/theirs = theirs:attention\n"
    installed = write("installed/theirs-1.0.dist-info/entry_points.txt", point).parent.parent
    monkeypatch.syspath_prepend(str(installed))

    assert status_of("list") == 0
    assert status_of("check", "matmul", "theirs", "--case", "plain/small", "--dtype", "float32") == 2

    said = capsys.readouterr().out
    assert "transformers/theirs  broken: unknown contract 'transformers'; there are: add_norm, " in said
    assert "attention/matmul  1 of 1 passed\ntransformers/theirs  0 of 1 passed, 1 error\n" in said


# Checking


def test_json_on_standard_output_is_nothing_but_rows(
    write: Write, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    write("kernels.py", KERNELS)

    status = status_of(
        "check", "kernels.py:attention", "--case", "plain/small", "--case", "causal/square_*", "--json", "-"
    )

    written = capsys.readouterr()
    found = rows(written.out)
    unsupported = len(found) - 4
    assert status == 0
    reason = f"  {unsupported} × unsupported: takes no is_causal\n"
    *lines, mechanisms, operators = written.err.splitlines(keepends=True)
    assert "".join(lines) == f"attention/kernels  4 of 4 passed; {unsupported} more unsupported\n{reason}"
    assert mechanisms.startswith("sandbox: ")
    assert operators.startswith("operators: ")
    assert [list(row) for row in found] == [[*KEYS, "sandbox"]] * len(found)
    assert Counter(row["status"] for row in found) == {"passed": 4, "unsupported": unsupported}
    assert {row["detail"] for row in found[4:]} == {"takes no is_causal"}
    assert [row["dtype"] for row in found[:4]] == ["float64", "float32", "float16", "bfloat16"]
    assert all(isinstance(row["error_ratio"], float) and row["error_ratio"] < 2 for row in found[:4])


@pytest.mark.slow
def test_the_suite_survives_what_a_submission_does(attnsuite: Run, write: Write) -> None:
    write(
        "kernel.py",
        """
        import ctypes, os, time, torch

        print("imported")
        os.write(1, b"imported")

        def attention(query, key, value, *, is_causal=False, scale=None):
            print('{"implementation": "attention/forged"}')
            if is_causal:
                ctypes.string_at(0)
            if scale == 0.5:
                time.sleep(600)
            return torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale)
        """,
    )
    cases = ("plain/small", "scale/half", "scale/one", "causal/square_1", "behaviour/one_key")
    chosen = [word for case in cases for word in ("--case", case)]

    done = attnsuite("check", "kernel.py", *chosen, "--dtype", "float32", "--time-limit", "1", "--json", "-")

    statuses = {row["case"]: row["status"] for row in rows(done.stdout)}
    assert statuses == dict(zip(cases, ("passed", "timeout", "passed", "crashed", "passed"), strict=True))
    assert done.returncode == 1
    assert "timeout: no result within 1 s; --time-limit 2 allows more" in done.stderr
    assert "crashed: SIGSEGV; the last it printed: " in done.stderr
