"""tests/golden/NAME.txt holds what users see of `attnsuite NAME`: help, runs on small inputs, and every refusal.

A file is a transcript: command lines behind `$ `, what each prints, and its exit status in brackets unless that is 0.
Lines on standard error begin with `2> `, except where the exit status is 2. To add a command line, write it into the
file. `GOLDEN=write pytest tests/cli/test_golden.py` writes all output anew. Read the difference before you commit it:
a message says what is wrong, what was given, what is expected, and what to do.
"""

import difflib
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from builders import measured, outcome
from commanded import KERNELS, RIGHT, SUBMISSIONS, Cli, Result
from msgspec.structs import replace
from shards import stored as shard
from stored import MACHINE, RUN, record

from attnsuite.cli.app import COMMANDS
from attnsuite.model import ContractFacts, Facts
from attnsuite.model.words import VERSION

GOLDEN = Path(__file__).parents[1] / "golden"
SLOW = "\n# Slow tests run the rest.\n"
WORDS = {"{LONG}": "x" * 5000, "{NUL}": "\x00", "{ESC}": "\x1b", "{NOT-UTF-8}": "\udc80"}
"""Words of command lines that a text file cannot hold."""
VARYING = {
    re.escape(sys.executable): "<python>",
    re.escape(VERSION): "<version>",
    "x{40,}": "{LONG}",
    r"(?<=this machine has 1 to )\d+": "<cores>",
    r"(?<=is timed may take )\S+": "<memory>",
    r"\S+(?= GiB of memory are free)": "<memory>",
    r"^2> no charts: .*\n": "",
    r"(?<=is no sweep file: ).*": "<reason>",
    r"^(2> )?sandbox: .*": r"\1sandbox: <protections>",
    r'(?<="sandbox": )\[.*?\]': "<protections>",
}
"""What differs between machines, and its placeholder."""
COMPUTED = {
    r"-?\b\d+\.\d+(e[+-]?\d+)?\b|\b\d+e[+-]?\d+\b": "<number>",
    r"\b\d+ (?=(s|ms|µs|MiB|KiB)\b)": "<number> ",
    r"(?<=^results/)[^/\n]+(?=/)": "<machine>",
    r"(?<= ran )(\w+, )+and \d+ more": "<operators>",
}
"""The same where something is computed and timed here."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_results(folder)
    return folder


def section(line: str, result: Result, folder: Path) -> str:
    """The part of a transcript about a command line."""
    status, out, err = result
    if status != 2:
        err = "".join(f"2> {text}\n" for text in err.splitlines())
    printed = (out + err).replace(str(folder), "<folder>")
    computes = line.startswith(("check", "bench", "run")) and status != 2 and "--help" not in line
    patterns = {**VARYING, **COMPUTED} if computes else VARYING
    for pattern, placeholder in patterns.items():
        printed = re.sub(pattern, placeholder, printed, flags=re.MULTILINE)
    return f"$ attnsuite {line}".rstrip() + f"\n{printed}" + (f"[{status}]\n" if status else "")


def words(line: str) -> list[str]:
    for name, text in WORDS.items():
        line = line.replace(name, text)
    return shlex.split(line)


@pytest.mark.parametrize(
    ("name", "part"),
    [*((name, 0) for name in ("attnsuite", *COMMANDS)), pytest.param("check", 1, marks=pytest.mark.slow)],
)
def test_a_command_prints_what_its_golden_file_holds(
    name: str, part: int, cli: Cli, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    lay_out(folder := tmp_path / "here", results)
    monkeypatch.chdir(folder)
    file = GOLDEN / f"{name}.txt"
    parts, sections = file.read_text("utf-8").split(SLOW), []
    for line in re.findall(r"^\$ attnsuite ?(.*)$", parts[part], re.MULTILINE):
        result = cli(*words(line))
        sections.append(section(line, result, folder))
        if result.status == 2 and not result.out:
            assert re.fullmatch(r"attnsuite: [^\n]{1,2000}\n((    .*)?\n)*", result.err), line
        assert all(text.isprintable() for text in (result.out + result.err).splitlines()), line
        assert {name: (folder / name).read_text("utf-8") for name in FILES} == FILES, line
    expected, parts[part] = parts[part], "\n".join(sections)
    if os.environ.get("GOLDEN") == "write":
        file.write_text(SLOW.join(parts), "utf-8")
    elif parts[part] != expected:
        lines = difflib.unified_diff(
            expected.splitlines(), parts[part].splitlines(), file.name, "now", n=3, lineterm=""
        )
        pytest.fail("\n".join(lines), pytrace=False)


COPIED = ("signed.py", "styles.py", "wrong_where_features_meet.py")
UNLIKE = "    if key.shape[-2] != value.shape[-2]:\n        {}\n    return"
"""What a function does with keys and values of different lengths."""
FILES = {
    "right.py": RIGHT,
    "unscaled.py": RIGHT.replace(" / query.shape[-1] ** 0.5", ""),
    "lenient.py": RIGHT.replace("value)", "value, dropout_p=0.0)"),
    "raising.py": "def attention(query, key, value):\n    raise RuntimeError('not today')\n",
    "crashing.py": "import os\ndef attention(query, key, value):\n    os.abort()\n",
    "hanging.py": "import time\ndef attention(query, key, value):\n    time.sleep(600)\n",
    "unsteady.py": """import ctypes, time, torch
