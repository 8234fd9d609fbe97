"""Prose is in the field's words: docstrings, comments, messages and documents have no word of the old dialect."""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

HOME = Path(__file__).parent.parent
LONGEST_SENTENCE = 35
"""Words: longer sentences have to be read twice."""
WORDS = {
    r"\bdue\b(?! to\b)": "expected",
    r"\bcame\b": "actual",
    r"\b(told|tells|telling)\b": "report, state, distinguish",
    r"\bstrangers?\b": "correct variant",
    r"\b(whoever|nobody|somebody|anybody)\b": "a noun",
    r"\b((?-i:is none|are none)|so many|of which|but for)\b": "a sentence with a noun and a verb",
    r"\bbeside\b": "with, next to, compared with",
    r"\bwalls?\b(?! time)": "sandbox",
    r"\b(house|rooms?)\b": "package",
    r"\bamiss\b": "wrong",
    r"\b((held|holds?) against|set beside)\b": "compare with",
    r"\byardsticks?\b": "baseline",
    r"\bat hand\b": "available",
    r"\bpatience\b": "a limit of timeouts",
    r"\bdeclin(e|es|ed|ing)\b": "unsupported",
    r"\bquestions?\b": "test, case",
    r"\btruths?\b": "oracle, expected",
    r"\banswer(s|ed|ing)?\b": "output, result, reply, passed",
    r"\bask(s|ed|ing)?\b": "test, call, run, need",
    r"\bplug(s|ged|ging)?\b": "backend",
    r"\bdeviations?\b(?! of| from)": "mutant",
    r"\bknown gaps?\b": "expected failure",
    r"\bg[eo]ts? through\b": "survive",
    r"\bin sight\b": "reported",
}
"""Patterns of words that prose does not use, and what it says instead."""
ALLOWED = {"standard deviation": "a term of statistics"}
"""Phrases that may have such a word, each with the reason."""

PLACES = (
    "suite",
    "implementations",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "SECURITY.md",
    "CHANGELOG.md",
)
ANY = re.compile("|".join(WORDS).replace(" ", r"\s+"), re.IGNORECASE)
CODE = re.compile(r"`[^`]*`|--[a-z][a-z-]+|\b(" + "|".join(ALLOWED) + r")s?\b", re.IGNORECASE)
"""Inline code, options and phrases that are allowed."""

Prose = tuple[int, str, bool]
"""The first line of a text, the text, and whether the length of its sentences counts."""


def prose_of_code(path: Path) -> Iterator[Prose]:
    """Yield the docstrings, comments and messages (strings with a space) of a Python file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docstrings = {id(value) for value in statements if isinstance(value, ast.Constant)}
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in formatted for part in node.values}
    for node in formatted:
        yield node.lineno, "".join(str(getattr(part, "value", "")) for part in node.values), False
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value if " " in node.value.strip() else "", id(node) in docstrings
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string, False


def prose_of_table(path: Path) -> Iterator[Prose]:
    """Yield the text of a TOML file: its strings are messages."""
    yield 1, path.read_text(encoding="utf-8"), False


def prose_of_page(path: Path) -> Iterator[Prose]:
    """Yield the text of a Markdown page without its blocks of code."""
    text = path.read_text(encoding="utf-8")
    yield 1, re.sub(r"^( *)```.*?^\1```", blank, text, flags=re.MULTILINE | re.DOTALL), True


PROSE = {".md": prose_of_page, ".py": prose_of_code, ".toml": prose_of_table}


def blank(found: re.Match[str]) -> str:
    """Return a word in place of code, with as many lines."""
    return "CODE" + "\n" * found.group().count("\n")


def dialect_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the dialect's words in a text: how many lines below its first, and the complaint."""
    text = CODE.sub(blank, text)
    for found in ANY.finditer(text):
        words = " ".join(found.group().split())
        instead = next(instead for pattern, instead in WORDS.items() if re.match(pattern, words, re.IGNORECASE))
        yield text.count("\n", 0, found.start()), f"{words!r}: write {instead}"


def long_sentences_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield the sentences that are too long, as `dialect_in` does. Lines indented by four columns are formulas."""
    text = re.sub(r"^ {4,}\S.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", blank, text))
    start = 0
    for sentence in re.split(r"((?<=[.!?:])[)\"*_]*\s+|\s*\|\s*|\s{3,}|\n\s*\n|\n(?=\s*(?:[-*|#]|\d+\.)\s))", text):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > LONGEST_SENTENCE:
            yield start, f"{len(words)} words in a sentence, '{' '.join(words[:6])} …': at most {LONGEST_SENTENCE}"
        start += sentence.count("\n")


def complaints(path: Path) -> list[str]:
    """Return what is wrong with the prose of a file, each with its line."""
    found = []
    for first, text, is_document in PROSE[path.suffix](path):
        for line, complaint in (*dialect_in(text), *(long_sentences_in(text) if is_document else ())):
            found.append(f"{path.relative_to(HOME)}:{first + line}: {complaint}")
    return found


def prose_files(top: Path) -> list[Path]:
    """Return a file, or the files below a folder, that have prose."""
    return [top] if top.is_file() else sorted(path for path in top.rglob("*") if path.suffix in PROSE)


def test_code_is_written_in_the_words_of_the_field() -> None:
    code = [path for folder in ("suite", "implementations") for path in prose_files(HOME / folder)]

    assert [line for path in code for line in complaints(path)] == []


def test_documents_are_written_in_the_words_of_the_field() -> None:
    pages = [*HOME.glob("*.md"), *(HOME / "docs").rglob("*.md")]

    assert [line for path in pages for line in complaints(path)] == []


def test_few_phrases_are_allowed() -> None:
    assert len(ALLOWED) <= 10


def test_words_and_long_sentences_are_found_in_each_kind_of_prose(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text(
        '"""What was asked."""\n# nobody knows\nprint(f"{1} came, `due` is right")\nname = "due"\n'
        f'def long():\n    """{"word " * 36}."""\n'
    )
    found = [(first + line, text) for first, prose, _ in prose_of_code(code) for line, text in dialect_in(prose)]
    sentences = [line for first, prose, counts in prose_of_code(code) if counts for line in long_sentences_in(prose)]

    assert sorted(line for line, _ in found) == [1, 2, 3]
    assert len(sentences) == 1


if __name__ == "__main__":
    FOUND = [line for name in sys.argv[1:] or PLACES for path in prose_files(HOME / name) for line in complaints(path)]
    print(*FOUND, f"{len(FOUND)} complaints", sep="\n")
