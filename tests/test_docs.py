"""The example that each document opens with prints what the document shows; `python tests/test_docs.py` rewrites it.

Code whose first line is a comment with a file's name becomes that file. A block that begins with `$` is a session.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from typer.main import get_command

from attnsuite.cli.app import application
from attnsuite.worker.sandbox import detected

HOME = Path(__file__).parent.parent
PAGES = [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]
SLOW = {"bench.md"}
"""The pages whose example takes more than a few seconds."""
MACHINE = re.compile(
    r"^(sandbox: |operators: |\d+ of \d+ \w+ done after |\S+/benchmark\.(csv|json)$| *not bounded: |.* busy \(load)"
)
"""Lines about the machine that a page may leave out: its sandbox, its version of PyTorch, its load, its name."""
VARYING = re.compile(
    r"inconclusive: \S+( \S+)*|[\d.,]+ [µm]?s\b|[\d.]+× (faster|slower)|\bsame\b|(≤ )?[\d.]+ MiB|torch [\d.]+(\+\w+)?"
    r"|[−+-]?\d+\.\d+(e[+-]?\d+)?|[−+-]?\d+e[+-]?\d+|[−+-]?\d[\d,]*(?= %)"
)
"""What differs between machines: verdicts, times with their units, peaks of memory, versions, numbers with rounding
errors."""
WIDTH = 128
"""Characters: longer lines of a session are broken."""


def opening(page: Path) -> tuple[dict[str, str], list[str]]:
    """Return the files of a page's first example, and its sessions."""
    text = page.read_text(encoding="utf-8").split("\n## ")[0]
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    named = {found[1]: block for block in blocks if (found := re.match(r"# ([\w/]+\.\w+)\n", block))}
    return named, [block for block in blocks if block.startswith("$ ")]


def printed(session: str, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield each command of a session, what the page shows of it, and what it prints in a folder."""
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    for name, words in {"attnsuite": "-m attnsuite", "python": ""}.items():
        (binaries / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (binaries / name).chmod(0o755)
    around = {
        **os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(HOME),
        "ATTNSUITE_CACHE": str(folder / "cache"), "COLUMNS": "200", "TERM": "dumb",
    }  # fmt: skip
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
        done = subprocess.run(command, shell=True, cwd=folder, env=around, capture_output=True, text=True, check=False)
        yield command, shown, (done.stdout or done.stderr).replace(str(folder), "/home/me")


def pattern(shown: str) -> str:
    """Return a regular expression of what a page shows: a line `…` stands for any lines, varying numbers for any."""
    parts = re.split(r"^ *… *$", shown, flags=re.MULTILINE)
    return ".*".join(re.escape(comparable(part)) for part in parts)


def comparable(text: str) -> str:
    """Return the words of a text without what differs between machines."""
    lines = [line for line in text.splitlines() if not MACHINE.match(line)]
    return re.sub(r"\s", "", VARYING.sub("0", "\n".join(lines)))


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page.name in SLOW), id=page.stem) for page in PAGES]
)
def test_the_example_that_opens_a_page_prints_what_it_shows(page: Path, tmp_path: Path) -> None:
    if page.stem == "gpu" and torch.cuda.is_available():
        pytest.skip("the page shows a machine without a GPU")
    if page.stem == "isolation" and "seccomp" not in detected():
        pytest.skip("this machine has no seccomp")
    files, sessions = opening(page)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")

    results = [result for session in sessions for result in printed(session, tmp_path)]

    assert results, f"{page.name} opens with a session"
    for command, shown, actual in results:
        assert re.fullmatch(pattern(shown), comparable(actual)), f"{command}\n{actual}"


def test_commands_and_options_of_the_documents_exist() -> None:
    commands = get_command(application()).commands  # type: ignore[attr-defined]
    pages = [*PAGES, HOME / "CONTRIBUTING.md", HOME / "ARCHITECTURE.md"]
    line = re.compile(r"(?:^|`|\$ |= )attnsuite ([a-z]+)(.*?)(?:  +#.*)?(?:`|$)", re.MULTILINE)
    unknown = []
    for name, words in (found for page in pages for found in line.findall(page.read_text(encoding="utf-8"))):
        known = {option for parameter in commands[name].params for option in parameter.opts}
        unknown += [f"{name} {option}" for option in re.findall(r"(?<!\S)--?[a-z][\w-]*", words) if option not in known]

    assert unknown == []


def test_the_documents_are_few_and_short() -> None:
    pages = [page.read_text(encoding="utf-8").splitlines() for page in PAGES[1:]]

    assert len(pages) <= 10
    assert sum(map(len, pages)) <= 1500


def rewrite(page: Path) -> None:
    """Write what the sessions of a page print now; sessions that leave lines out are left alone if they still fit."""
    text = page.read_text(encoding="utf-8")
    files, sessions = opening(page)
    with tempfile.TemporaryDirectory() as name:
        for file, source in files.items():
            (Path(name) / file).parent.mkdir(exist_ok=True)
            (Path(name) / file).write_text(source, encoding="utf-8")
        for session in sessions:
            written = ""
            for command, shown, actual in printed(session, Path(name)):
                fits = re.fullmatch(pattern(shown), comparable(actual))
                lines = [] if fits else [line for line in actual.splitlines() if not MACHINE.match(line)]
                wrapped = [
                    part
                    for line in lines
                    for part in textwrap.wrap(line, WIDTH, subsequent_indent="      ", break_long_words=False) or [""]
                ]
                written += f"$ {command}\n" + (shown if fits else "".join(f"{line}\n" for line in wrapped))
            text = text.replace(session, written)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PAGES:
        rewrite(Path(chosen))
