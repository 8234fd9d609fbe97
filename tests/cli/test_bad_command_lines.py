"""Command lines that cannot be carried out: each is one line on standard error, and status 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commanded import WITHOUT_TORCH, Cli, Run, Write, environment

from attnsuite import __main__

FILES = {
    "right.py": "def attention(query, key, value): return value\n",
    "syntax.py": "def attention(query, key, value:\n",
    "two.py": "def one(q, k, v): ...\ndef other(q, k, v): ...\n",
    "nothing.py": "",
    "constants.py": "ATTENTION = 3\n",
    "yielding.py": "def attention(query, key, value): yield value\n",
    "twins.py": (
        "from attnsuite import implementation\n@implementation()\ndef attention(q, k, v): ...\n"
        "@implementation()\ndef attention(query, key, value): ...\n"
    ),
    "both.py": "def attention(q, k, v, softmax_scale=None, attn_bias=None): return v\n",
    "made.py": "class Attention:\n    def __init__(self, heads): ...\n    def __call__(self, query, key, value): ...\n",
    "missing.py": (
        "from attnsuite import implementation\n@implementation(requires=['nosuchlibrary'])\n"
        "def attention(query, key, value): ...\n"
    ),
    "not_python.txt": "def attention(query, key, value): ...\n",
    "mine.json": '{\n  "name": "somebody else\'s"\n}\n',
    "mine.xml": "<project/>\n",
    "mine.txt": "mine",
    "theirs/README.md": "# My project\n",
    "theirs/audit.md": "# An audit of mine\n",
    "config.json": "[",
    "a_file": "",
}
"""The files that these command lines name."""

EARLY = [
    ("check loops --dtype foo", "unknown dtype 'foo'; there are: float64, "),
    ("check loops --device foo", "unknown device 'foo'; there are: cpu, cuda, cuda:N"),
    ("check loops --profile foo", "unknown profile 'foo'; there are: quick, full"),
    ("check loops --seed -1", "a seed is a whole number of at least 0, not -1"),
    ("check loops --seed x", "--seed expects an integer, got 'x'"),
    ("check loops --time-limit 0", "--time-limit expects a number of seconds above 0, got '0'"),
    ("check loops --time-limit nan", "--time-limit expects a number of seconds above 0, got 'nan'"),
    ("check loops --jobs 0", "--jobs is a number of processes, 1 or more, not 0"),
    ("check loops --jobs 1.5", "--jobs expects an integer, got '1.5'"),
    ("check loops --seed 1 --results r", "--seed does not go with --results: "),
    ("check loops --json mine.txt", "mine.txt exists and does not hold JSON rows"),
    ("check loops --json right.py", "right.py exists and does not hold JSON rows"),
    ("check loops --junit mine.xml", "--junit: mine.xml exists and was not written by attnsuite"),
    ("check loops --json one --junit one", "--json and --junit cannot both write one"),
    ("check loops --shard 3/2", "--shard"),
    ("check loops --shard 0/0", "--shard"),
    ("check loops --results a_file", "--results expects a folder, and 'a_file' is a file"),
    ("check loops --results a_file/b", "--results expects a folder, and 'a_file' is a file"),
    ("check loops --results ''", "--results expects a path, got ''"),
    ("bench loops --threads 9999", "9999 threads were asked for; this machine has 1 to "),
    ("bench loops --processes 99", "the number of processes is 1 to 9, not 99"),
    ("bench loops --shape l=8,foo=1", "--shape 'l=8,foo=1': there is no 'foo' in a shape; there are: "),
    ("bench loops --shape h=3,g=2,l=8", "--shape 'h=3,g=2,l=8': h=3 query heads cannot share g=2 key heads evenly"),
    ("bench loops --profile foo", "unknown profile 'foo'; there are: quick, standard, full"),
    ("bench loops --cache foo", "the cache is hot or cold, not 'foo'"),
    ("bench loops --budget 0", "--budget expects a number of seconds above 0, got '0'"),
    ("run loops --device foo", "unknown device 'foo'; there are: cpu, cuda, cuda:N"),
    ("learn --epochs 0", "--epochs expects an integer of at least 1, got 0"),
    ("compare a b --fail-on foo", "--fail-on expects one of slower, failed, memory, unclear; got 'foo'"),
    ("compare a b --margin 2", "--margin expects a share from 0 to below 1, got '2'"),
    ("compare a b --shape l=8", "--shape goes with --interleaved"),
    ("history --format foo", "--format expects one of text, json, csv; got 'foo'"),
    ("audit bleu --contract attention", "CONTRACT is bleu and --contract is attention: name one contract"),
    ("audit --benchmark --jobs 2", "--jobs does not go with --benchmark"),
    ("audit --cheats --seeds 2", "--seeds does not go with --cheats"),
    ("audit --pause 3", "--pause does not go with an audit of contracts"),
    ("audit --seeds -1", "--seeds expects 0 or more, got -1"),
    ("migrate --results a", "`migrate` was removed: "),
    ("sweep a.toml --attempts 2", "--attempts was removed: "),
    ("merge shards", "`merge` was removed: `attnsuite report DIR... --results OUT` merges"),
    ("check a.py --last-failed", "--last-failed was removed: "),
    ("compare --interleaved a b --python p", "--python was removed: "),
    *((f"learn {option} 2", f"{option} was removed: ") for option in ("--pairs", "--examples", "--jobs")),
    ("check no\x00such", "target 'no\\x00such' contains a NUL"),
    ("list --cases --workloads", "--cases and --workloads do not go together"),
    ("check --nope", "No such option: --nope"),
    ("chek", "No such command 'chek'"),
]
"""A command line and the beginning of its message; none of these imports torch."""
LATER = [
    ("check nosuch.py", "no file 'nosuch.py'"),
    ("check chunkd", "unknown target 'chunkd': did you mean attention/chunked?"),
    ("check dead.py", "'dead.py' is a link to 'nosuch', which does not exist"),
    ("check two.py", "two.py decorates no function with @implementation and has one, other: name one, as"),
    ("check nothing.py", "nothing.py decorates no function with @implementation and has no public function"),
    ("check syntax.py", "attention/syntax cannot be tested: SyntaxError: "),
    ("check made.py", "Attention is a class that is made with heads: write an instance below it, mine = Attention("),
    ("check right.py:nosuch", "right.py has no function 'nosuch'"),
    ("check right.py ./right.py", "the target './right.py' is named twice; each is tested once"),
    ("check right.py --signature ''", "unknown signature ''; there are: sdpa, flash_attn, xformers, jax, "),
    ("check nosuch.kernels:attention", "No module named 'nosuch'"),
    ("check loops --contract attn", "unknown contract 'attn'; there are: add_norm, "),
    ("check loops --except loops", "nothing is left to test without loops"),
    ("check loops --case gqa", "no case of attention matches 'gqa'; did you mean heads? families are: "),
    ("check loops --json no/where", "no/where cannot be written: No such file or directory"),
    ("check loops --known-gaps mine.txt", "mine.txt:1: 'mine' should be `case pattern: reason`, or "),
    ("check loops --results theirs", ""),
    ("bench loops --workload laddr", "no workload of attention matches 'laddr'; did you mean ladder? "),
    ("bench loops --profile quick --workload ladder/64k", "ladder/64k: not in the profile quick, but in"),
    ("bench kernel_pooling/loops", "there are no workloads of kernel_pooling: `attnsuite list --workloads` shows"),
    ("bench loops --shape l=8 --baseline nosuch", "unknown target 'nosuch'; implementations of attention are: "),
    ("compare --interleaved loops loops --pairs -1", "--pairs -1 is too few: a verdict takes "),
    ("report --results nosuch", "nosuch holds no results; `attnsuite run` makes them"),
    ("verify nosuch", "there is no "),
    ("history", "results has no history"),
    ("draw nosuch", "unknown figure 'nosuch'; there are: "),
]
"""A command line and the beginning of its message, which need not be quick."""
OTHERS = [
    *("Check", "-z", "--versio", "-x check", "LONG", "--jobs 2 check", "list --nope", "check --case", "bench --budget"),
    *(
        "export",
        "export transformer",
        "report extra",
        "check --quiet=1",
        "check loops --seed 99999999999999999999999999",
    ),
    *("check loops --time-limit 1,5", "check loops --jobs 99999999", "bench loops --threads all", "learn --seed -1"),
    *("bench loops --shape b=99999999999,h=99999,l=9999999,e=99999", "learn --examples 0", "run loops --jobs x"),
    *("export transformer a.onnx --opset 3", "export transformer a.onnx --data-above x", "check loops --case ["),
    *("check loops --device cpu:1", "check loops --contract nosuch", "bench loops --except nosuch", "list nosuch"),
    *("list --workloads add_norm/*", "list --case nosuch", "audit nosuch", "audit bleu --cheats", "learn nosuch"),
    *("learn --task nosuch", "claims nosuch", "claims --evidence nosuch", "draw --causal", "run nosuch"),
    *("export attention/loops a.onnx", "export transformer a.onnx --set nosuch=1", "check LONG.py", "check LONG:f"),
    *("export transformer a.onnx --config config.json", "check a_folder", "check .", "check not_python.txt", "check :"),
    *("check right.py::attention", "check constants.py", "check both.py", "check yielding.py:attention --case plain"),
    *("check loops+", "check +loops", "check loops+chunked", "check transformer/eager+nosuch", "check right.py+loops"),
    *("check attention/nosuch*", "check ''", "check twins.py", "check \x1b[31m", "check \udc80", "list ''", "run ''"),
    *("check loops --json ''", "bench loops --results ''", "draw --to ''", "export transformer ''", "new right"),
    *("check loops --json a_folder", "check loops --junit no/where.xml", "check loops --junit dead.py"),
    *("bench loops --results theirs", "bench loops --json right.py", "run loops --results theirs", "new 1a"),
    *("audit --results theirs", "draw masks --to a_file", "export transformer right.py", "check loops --json LONG"),
    *("sweep nosuch.toml", "sweep config.json", "sweep right.py --launch cloud", "merge nosuch", "verify a_file"),
    *("compare nosuch a_file", "compare --interleaved nosuch loops", "history nosuch --results a_folder"),
]
"""Command lines whose messages other tests hold. '' is an empty word, and LONG one of 5,000 characters."""
EVERY = [*EARLY, *LATER, *((line, "") for line in OTHERS)]


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


@pytest.mark.parametrize(("line", "says"), EVERY, ids=[f"{n} {ascii(line)[1:60]}" for n, (line, _) in enumerate(EVERY)])
def test_it_is_one_line_and_status_2_and_no_file_is_lost(line: str, says: str, files: Path, cli: Cli) -> None:
    status, out, err = cli(*words(line))

    assert (err[:11], status, err.count("\n"), out) == ("attnsuite: ", 2, 1, ""), err
    assert err.startswith(f"attnsuite: {says}")
    assert err.rstrip("\n").isprintable()
    assert len(err) <= 2000
    assert {name: (files / name).read_text() for name in FILES} == FILES


@pytest.mark.slow
@pytest.mark.parametrize(("line", "says"), [each for each in EARLY if each[0].isprintable()][::4])
def test_a_wrong_value_is_refused_before_torch_is_imported(line: str, says: str, attnsuite: Run, files: Path) -> None:
    (files / "blocked").mkdir()
    (files / "blocked" / "sitecustomize.py").write_text(WITHOUT_TORCH)

    done = attnsuite(*words(line), path=files / "blocked")

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"attnsuite: {says}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_without_cuda_is_one_line_and_status_2(cli: Cli) -> None:
    result = cli("check", "loops", "--device", "cuda")

    assert result.status == 2
    assert "sees no CUDA device here; cpu exists\n" in result.err


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
        ("check loops --known-gaps {file}", "/dev/zero"),
    ],
)
def test_a_file_without_an_end_is_not_read(line: str, file: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "endless.npz").symlink_to("/dev/zero")

    status, out, err = cli(*line.format(file=file).split())

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert file in err
    assert "it is not a regular file" in err


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


def test_files_that_cannot_be_tested_do_not_stop_the_others(cli: Cli, write: Write) -> None:
    write(
        "right.py",
        "def attention(query, key, value):\n    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value\n",
    )
    for name, text in {
        "syntax": "def attention(query, key, value:\n",
        "nothing": "",
        "needs": "def attention(query, key, value, weights): return value\n",
    }.items():
        write(f"{name}.py", text)

    result = cli(
        "check", "syntax.py", "right.py", "nothing.py", "needs.py", "--case", "plain/small", "--dtype", "float32"
    )

    assert result.status == 2
    assert "attention/right  1 of 1 passed" in result.lines
    listed = result.lines[result.lines.index("3 cannot be tested:") + 1 :]
    assert {line.split(":")[0].strip() for line in listed} == {
        f"attention/{name}" for name in ("syntax", "nothing", "needs")
    }
    assert any("SyntaxError" in line for line in listed)
