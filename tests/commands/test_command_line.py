"""The command line as its users meet it: what it prints, what it writes, and with which status it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch

import suite
from suite.conformance.operators import MOST_LOOKED_AT
from suite.contracts import contract
from suite.records import EVERY_CASE

Write = Callable[[str, str], Path]
Run = Callable[..., subprocess.CompletedProcess[str]]

HOME = str(Path(suite.__file__).parent.parent)
SUBMISSIONS = Path(__file__).parent.parent / "submissions"

KEYS = ["implementation", "contract", "case", "dtype", "device", "status", "detail", "error_ratio", "seconds"]

KERNELS = (SUBMISSIONS / "right_and_unscaled.py").read_text(encoding="utf-8")
WITHOUT_TORCH = (SUBMISSIONS / "without_torch.py").read_text(encoding="utf-8")


def environment(*path: Path | str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, HOME)))}


@pytest.fixture
def attnsuite(tmp_path: Path) -> Run:
    """Runs the command in tmp_path, in a process of its own."""

    def run(*arguments: str | Path, path: Path | str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "suite", *map(str, arguments)]
        surroundings = environment(path) if path else environment()
        return subprocess.run(
            command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, timeout=120, check=False
        )

    return run


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# Without torch


def test_help_list_and_report_do_without_torch(attnsuite: Run, write: Write) -> None:
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent

    assert "not to be imported" in attnsuite("check", "loops", path=blocked).stderr, "the blockade holds"
    shown = attnsuite("--help", path=blocked)
    listed = attnsuite("list", path=blocked)
    reported = attnsuite("report", path=blocked)

    assert shown.returncode == listed.returncode == 0
    places = [shown.stdout.index(f"  {command} ") for command in ("list", "check", "audit", "report", "run", "migrate")]
    assert places == sorted(places), "subcommands stand in workflow order"
    assert "attention/chunked  " in listed.stdout
    assert "takes no dropout_p: no dropout" in listed.stdout
    assert (reported.returncode, reported.stdout) == (2, "")
    assert reported.stderr == "attnsuite: results holds no results; `attnsuite run` makes them\n"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("check loops --dtype foo", "unknown dtype 'foo'; there are: float64, "),
        ("check loops --device foo", "unknown device 'foo'; there are: cpu, cuda, cuda:N"),
        ("check loops --profile foo", "unknown profile 'foo'; there are: quick, full"),
        ("check loops --seed -1", "a seed is a whole number of at least 0, not -1"),
        ("check loops --time-limit 0", "the time limit is a number of seconds above 0, not 0"),
        ("check loops --jobs 0", "--jobs is the number of processes that ask, 1 or more, not 0"),
        ("check loops --seed 1 --results r", "--seed does not go with --results: "),
        ("check loops --json mine.txt", "mine.txt exists and does not hold JSON rows"),
        ("check loops --junit mine.txt", "--junit: mine.txt exists and was not written by attnsuite"),
        ("bench loops --dtype foo", "unknown dtype 'foo'; there are: float64, "),
        ("bench loops --device foo", "unknown device 'foo'; there are: cpu, cuda, cuda:N"),
        ("bench loops --profile foo", "unknown profile 'foo'; there are: quick, standard, full"),
        ("bench loops --cache foo", "the cache is hot or cold, not 'foo'"),
        ("bench loops --budget 0", "the budget is a number of seconds above 0, not 0"),
        ("run loops --device foo", "unknown device 'foo'; there are: cpu, cuda, cuda:N"),
    ],
)
def test_a_wrong_value_is_refused_before_torch_is_imported(line: str, says: str, attnsuite: Run, write: Write) -> None:
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent
    write("mine.txt", "mine")

    done = attnsuite(*line.split(), path=blocked)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"attnsuite: {says}")


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
    monkeypatch.setenv("COMP_WORDS", "attnsuite check --last")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert attnsuite().stdout.split() == ["--last-failed"]


def test_list_shows_what_is_asked(status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("list", "--cases", "--contract", "add_norm") == 0
    head, first, *_ = capsys.readouterr().out.splitlines()
    assert status_of("list", "--case", "plain/small", "chunked") == 0

    cases = contract("add_norm").cases()
    assert head == f"add_norm: {len(cases)} cases, {sum(len(case.dtypes) for case in cases)} questions in all dtypes"
    assert first.split() == [cases[0].name, *f"{', '.join(cases[0].dtypes)}: {cases[0].why}".split()]
    assert capsys.readouterr().out == (
        "attention: 1 case, 4 questions in all dtypes\n"
        "  plain/small  float64, float32, float16, bfloat16: the definition, nothing else\n"
    )


def test_list_shows_what_is_timed(status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of("list", "--workloads", "transformer/eager", "add_norm/*") == 0
    transformer, *lines = capsys.readouterr().out.splitlines()
    assert status_of("list", "--workloads", "add_norm/*") == 2

    assert transformer == "transformer: 2 workloads"
    assert lines[0].startswith("  translator/10   batch 128, 10 tokens to 10, ")
    assert lines[0].endswith("in standard, full: ten words a sentence, as the documents train it")
    assert len(lines) == 2
    timed = "attention, multi_head_attention, seq2seq_attention, transformer, vision_transformer"
    refused = f"there are no workloads of add_norm; there are of {timed}"
    assert capsys.readouterr().err == f"attnsuite: {refused}\n"


def test_list_shows_one_file_and_what_it_does_not_take(
    write: Write, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        "kernel.py",
        '''
        """A kernel of mine."""
        from suite import implementation

        @implementation(lacks={"gqa": "no groups yet"}, conventions={"empty_row": {"bool_mask": "nan"}})
        def attention(query, key, value, *, attn_mask=None, dropout_p=0.0, is_causal=False, enable_gqa=False): ...
        ''',
    )

    assert status_of("list", "kernel.py") == 0

    assert capsys.readouterr().out.splitlines() == [
        "attention: 1 implementation",
        "  attention/kernel  A kernel of mine.",
        "                    takes no scale: no scale",
        "                    takes no window: no window",
        "                    lacks gqa: no groups yet",
        "                    empty_row is nan for bool_mask",
    ]


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
    assert status_of("check", "matmul", "theirs", "--case", "plain/small", "--dtype", "float32") == 1

    said = capsys.readouterr().out
    assert "transformers/theirs  broken: unknown contract 'transformers'; there are: add_norm, " in said
    assert "attention/matmul  1/1 passed\ntransformers/theirs  0/1 passed, 1 raised\n" in said


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
    declined = len(found) - 4
    assert status == 0
    reason = f"  {declined} × declined: takes no is_causal\n"
    *lines, walls, operators = written.err.splitlines(keepends=True)
    assert "".join(lines) == f"attention/kernels  4/4 passed, declined {declined}\n{reason}"
    assert walls.startswith("walls: ")
    assert operators.startswith("operators: ")
    assert [list(row) for row in found] == [[*KEYS, "walls"]] * len(found)
    assert Counter(row["status"] for row in found) == {"passed": 4, "declined": declined}
    assert {row["detail"] for row in found[4:]} == {"takes no is_causal"}
    assert [row["dtype"] for row in found[:4]] == ["float64", "float32", "float16", "bfloat16"]
    assert all(isinstance(row["error_ratio"], float) and row["error_ratio"] < 2 for row in found[:4])


def test_a_wrong_function_ends_with_1_and_its_mistake_is_named(attnsuite: Run, write: Write, tmp_path: Path) -> None:
    write("package/kernels.py", KERNELS)

    done = attnsuite(
        "check", "package.kernels:unscaled", "--case", "plain/one_*", "--dtype", "float32", "--json", "rows.json"
    )

    (row,) = rows((tmp_path / "rows.json").read_text())
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith('attention/unscaled  0/1 passed, 1 wrong\n  1 × wrong: equals "unscaled": the scores')
    assert list(row) == [*KEYS, "walls"]
    assert (row["case"], row["status"]) == ("plain/one_head", "wrong")


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
    assert statuses == dict(zip(cases, ("passed", "hung", "passed", "died", "passed"), strict=True))
    assert done.returncode == 1
    assert "hung: no answer within 1 s" in done.stderr
    assert "died: SIGSEGV; the last it printed: " in done.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_with_130_and_keeps_the_rows(jobs: str, write: Write, tmp_path: Path) -> None:
    write("kernels.py", KERNELS)
    command = [sys.executable, "-m", "suite", "check", "kernels.py:attention", "--json", "rows.json", "--jobs", jobs]
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    wait_for_lines(tmp_path / "rows.json", 10, child)

    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all processes of the job
    _, said = child.communicate(timeout=60)

    assert (child.returncode, said) == (130, "attnsuite: interrupted\n")
    assert len(rows((tmp_path / "rows.json").read_text())) >= 10


@pytest.mark.parametrize(
    ("sent", "jobs", "status"), [(signal.SIGINT, "1", 130), (signal.SIGTERM, "1", 143), (signal.SIGTERM, "2", 143)]
)
def test_what_was_found_before_a_signal_is_reported(
    sent: signal.Signals, jobs: str, status: int, write: Write, tmp_path: Path
) -> None:
    write("kernels.py", KERNELS)
    options = ["--dtype", "float32", "--json", "rows.json", "--junit", "out.xml", "--jobs", jobs]
    child = subprocess.Popen(
        [sys.executable, "-m", "suite", "check", "kernels.py:unscaled", *options],
        cwd=tmp_path,
        env={**environment(), "TMPDIR": str(tmp_path / "temporary")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    (tmp_path / "temporary").mkdir()
    wait_for_lines(tmp_path / "rows.json", 10, child)
    started = psutil.Process(child.pid).children(recursive=True)

    for _ in range(2 if sent == signal.SIGTERM else 1):  # `timeout` sends two
        os.killpg(child.pid, sent)
    printed, said = child.communicate(timeout=60)

    count = len(rows((tmp_path / "rows.json").read_text()))
    report, last = printed.splitlines()[0], printed.splitlines()[-1]
    found = re.match(r"attention/unscaled {2}\d+/(\d+) passed.*, \d+ wrong$", report)
    left = re.fullmatch(r"interrupted: ([\d,]+) of ([\d,]+) questions were not asked", last)
    assert (child.returncode, said) == (status, "attnsuite: interrupted\n")
    assert found
    assert left
    assert int(left[2].replace(",", "")) - int(left[1].replace(",", "")) == count >= 10
    assert 'wrong: equals "unscaled"' in printed
    assert (tmp_path / "out.xml").read_text().count("<testcase") == count
    assert psutil.wait_procs(started, timeout=10)[1] == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_signal_before_anything_was_asked_ends_the_check_with_its_status(write: Write, tmp_path: Path) -> None:
    write("kernel.py", "import time\ntime.sleep(600)\ndef attention(query, key, value): ...")
    command = [sys.executable, "-m", "suite", "check", "kernel.py"]
    child = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not psutil.Process(child.pid).children():  # that import it
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)

    child.terminate()
    printed, said = child.communicate(timeout=60)

    assert (child.returncode, said) == (143, "attnsuite: interrupted\n")
    assert re.fullmatch(r"interrupted: ([\d,]+) of \1 questions were not asked\n", printed)


def heed_interrupts() -> None:
    """A job in the background of a shell is started with interrupts ignored, and hands that down.

    It is a group of its own, so that the signal reaches all processes of the job and no others.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.setpgrp()


