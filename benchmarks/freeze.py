"""Records the behaviour that a restructuring must not change, and compares it later.

    python benchmarks/freeze.py record FOLDER [SUBMISSION.py ...]
    python benchmarks/freeze.py compare BEFORE AFTER

The first takes about ten minutes on two cores. The second prints each difference, and exits with 1 where there is
one. A folder holds
`statuses.jsonl`: one row per implementation, case and dtype, with its status and the name of its failure; and
`submissions.json`: exit status and failures by name of `attnsuite check` for each submission, in float32.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CHECKS = (
    ("*/*", "--except", "flex", "--except", "jax_nn", "--except", "torch_sdpa.flash"),
    ("jax_nn", "flex", "--sample"),
)
"""What every shipped implementation is tested on; the two compilers on a sample, as in the main job."""


def record(folder: Path, submissions: Sequence[str]) -> None:
    """Run the checks of this checkout and write both files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "statuses.jsonl").open("w", encoding="utf-8") as rows:
        for number, check in enumerate(CHECKS):
            file = folder / f"check-{number}.jsonl"
            _attnsuite("check", *check, "--jobs", "2", "--json", str(file))
            rows.write(file.read_text(encoding="utf-8"))
            file.unlink()
    verdicts = {Path(name).name: list(_verdict(name)) for name in submissions}
    (folder / "submissions.json").write_text(json.dumps(verdicts, indent=1), encoding="utf-8")


def _attnsuite(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "attnsuite", *arguments], capture_output=True, text=True, check=False)


def _verdict(submission: str) -> Iterator[str]:
    """The exit status and the lines that count failures by name, without numbers that depend on the machine."""
    check = _attnsuite("check", submission, "--dtype", "float32", "--quiet")
    yield f"exit status {check.returncode}"
    lines = [line for line in check.stdout.splitlines() if re.match(r"\S+  \d+ of \d+|  \d+ × ", line)]
    yield from (re.sub(r";.*", "", line) for line in lines)


def compare(before: Path, after: Path) -> int:
    """Print each difference, statuses first; the number of differences."""
    old, new = ({**_statuses(folder), **_submissions(folder)} for folder in (before, after))
    differing = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    for key in differing:
        print(key, "|", old.get(key, "absent"), "->", new.get(key, "absent"))
    print(f"{len(differing)} differences in {len(old)} rows")
    return len(differing)


def _statuses(folder: Path) -> Mapping[str, str]:
    rows = map(json.loads, (folder / "statuses.jsonl").read_text(encoding="utf-8").splitlines())
    return {
        " ".join((row["implementation"], row["case"], row["dtype"])): f"{row['status']} {_name(row['detail'])}".strip()
        for row in rows
    }


def _name(detail: str) -> str:
    return " ".join(re.findall(r'equals "(\w+)"', detail))


def _submissions(folder: Path) -> Mapping[str, str]:
    file = folder / "submissions.json"
    verdicts = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    return {name: "\n".join(lines) for name, lines in verdicts.items()}


if __name__ == "__main__":
    action, *rest = sys.argv[1:] or ("",)
    if action == "record" and rest:
        record(Path(rest[0]), rest[1:])
    elif action == "compare" and len(rest) == 2:
        sys.exit(min(compare(Path(rest[0]), Path(rest[1])), 1))
    else:
        sys.exit(__doc__)
