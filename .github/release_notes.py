"""Prints the section of CHANGELOG.md for the version of a tag, which has to be the version in pyproject.toml."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

HOME = Path(__file__).parent.parent


def notes(tag: str, home: Path = HOME) -> str:
    """The section of the version, without its heading. Raises SystemExit where tag, version and changelog disagree."""
    version = tomllib.loads((home / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"the tag {tag} is not v{version}, the version in pyproject.toml")
    changelog = (home / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.compile(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", re.MULTILINE)
    found = heading.search(changelog)
    if found is None:
        sys.exit(f"CHANGELOG.md has no heading `## [{version}] - YYYY-MM-DD`: give it to what is under [Unreleased]")
    return re.split(r"^## ", changelog[found.end() :], maxsplit=1, flags=re.MULTILINE)[0].strip()


if __name__ == "__main__":
    print(notes(*sys.argv[1:]))