print("imported")
def attention(query, key, value, *, is_causal=False, scale=None):
    print('{"implementation": "attention/forged"}')
    if is_causal:
        ctypes.string_at(0)
    if scale == 0.5:
        time.sleep(600)
    return torch.nn.functional.scaled_dot_product_attention(query, key, value, scale=scale)
""",
    "reading_outside.py": RIGHT.replace(
        "    return",
        UNLIKE.format("key = key.as_strided((*key.shape[:-2], 9, key.shape[-1]), key.stride(), key.storage_offset())"),
    ),
    "crashing_sometimes.py": "import os\n" + RIGHT.replace("    return", UNLIKE.format("os.abort()")),
    "library.py": KERNELS,
    "importing.py": "1 / 0\ndef attention(query, key, value): ...\n",
    "flash.py": (
        "def flash(q, k, v, softmax_scale=None, causal=False, softcap=0.0, alibi_slopes=None):\n"
        "    q, k, v = (x.transpose(1, 2) for x in (q, k, v))\n"
        "    return (q @ k.mT * (softmax_scale or q.shape[-1] ** -0.5)).softmax(-1).matmul(v).transpose(1, 2)\n"
    ),
    "kernel.py": '''"""A kernel of mine."""
from attnsuite import implementation

@implementation(lacks={"gqa": "no groups yet"}, conventions={"empty_row": {"bool_mask": "nan"}})
def attention(query, key, value, *, attn_mask=None, dropout_p=0.0, is_causal=False, enable_gqa=False): ...
''',
    **{name: (SUBMISSIONS / name).read_text("utf-8") for name in COPIED},
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
    "either.py": "def attention(q, k, v, causal=False): return v\n",
    "made.py": "class Attention:\n    def __init__(self, heads): ...\n    def __call__(self, query, key, value): ...\n",
    "varlen.py": "def varlen(q, k, v, cu_seqlens_q, max_seqlen_q, causal=False, softmax_scale=None): ...\n",
    "packed.py": "def attention(qkv, causal=False, softmax_scale=None): ...\n",
    "by_keyword.py": "def attention(*, query, key, value): ...\n",
    "tutorial.py": "def attention(q, k, v, causal, sm_scale): ...\n",
    "norm.py": "def norm(x, y, weight, bias, epsilon): ...\n",
    "missing.py": (
        "from attnsuite import implementation\n@implementation(requires=['nosuchlibrary'])\n"
        "def attention(query, key, value): ...\n"
    ),
    "not_python.txt": "def attention(query, key, value): ...\n",
    "mine.json": '{\n  "name": "another project"\n}\n',
    "mine.xml": "<project/>\n",
    "mine.txt": "mine",
    "gaps.txt": "plain/small: the scale is missing\n",
    "lenient.txt": "bad_input/dropout_*: the caller checks\n",
    "unmatched.txt": "plane/small: x\n",
    "other/right.py": RIGHT,
    "foreign/README.md": "# My project\n",
    "foreign/audit.md": "# An audit of mine\n",
    "config.json": "[",
    "a_file": "",
    "sweep.toml": 'shards = 2\n[check]\ntargets = ["right.py"]\ncases = ["plain"]\n[bench]\ntargets = ["right.py"]\n',
    **{
        f"sweeps/{name}.toml": text
        for name, text in {
            "broken": "shards = [",
            "empty": "shards = 2",
            "unknown": "shard = 2\n[check]",
            "text": 'shards = "2"\n[check]',
            "flag": '[check]\nstrict = "yes"',
            "dtype": '[check]\ndtypes = ["int8"]',
            "target": '[check]\ntargets = ["nosuch.py"]',
        }.items()
    },
}
SOURCES = {"attention/matmul": "1a", "attention/chunked": "2b"}
FACTS = Facts({"attention": ContractFacts(baseline="matmul")})


def write_results(folder: Path) -> None:
    """Folders of results below `folder`: old and new, which differ, and shards, of which one is missing in one."""
    for number, (name, seconds) in enumerate({"old": 0.1, "new": 0.13}.items()):
        run = replace(
            RUN, id=f"2026010{number + 2}T030405", started=f"2026-01-0{number + 2}T03:04:05+00:00", facts=FACTS
        )
        later = outcome("mask/float", "failed", detail="off by 1") if number else outcome("mask/float")
        rows = (outcome("plain/small"), later, measured("matmul", seconds=0.05), measured("chunked", seconds=seconds))
        record(folder / name, replace(run, sources=SOURCES), *rows)
    shutil.copytree(folder / "new", folder / "altered")
    (folder / "altered" / MACHINE.name / "20260103T030405" / "outcomes.jsonl.gz").write_bytes(b"edited")
    for index in range(1, 5):
        shard(folder / "shards", index)
    shutil.copytree(folder / "shards", folder / "missing_shards", ignore=shutil.ignore_patterns("shard-4-of-4"))


def lay_out(folder: Path, results: Path) -> None:
    """Write all this into a new folder, with two empty folders, and links to nothing and to a file without an end."""
    shutil.copytree(results, folder)
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    for name in ("a_folder", "empty"):
        (folder / name).mkdir()
    (folder / "dead.py").symlink_to("nosuch")
    (folder / "endless.npz").symlink_to("/dev/zero")
