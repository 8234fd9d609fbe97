"""Configuration of the site: README, docs/ and the other pages, with a reference of the Python API (`tox -e docs`).

The source folder is the root of the checkout, so that links between pages are the same here and on GitHub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import version as version_of
from pathlib import Path

HOME = Path(__file__).parents[2]
REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "")
"""`OWNER/NAME` in GitHub Actions. Elsewhere files that are no pages are named without a link."""
NAVIGATION = """
```{toctree}
:hidden:
:caption: Use
docs/check
docs/signatures
docs/grading
docs/bench
docs/gpu
docs/contracts
docs/results
docs/site/api
docs/site/fields
```
```{toctree}
:hidden:
:caption: Trust
docs/judging
docs/isolation
docs/documents
SECURITY
```
```{toctree}
:hidden:
:caption: Take part
CONTRIBUTING
ARCHITECTURE
CHANGELOG
```
"""

project = "attnsuite"
author = project_copyright = "attnsuite contributors"
version = release = version_of("attnsuite")
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/site/*.md"]
exclude_patterns = ["**/.*", ".*", "benchmarks", "dist", "examples", "implementations", "results", "suite", "tests"]
html_theme = "furo"
html_title = f"attnsuite {version}"
html_copy_source = False
default_role = "code"  # docstrings write code in single backticks
myst_heading_anchors = 3
myst_enable_extensions: list[str] = []
suppress_warnings = ["misc.highlighting_failure"]  # sessions and abridged listings are in no language
autodoc_member_order = "bysource"
autodoc_typehints = "signature"


def link(page: Path, found: re.Match[str]) -> str:
    """Return a link of a page as it is in the site: to a page, to a file on GitHub, or the text alone."""
    text, target = found.groups()
    path, _, _ = target.partition("#")
    file = (page.parent / path).resolve()
    if "://" in target or not path or (file.suffix in (".md", ".svg") and "results" not in file.parts):
        return found.group()
    if not file.exists():
        raise FileNotFoundError(f"{page.relative_to(HOME)}: {target} does not exist")
    kind = "tree" if file.is_dir() else "blob"
    return f"[{text}](https://github.com/{REPOSITORY}/{kind}/main/{file.relative_to(HOME)})" if REPOSITORY else text


def prepare(app: object, name: str, source: list[str]) -> None:
    """Rewrite the links of a page; add the navigation to the first one."""
    page = HOME / f"{name}.md"
    linked: Callable[[re.Match[str]], str] = lambda found: link(page, found)  # noqa: E731
    source[0] = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", linked, source[0]) + NAVIGATION * (name == root_doc)


def add_index(app: object, error: Exception | None) -> None:
    """Write index.html, which leads to the first page."""
    if error is None:
        page = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html"><title>{project}</title>\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")  # type: ignore[attr-defined]


def setup(app: object) -> None:
    """Connect the hooks; Sphinx calls this function."""
    app.connect("source-read", prepare)  # type: ignore[attr-defined]
    app.connect("build-finished", add_index)  # type: ignore[attr-defined]