def wait_for_lines(file: Path, count: int, child: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if file.exists() and file.read_bytes().count(b"\n") >= count:
            return
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)
    raise AssertionError(f"{file} did not come")


# What cannot be carried out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("check nosuch", "attnsuite: unknown target 'nosuch'; implementations of attention are: attention/chunked, "),
        ("check chunkd", "attnsuite: unknown target 'chunkd': did you mean attention/chunked?"),
        (
            "check loops --contract attn",
            "attnsuite: unknown contract 'attn'; there are: add_norm, ",
        ),
        (
            "list --contract attn",
            "attnsuite: unknown contract 'attn'; there are: add_norm, ",
        ),
        ("check nosuch.py", "attnsuite: no file 'nosuch.py'"),
        (
            "check two.py",
            "attnsuite: two.py decorates no function with @implementation and has one, other: name one, as",
        ),
        ("check empty.py", "attnsuite: empty.py decorates no function with @implementation and has no public function"),
        (
            "check kernels.py:attn",
            "attnsuite: kernels.py has no function 'attn': did you mean attention? it has attention, ",
        ),
        ("check kernels.py:torch --case plain", "attnsuite: 'torch' in kernels.py cannot be called: it is of type mod"),
        ("check nosuch.kernels:attention", "attnsuite: No module named 'nosuch'"),
        ("check loops --case nosuch", "attnsuite: no case of attention matches 'nosuch'; families are: plain, "),
        ("check loops --dtype int8", "attnsuite: unknown dtype 'int8'; there are: float64, float32, float16, bfloat16"),
        ("check loops --device tpu", "attnsuite: unknown device 'tpu'; there are: cpu, cuda, cuda:N"),
        ("check loops --time-limit 0", "attnsuite: the time limit is a number of seconds above 0, not 0"),
        ("check loops --jobs 0", "attnsuite: --jobs is the number of processes that ask, 1 or more, not 0"),
        ("check loops --jobs x", "attnsuite: --jobs: a whole number is due, not 'x'"),
        ("check kernels.py:attention --json no/where", "attnsuite: no/where cannot be written: No such file or direct"),
        ("check missing.py --case plain", "attnsuite: attention/missing is missing: No module named 'nosuchlibrary'"),
        ("run nosuch", "attnsuite: unknown target 'nosuch'; implementations of attention are: attention/chunked, "),
        ("run missing.py", "attnsuite: attention/missing is missing: No module named 'nosuchlibrary'"),
        ("run loops --device tpu", "attnsuite: unknown device 'tpu'; there are: cpu, cuda, cuda:N"),
        ("run loops --results empty.py", "--results: a folder is due, and 'empty.py' is a file"),
        ("bench nosuch", "attnsuite: unknown target 'nosuch'; implementations of attention are: attention/chunked, "),
        (
            "bench attention/loops --workload laddr",
            "no workload of attention matches 'laddr'; did you mean ladder? ",
        ),
        ("bench attention/loops --profile fast", "unknown profile 'fast'; there are: quick, standard, full"),
        ("bench attention/loops --profile quick --workload ladder/64k", "ladder/64k: not in the profile quick, but in"),
        ("bench attention/loops --device tpu", "attnsuite: unknown device 'tpu'; there are: cpu, cuda, cuda:N"),
        ("bench attention/loops --cache warm", "attnsuite: the cache is hot or cold, not 'warm'"),
        ("bench attention/loops --budget 0", "attnsuite: the budget is a number of seconds above 0, not 0"),
        ("bench attention/loops --budget soon", "attnsuite: --budget: a number of seconds is due, not 'soon'"),
        ("bench attention/loops --threads 1 --threads all", "attnsuite: --threads: a whole number is due, not 'all'"),
        ("bench attention/loops --threads 9999", "attnsuite: 9999 threads were asked for; this machine has 1 to "),
        ("bench attention/loops --time-limit 0", "attnsuite: the time limit is a number of seconds above 0, not 0"),
        ("bench attention/loops --results empty.py", "--results: a folder is due, and 'empty.py' is a file"),
        ("bench attention/loops --json no/where", "attnsuite: no/where cannot be written: No such file or directory"),
        (
            "bench attention/loops --except nosuch",
            "attnsuite: unknown target 'nosuch'; implementations of attention are: attention/chunked, ",
        ),
        (
            "bench transformer/eager",
            "workloads of transformer: not in the profile quick, but in standard, ",
        ),
        (
            "bench kernel_pooling/loops",
            "attnsuite: there are no workloads of kernel_pooling: `attnsuite list --workloads` shows",
        ),
        ("report --results empty.py", "--results: a folder is due, and 'empty.py' is a file"),
        (
            "report --results newer",
            "runs.jsonl, line 1: the format is 9 and this attnsuite reads 2: a newer attnsuite w",
        ),
        ("report --results older", "the format is None and this attnsuite reads 2: move the folder away and run anew"),
        ("report --results former", "earlier attnsuite: `attnsuite migrate --results former` brings it into today's"),
        ("bench attention/loops --results former", "earlier attnsuite: `attnsuite migrate --results former` brings"),
        ("migrate --results empty.py", "--results: a folder is due, and 'empty.py' is a file"),
        (
            "report --results damaged",
            "`git checkout HEAD -- damaged/machine` brings back what was committed",
        ),
    ],
)
def test_what_cannot_be_carried_out_is_one_line_and_status_2(
    arguments: str, says: str, write: Write, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    write("kernels.py", KERNELS)
    write("empty.py", "")
    write("two.py", "def one(q, k, v): ...\ndef other(q, k, v): ...\n")
    write(
        "missing.py",
        """
        from suite import implementation

        @implementation(requires=["nosuchlibrary"])
        def attention(query, key, value): ...
        """,
    )
    write("newer/machine/runs.jsonl", '{"format": 9, "id": "r1"}\n')
    write("older/machine/runs.jsonl", '{"id": "r1"}\n')
    write("former/machine/runs.jsonl", '{"format": 1, "id": "r1"}\n')
    write("damaged/machine/conformance.jsonl", '{"cases": ["plain/small"], "dtypes": ["float32"]}\n')

    status = status_of(*arguments.split())

    said = capsys.readouterr().err
    assert status == 2
    assert says in said
    assert said.startswith("attnsuite: ")
    assert said.count("\n") == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_cuda_is_one_line_and_status_2(
    status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("check", "loops", "--device", "cuda") == 2

    assert "sees no CUDA device here; cpu exists\n" in capsys.readouterr().err


def test_a_missing_library_among_others_is_a_row(
    write: Write, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    write(
        "missing.py", "import suite\n@suite.implementation(requires=['nosuchlibrary'])\ndef attention(q, k, v): ...\n"
    )

    status = status_of("check", "matmul", "missing.py", "--case", "plain/small", "--dtype", "float32")

    assert status == 0
    assert "attention/missing  missing: No module named 'nosuchlibrary'\n" in capsys.readouterr().out


def test_a_lone_implementation_that_declines_everything_ends_with_1(
    write: Write, status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    write("kernels.py", KERNELS)

    assert status_of("check", "kernels.py:attention", "--case", "causal") == 1

    assert "attention/kernels declined all that was asked\n" in capsys.readouterr().err


# The main job

RECORDING = (SUBMISSIONS / "records_calls.py").read_text(encoding="utf-8")


def test_a_killed_run_is_resumed_and_repeats_only_what_is_missing(
    attnsuite: Run, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("kernel.py", RECORDING)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-m", "suite", "run", "kernel.py", "--results", "out"]
    child = subprocess.Popen(command, cwd=tmp_path, env=environment(), text=True)
    machine = first_folder(tmp_path / "out", child)
    wait_for_lines(machine / "journal.jsonl", 900, child)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    before = [line for line in (machine / "journal.jsonl").read_text().splitlines() if line.endswith("}")]

    done = attnsuite("run", "kernel.py", "--results", "out")

    found = suite.load_results(tmp_path / "out").to_dict("records")
    questions = Counter((row["case"], row["dtype"]) for row in found)
    assert done.returncode == 0
    assert "resuming the run of " in done.stderr
    assert f": {len(before)} outcomes and 0 measurements are there already\n" in done.stderr
    assert set(questions.values()) == {1}
    assert set(questions) == {(case.name, dtype) for case in contract("attention").cases() for dtype in case.dtypes}
    assert EVERY_CASE not in {row["dtype"] for row in found}
    again = (tmp_path / "calls").stat().st_size - calls_for(found)
    assert 0 <= again <= 3 + MOST_LOOKED_AT, "the question it was killed at, and those whose operators are looked at"
    (run,) = rows((machine / "runs.jsonl").read_text())
    assert run["finished"]
    assert all((machine / name).stat().st_size for name in ("conformance.md", "conformance.csv"))
    assert "attention/kernel" in (machine / "conformance.md").read_text()
    index = (tmp_path / "out" / "README.md").read_text()
    assert f"[conformance]({machine.name}/conformance.md)" in index
    assert f"[benchmark]({machine.name}/benchmark.md)" in index
    timed = rows((machine / "benchmark.jsonl").read_text())
    assert {row["implementation"] for row in timed} == {"attention/kernel", "attention/matmul"}
    assert {row["status"] for row in timed} == {"measured"}

    (machine / "conformance.md").unlink()
    blocked = write("blocked/sitecustomize.py", WITHOUT_TORCH).parent
    reported = attnsuite("report", "--results", "out", path=blocked)

    assert reported.returncode == 0, "tables are made again without torch"
    assert (machine / "conformance.md").exists()


def first_folder(results: Path, child: subprocess.Popen[str]) -> Path:
    for _ in range(6000):
        if found := list(results.glob("*/journal.jsonl")):
            return found[0].parent
        assert child.poll() is None, "it ended before"
        time.sleep(0.01)
    raise AssertionError(f"{results} did not come")


def calls_for(found: list[dict[str, object]]) -> int:
    """How many calls of the main thread it takes to ask what these rows say was asked."""
    asked = {(row["case"], row["dtype"]) for row in found if row["status"] != "declined"}
    cases = contract("attention").cases()
    calls = (c for case in cases for dtype in case.dtypes if (case.name, dtype) in asked for c in case.calls(dtype))
    return sum(call.backward_of is None and not (call.at_once or call.own_thread) for call in calls)


def test_json_does_not_overwrite_what_is_no_result(attnsuite: Run, write: Write) -> None:
    source = "def attention(query, key, value):\n    return value\n"
    submission = write("mine.py", source)

    done = attnsuite("check", f"{submission}:attention", "--json", str(submission))

    assert (done.returncode, submission.read_text()) == (2, source)
    assert "does not hold JSON rows" in done.stderr


def test_a_full_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "suite", "check", "matmul", "--case", "plain/small", "--dtype", "float32"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment(),
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.strip() == "attnsuite: cannot write what was found: No space left on device"
