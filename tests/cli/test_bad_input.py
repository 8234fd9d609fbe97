"""Two hundred command lines that cannot be carried out: each is one line on standard error, and status 2."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import attnsuite

Status = Callable[..., object]
HOME = str(Path(attnsuite.__file__).parent.parent)

FILES = {
    "right.py": "def attention(query, key, value): return value\n",
    "syntax.py": "def attention(query, key, value:\n",
    "indented.py": "  def attention(query, key, value): ...\n",
    "bytes.py": "x = '\\x00'\n",
    "two.py": "def one(q, k, v): ...\ndef other(q, k, v): ...\n",
    "nothing.py": "",
    "constants.py": "ATTENTION = 3\n",
    "private.py": "def _attention(q, k, v): ...\n",
    "later.py": "async def attention(query, key, value): return value\n",
    "yielding.py": "def attention(query, key, value): yield value\n",
    "twins.py": (
        "from attnsuite import implementation\n@implementation()\ndef attention(q, k, v): ...\n"
        "@implementation()\ndef attention(query, key, value): ...\n"
    ),
    "both.py": "def attention(q, k, v, softmax_scale=None, attn_bias=None): return v\n",
    "made.py": "class Attention:\n    def __init__(self, heads): ...\n    def __call__(self, query, key, value): ...\n",
    "exits.py": "import sys\nsys.exit(7)\ndef attention(query, key, value): ...\n",
    "not_python.txt": "def attention(query, key, value): ...\n",
    "mine.json": '{\n  "name": "somebody else\'s"\n}\n',
    "mine.xml": "<project/>\n",
    "theirs/README.md": "# My project\n",
    "theirs/audit.md": "# An audit of mine\n",
    "newer/machine/runs.jsonl": '{"format": 9, "id": "r1"}\n',
    "damaged/machine/conformance.jsonl": '{"cases": ["plain/small"], "dtypes": ["float32"]}\n',
    "pairs.txt": "no tab here\n",
    "config.json": "[",
    "a_file": "",
}
"""The files that these command lines name."""

UNDONE = [
    # the program
    "chek", "Check", "check2", "--nope", "-z", "--versio", "--help-me", "-", "-x check", "LONG", "run2",
    "--jobs 2 check",
    # options that there are not, and options without what they take
    "list --nope", "check --nope", "bench --nope", "export --nope", "audit --nope", "learn --nope", "claims --nope",
    "report --nope", "run --nope", "draw --nope", "migrate --nope", "check -j 2", "check --case", "check --json",
    "check --junit", "check --results", "check --jobs", "check --seed", "check --profile", "check --device",
    "check --dtype", "check --time-limit", "check --except", "check --contract", "bench --threads", "bench --budget",
    "bench --workload", "export", "export transformer", "learn --task", "claims --evidence", "draw --to",
    "report --results", "migrate --results", "check --isolate=yes", "check --quiet=1", "check --fail-fast=no",
    "report extra", "migrate extra", "audit extra", "export transformer a.onnx b.onnx",
    # numbers
    "check loops --jobs 0", "check loops --jobs -3", "check loops --jobs 1.5", "check loops --jobs two",
    "check loops --jobs 1e2", "check loops --jobs 99999999", "check loops --jobs 0x2", "check loops --seed -1",
    "check loops --seed x", "check loops --seed 1.0", "check loops --seed 99999999999999999999999999",
    "check loops --time-limit 0", "check loops --time-limit -1", "check loops --time-limit nan",
    "check loops --time-limit inf", "check loops --time-limit soon", "check loops --time-limit 1,5",
    "audit --jobs -3", "audit --jobs 0", "audit --jobs x", "audit --jobs 99999999", "audit --seeds -1",
    "audit --seeds x", "audit --arrays -2", "audit --arrays 0.5", "bench loops --budget 0", "bench loops --budget -1",
    "bench loops --budget nan", "bench loops --budget inf", "bench loops --threads 0", "bench loops --threads -1",
    "bench loops --shape b=99999999999,h=99999,l=9999999,e=99999", "compare --interleaved loops loops --pairs -1",
    "bench loops --threads 99999", "bench loops --threads all", "bench loops --time-limit 0",
    "bench loops --time-limit nan", "learn --epochs 0", "learn --epochs -1", "learn --epochs x", "learn --seed -1",
    "learn --seed x", "learn --examples 0", "learn --examples -1", "run loops --jobs 0", "run loops --jobs -1",
    "run loops --jobs x", "draw --seed x", "export transformer a.onnx --opset x",
    "export transformer a.onnx --seed x", "export transformer a.onnx --opset 3",
    "export transformer a.onnx --data-above x",
    # words
    "check loops --dtype int8", "check loops --dtype float", "check loops --dtype", "check loops --device tpu",
    "check loops --device cpu:1", "check loops --device cuda:-1", "check loops --device 0",
    "check loops --profile fast", "check loops --case nosuch", "check loops --case plain/nosuch",
    "check loops --case [", "check loops --contract nosuch", "check loops --except nosuch",
    "check loops --except loops", "bench loops --device tpu", "bench loops --profile fast",
    "bench loops --cache warm", "bench loops --workload nosuch", "bench loops --contract nosuch",
    "bench loops --except nosuch", "bench kernel_pooling/loops", "list --contract nosuch", "list nosuch",
    "list --workloads add_norm/*", "list --case nosuch", "list --cases --workloads", "list --workloads --case plain",
    "audit --contract nosuch", "audit nosuch", "audit bleu --contract attention", "audit bleu --cheats",
    "audit bleu --benchmark", "audit bleu --between-runs 2",
    "audit --contract nosuch", "audit --benchmark --jobs 2", "audit --benchmark --seeds 1",
    "audit --benchmark --contract attention", "learn --task nosuch", "learn nosuch", "claims nosuch",
    "claims --evidence nosuch", "draw nosuch", "draw --causal", "draw masks --sentence", "run nosuch",
    "run loops --device tpu", "run loops --contract nosuch", "export nosuch a.onnx", "export attention/loops a.onnx",
    "export transformer a.onnx --part nosuch", "export transformer a.onnx --dtype int3",
    "export transformer a.onnx --set nonsense", "export transformer a.onnx --set nosuch=1",
    "export transformer a.onnx --config nosuch.json", "export transformer a.onnx --config config.json",
    "export transformer a.onnx --weights nosuch.npz", "export transformer a.onnx --device tpu",
    # targets
    "check nosuch", "check chunkd", "check LONG", "check LONG.py", "check LONG:f", "check a/LONG/b.py",
    "bench LONG.py", "run LONG.py", "list LONG.py", "check nosuch.py", "check a_folder", "check a_folder:f",
    "check a_folder/", "check .", "check /", "check dead.py", "check dead.py:attention",
    "check loops --shard 0/0", "check loops --shard 3/2", "check not_python.txt",
    "check right.py:nosuch", "check right.py:", "check :attention", "check :", "check right.py:a:b",
    "check right.py::attention", "check no-module:attention", "check nosuch.module:attention", "check two.py",
    "check nothing.py", "check constants.py", "check private.py", "check later.py", "check both.py",
    "check made.py", "check made.py:Attention", "check right.py --signature ''", "bench right.py --signature ''",
    "new mine2 --signature ''", "check right.py --signature nosuch",
    "check later.py:attention --case plain", "check yielding.py:attention --case plain",
    "check constants.py:ATTENTION --case plain", "check loops+", "check +loops", "check +",
    "check loops+chunked", "check transformer/eager+nosuch", "check transformer/eager+transformer/eager",
    "check right.py+loops", "check attention/", "check /attention", "check attention/nosuch*", "check nosuch/*",
    "check ''", "check [", "check right.py right.py:nosuch", "check right.py right.py",
    "check right.py ./right.py", "check loops loops", "check two.py:one two.py:one a_folder", "check a_file",
    "check syntax.py:other", "check twins.py", "check syntax.py", "check indented.py",
    "check \x1b[31m", "check \udc80", "list ''", "bench ''", "run ''",
    # files and folders
    "check loops --json ''", "check loops --junit ''", "check loops --results ''", "bench loops --json ''",
    "bench loops --results ''", "run loops --results ''", "report --results ''", "migrate --results ''",
    "audit --results ''", "learn --results ''", "claims --results ''", "draw --to ''", "learn --pairs ''",
    "learn --checkpoints ''", "export transformer ''", "export transformer a.onnx --config ''",
    "check loops --json a_folder", "check loops --json no/where.json", "check right.py --json right.py",
    "check loops --json mine.json", "check loops --json dead.py", "check loops --junit a_folder",
    "check loops --junit no/where.xml", "check loops --junit mine.xml", "check loops --junit right.py",
    "check loops --junit dead.py", "check loops --json one --junit one", "check loops --results a_file",
    "check loops --results dead.py", "check loops --results theirs",
    "check loops --results out --seed 3", "check loops --results a_file/b", "bench loops --results a_file",
    "bench loops --results theirs", "bench loops --json right.py", "bench loops --json a_folder",
    "run loops --results a_file", "run loops --results theirs", "claims --results theirs", "learn --results theirs",
    "audit --results theirs", "audit --results a_file", "report --results a_file", "report --results nosuch",
    "report --results newer", "report --results damaged", "migrate --results a_file", "migrate --results nosuch",
    "draw masks --to a_file", "learn --pairs nosuch.txt", "learn --pairs pairs.txt", "export transformer right.py",
    "export transformer no/where.onnx", "check loops --json LONG", "check loops --results LONG",
    "check loops --junit LONG", "report --results LONG",
]  # fmt: skip
"""Each is split at spaces; '' is an empty word, and LONG one of 5,000 characters."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with the files that these command lines name, a folder, and a link that leads nowhere."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "dead.py").symlink_to("nosuch")
    return tmp_path


