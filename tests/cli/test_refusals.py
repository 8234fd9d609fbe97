"""What cannot be carried out: one line, status 2, and as early as it can be known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from commanded import KERNELS, WITHOUT_TORCH, Run, Write, environment

from attnsuite import __main__


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("check loops --dtype foo", "unknown dtype 'foo'; there are: float64, "),
        ("check loops --device foo", "unknown device 'foo'; there are: cpu, cuda, cuda:N"),
        ("check loops --profile foo", "unknown profile 'foo'; there are: quick, full"),
        ("check loops --seed -1", "a seed is a whole number of at least 0, not -1"),
        ("check loops --time-limit 0", "the time limit is a number of seconds above 0, not 0"),
        ("check loops --jobs 0", "--jobs is a number of processes, 1 or more, not 0"),
        ("check loops --seed 1 --results r", "--seed does not go with --results: "),
        ("check loops --json mine.txt", "mine.txt exists and does not hold JSON rows"),
        ("check loops --junit mine.txt", "--junit: mine.txt exists and was not written by attnsuite"),
        ("check loops --known-gaps mine.txt", "mine.txt:1: 'mine' should be `case pattern: reason`, or "),
        ("check loops --known-gaps none.txt", "the file of known gaps none.txt cannot be read: No such file"),
        ("bench loops --threads 9999", "9999 threads were asked for; this machine has 1 to "),
        ("bench loops --processes 99", "the number of processes is 1 to 9, not 99"),
        ("bench loops --shape l=8,foo=1 --shard 1/2", "--shape 'l=8,foo=1': there is no 'foo' in a shape; there are: "),
        ("bench loops --shape h=3,g=2,l=8", "--shape 'h=3,g=2,l=8': h=3 query heads cannot share g=2 key heads evenly"),
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
        ("check loops --case gqa", "attnsuite: no case of attention matches 'gqa'; did you mean heads? families are: "),
        ("check loops --case MQA/*", "matches 'MQA/*'; did you mean heads? families are: plain, "),
        ("check loops --case sliding-window", "matches 'sliding-window'; did you mean window? families are: plain, "),
        ("check loops --case mask", "matches 'mask'; did you mean bool_mask? families are: plain, "),
        ("check loops --dtype int8", "attnsuite: unknown dtype 'int8'; there are: float64, float32, float16, bfloat16"),
        ("check loops --device tpu", "attnsuite: unknown device 'tpu'; there are: cpu, cuda, cuda:N"),
        ("check loops --time-limit 0", "attnsuite: the time limit is a number of seconds above 0, not 0"),
        ("check loops --jobs 0", "attnsuite: --jobs is a number of processes, 1 or more, not 0"),
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
        ("report damaged", "did you mean --results damaged? `attnsuite report --help` shows what there is"),
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
        from attnsuite import implementation

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


def test_json_does_not_overwrite_what_is_no_result(attnsuite: Run, write: Write) -> None:
    source = "def attention(query, key, value):\n    return value\n"
    submission = write("mine.py", source)

    done = attnsuite("check", f"{submission}:attention", "--json", str(submission))

    assert (done.returncode, submission.read_text()) == (2, source)
    assert "does not hold JSON rows" in done.stderr


def test_a_full_standard_output_is_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "attnsuite", "check", "matmul", "--case", "plain/small", "--dtype", "float32"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment(),
        )  # fmt: skip

    assert done.returncode == 2
    assert done.stderr.strip() == "attnsuite: cannot write to standard output or an open file: No space left on device"


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("sweep {file}", "/dev/zero"),
        ("export transformer x.onnx --config {file}", "/dev/zero"),
        ("export transformer x.onnx --weights {file}", "endless.npz"),
        ("learn --pairs {file}", "/dev/zero"),
        ("check loops --known-gaps {file}", "/dev/zero"),
    ],
)
def test_a_file_without_an_end_is_not_read(line: str, file: str, attnsuite: Run, tmp_path: Path) -> None:
    (tmp_path / "endless.npz").symlink_to("/dev/zero")

    done = attnsuite(*line.format(file=file).split())

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert file in done.stderr
    assert "it is not a regular file" in done.stderr


def test_a_device_is_neither_a_folder_of_results_nor_a_file_of_one(
    status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("verify", "/dev/null") == 2
    assert capsys.readouterr().err == (
        "attnsuite: /dev/null is neither a folder nor a regular file; `attnsuite verify` takes either\n"
    )
    assert status_of("report", "--results", "/dev/null") == 2
    assert capsys.readouterr().err == "attnsuite: --results: a folder is due, and '/dev/null' is a file\n"


def test_an_error_of_the_system_is_reported_with_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        Path("/dev/null/mine").mkdir()

    monkeypatch.setattr(__main__, "app", fails)

    with pytest.raises(SystemExit, match="2"):
        __main__.main()
    assert capsys.readouterr().err == "attnsuite: cannot access /dev/null/mine: Not a directory\n"


def test_a_user_without_a_home_folder_gets_one_line_for_a_file_in_it(
    status_of: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of("check", "~no_such_user/mine.py") == 2
    assert capsys.readouterr().err == "attnsuite: no file '~no_such_user/mine.py'\n"
