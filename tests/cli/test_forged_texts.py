"""Names and messages of a submission are printed as text: no markup, no command, nothing invisible."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

NAMES = ("x\u202e\x1b[31m.py", "a|b `c` [l](d) <script>alert(1)<_script>.py", "&lt;b&gt; $HOME; new\nline.py")
KERNEL = """
import torch

SAYS = (
    "<script>alert(1)</script> | `a` ``b`` ![i](http://e/i.png) [l](javascript:x)",
    "one\\n\\n# Heading\\n- item\\n| x | y |\\n|---|---|\\n::error file=x::forged\\n<!-- <details>",
    "\\x1b[31mred \\x9b31m \\u202eleft \\u2066 \\u200b\\ufeff \\u2028 \\ud800 \\x00 \\r ]]> {{7*7}} <style>*{}</style>",
)
calls = 0


def attention(query, key, value):
    global calls
    calls += 1
    print(SAYS[calls % 3])
    raise (ValueError if calls % 2 else NotImplementedError)(SAYS[calls % 3])
"""
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture
def shown(
    tmp_path: Path,
    status_of: Callable[..., object],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> dict[str, str]:
    """Every text that a check and a report of these files write for readers, by where it stands."""
    for name in NAMES:
        (tmp_path / name).write_text(KERNEL, encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    options = ["--results", "out", "--junit", "out.xml", "--json", "out.json", "--github"]
    words = ["--case", "plain", "--case", "keys", "--dtype", "float32", "--contract", "attention"]
    assert status_of("check", *NAMES, *words, *options) == 1
    assert status_of("report", "--results", "out") == 0
    printed = capsys.readouterr()
    files = [path for path in tmp_path.rglob("*") if path.suffix in {".md", ".html", ".csv", ".xml", ".json", ".jsonl"}]
    shown = (path for path in files if path.name != "facts.json")  # has the paths as they are, for pages to be made of
    texts = {str(path.relative_to(tmp_path)): path.read_text(encoding="utf-8") for path in shown}
    return {**texts, "standard output": printed.out, "standard error": printed.err}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        doing = [name for name, value in attrs if name.startswith("on") or (value or "").startswith("javascript:")]
        self.found += [tag] if tag in {"script", "style", "img", "iframe", "object", "base"} or doing else []


@pytest.mark.slow
def test_output_contains_no_invisible_characters(shown: dict[str, str]) -> None:
    assert len(shown) > 10
    results = {where: UNSEEN.findall(text) for where, text in shown.items()}
    assert not {where: signs for where, signs in results.items() if signs}

    summary = MarkdownIt("commonmark").enable("table")
    for where, text in shown.items():
        if where.endswith(".md"):
            tokens = [item for token in summary.parse(text) for item in (token, *(token.children or ()))]
            assert not {"html_block", "html_inline", "image"} & {item.type for item in tokens}, where
            links = [str(item.attrs["href"]) for item in tokens if item.type == "link_open"]
            assert not [item for item in links if not re.fullmatch(r"[\w./-]+(#[\w-]+)?", item)], where
    assert Tags(shown["out/report.html"]).found == ["style", "script", "script"]

    commands = [line for line in shown["standard output"].splitlines() if line.startswith("::")]
    stop, *errors = commands
    assert stop.startswith("::stop-commands::")
    assert errors[0] == f"::{stop.removeprefix('::stop-commands::')}::"
    assert all(
        line.startswith("::error file=") and "::forged" not in line.partition("title=")[0] for line in errors[1:]
    )