def words(line: str) -> list[str]:
    return ["" if word == "''" else word.replace("LONG", "x" * 5000) for word in line.split(" ")]


def kept(folder: Path) -> dict[str, str]:
    return {name: (folder / name).read_text() for name in FILES}


def test_there_are_two_hundred() -> None:
    assert len(set(UNDONE)) >= 200


@pytest.mark.parametrize("line", UNDONE, ids=[f"{number} {ascii(line)[1:60]}" for number, line in enumerate(UNDONE)])
def test_what_cannot_be_carried_out_is_one_line_and_status_2(
    line: str, files: Path, status_of: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of(*words(line))

    said = capsys.readouterr()
    assert (said.err[:11], status, said.err.count("\n")) == ("attnsuite: ", 2, 1), said.err
    assert said.err.rstrip("\n").isprintable()
    assert len(said.err) <= 2000
    assert "Traceback" not in said.err
    assert said.out == ""
    assert kept(files) == FILES, "nothing that was there is lost"


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in UNDONE[::27] if line.isprintable()])
def test_the_console_script_says_it_too(line: str, files: Path) -> None:
    surroundings = {**os.environ, "PYTHONPATH": HOME}
    command = [sys.executable, "-m", "attnsuite", *words(line)]

    done = subprocess.run(
        command, cwd=files, env=surroundings, capture_output=True, text=True, timeout=300, check=False
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("attnsuite: ")
    assert done.stderr.count("\n") == 1
    assert kept(files) == FILES


@pytest.mark.parametrize(
    ("line", "due"),
    [
        (
            "check loops --shard 0/0",
            "--shard: 0/0 divides into no part; i/n is due, such as 2/8 for the second of eight",
        ),
        ("check dead.py", "'dead.py' is a link to 'nosuch', which does not exist"),
        ("check loops --results a_file", "--results: a folder is due, and 'a_file' is a file"),
        ("bench loops --results a_file/b", "--results: a folder is due, and 'a_file' is a file"),
        ("report --results mine.json", "--results: a folder is due, and 'mine.json' is a file"),
        (
            "check right.py --signature ''",
            "unknown signature ''; there are: sdpa, flash_attn, xformers, jax, flashinfer, triton, mlx, numpy",
        ),
        (
            "check made.py",
            "Attention is a class that is made with heads: write an instance below it, mine = Attention(heads=…), and "
            "name that",
        ),
    ],
)
def test_it_says_what_came_and_what_was_due(
    line: str, due: str, files: Path, status_of: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of(*words(line))

    assert (status, capsys.readouterr().err) == (2, f"attnsuite: {due}\n")
