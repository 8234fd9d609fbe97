"""The command line: output, files and exit statuses that tests/golden/ does not hold."""

from collections.abc import Callable

import pytest
from commanded import WITHOUT_TORCH, Run, Write, rows

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
