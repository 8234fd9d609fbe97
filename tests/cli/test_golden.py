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
import sys
from pathlib import Path

import pytest
from commanded import Cli, Result
from golden_inputs import FILES, lay_out, write_results

from attnsuite.cli.app import COMMANDS
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
    r"^2> no charts: .*\n": "",
    r"(?<=is not TOML: ).*": "<reason>",
    r"^(2> )?sandbox: .*": r"\1sandbox: <protections>",
    r'(?<="sandbox": )\[.*?\]': "<protections>",
}
"""What differs between machines, and its placeholder."""
COMPUTED = {
    r"-?\b\d+\.\d+(e[+-]?\d+)?\b|\b\d+e[+-]?\d+\b": "<number>",
    r"\b\d+ (?=(s|ms|µs|MiB|KiB)\b)": "<number> ",
    r"(?<=^results/)[^/\n]+(?=/)": "<machine>",
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
