"""Small copies of the results that are committed here, and random corruptions of their files, from a seed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random

from msgspec import structs

from attnsuite.cli import report as reporting
from attnsuite.cli import verify as verifying
from attnsuite.model import Claimed, Evidence, Holds, Learned, UsageError
from attnsuite.model.statistics import interval
from attnsuite.report.charts.files import STAMP
from attnsuite.results.store import Results, columns, contents, together
from attnsuite.results.store.contents import Contents

REAL = Path(__file__).parent.parent / "results"
"""The project's own results."""
CHECKED, TIMED = "amd-epyc-2-cores", "intel-xeon-family-6-model-207-2-cores"
"""The machines that are copied: the smallest that was checked, and one that was measured."""
ASKED = ("attention/loops", "attention/onnx_operator")
FAMILIES = ("plain", "causal", "documents", "bad_input")
WORKLOADS = ("decode/1k", "ladder/1k", "ladder/2k", "vit/b16")
RACERS = ("attention/matmul", "attention/loops", "attention/chunked", "attention/torch_sdpa.cudnn")
ROUNDS = 20
"""Samples of each time that are kept: enough for an interval, and few enough to be read thousands of times."""
DRAWN = tuple(1.9 + k / 100 for k in range(31))
_OF = interval(DRAWN)
CLAIMS = tuple(
    Claimed("claims/shapes", f"shapes/{name}", "cpu", "doc-001", "3.1", "it doubles", "a ratio", "nearest to 2", *of)
    for name, of in {
        "counted": (Evidence.EXACT, Holds.HOLDS, 2.0, 2.0, 2.0),
        "drawn": (Evidence.DRAWN, Holds.HOLDS, _OF.median, _OF.low, _OF.high, "", {"mean": 2.05}, DRAWN),
        "raised": (Evidence.TIMED, Holds.RAISED, None, None, None, "ValueError: no", {}, (), 0.5),
    }.items()
)  # fmt: skip
LEARNED = tuple(
    Learned(name, "recall", seed, "cpu", (2.5 - seed, 1.25, 0.5), {"accuracy": 0.875}, {"accuracy": 0.9},
            {"guessing": 0.1}, {"epochs": 3, "rate": 0.01}, 12.5)
    for name in ASKED for seed in (0, 1)
)  # fmt: skip


def copied(to: Path) -> Path:
    """A folder of results: some outcomes of one machine, some times of another, claims and trainings, and all pages."""
    of = contents.read(REAL / CHECKED)
    run = list(of.runs)[-1]
    questions = sorted({(each.case, each.dtype) for _, each in of.outcomes if each.case.partition("/")[0] in FAMILIES})
    kept = set(questions[::7])
    asked = [row for row in of.outcomes if row[1].implementation in ASKED and (row[1].case, row[1].dtype) in kept]
    trained, claims = [(run, each) for each in LEARNED], [(run, each) for each in CLAIMS]
    _write(to / CHECKED, Contents(of.runs, asked, [], trained, claims))
    of = contents.read(REAL / TIMED)
    raced = [row for row in of.measurements if row[1].workload in WORKLOADS and row[1].implementation in RACERS]
    timed = [(run, structs.replace(each, seconds=each.seconds[:ROUNDS])) for run, each in raced]
    _write(to / TIMED, Contents(of.runs, [], timed))
    audit = [path.name for path in REAL.glob("audit*.*")]
    for name in (f"{TIMED}/stopwatch.md", f"{TIMED}/stopwatch.csv", *audit):
        shutil.copy(REAL / name, to / name)
    with (to / "paths").open("w") as lines:
        reporting.report(to, lines=lines)
    (to / "paths").unlink()
    return to


def _write(folder: Path, of: Contents) -> None:
    """Without commits: what git has of them is another question."""
    folder.mkdir(parents=True)
    runs = {identity: structs.replace(run, commit="") for identity, run in of.runs.items()}
    together.replace_together(folder, contents.written(replace(of, runs=runs)))


@dataclass
class Shown:
    """What readers see of a folder of results: records as they load, and every page, table and chart."""

    recorded: dict[str, tuple[object, ...] | str]
    files: dict[str, str]


def shown(folder: Path) -> Shown:
    """What is shown of a folder of results or of one machine's; of a machine that is refused, nothing.

    Anything but a UsageError passes through. benchmark.json is shown to nobody.
    """
    machines = [folder] if folder.name in (CHECKED, TIMED) else [folder / CHECKED, folder / TIMED]
    recorded: dict[str, tuple[object, ...] | str] = {}
    for machine in machines:
        try:
            of = Results(machine.parent).read(machine.name)
            recorded[machine.name] = list(of.runs.items()), of.rows, of.measured, of.trained, of.examined
        except UsageError as error:
            recorded[machine.name] = f"refused in {len(str(error).splitlines())} line"
    pages = [path for path in folder.rglob("*") if path.suffix in (".md", ".csv", ".svg")]
    return Shown(recorded, {str(path.relative_to(folder)): _text(path) for path in sorted(pages)})


def _text(path: Path) -> str:
    text = path.read_bytes().decode(errors="backslashreplace")
    return STAMP.sub("", text, count=1) if path.suffix == ".svg" else text


class Corrupter:
    """A folder of results that is corrupted again and again, and restored each time."""

    def __init__(self, results: Path, seed: int) -> None:
        self.results, self.random = results, Random(seed)
        self.files = {
            path.relative_to(results): path.read_bytes() for path in sorted(results.rglob("*")) if path.is_file()
        }
        scopes = {self._scope(name) for name in self.files}
        self.before = {scope: shown(scope) for scope in scopes}

    def corrupt(self, name: Path) -> str:
        """Do something random to a file, and say what."""
        path, data = self.results / name, self.files[name]
        what = self.random.choice([*CORRUPTIONS, "moved", "swapped"])
        if what == "moved":
            path.rename(path.with_name(self.random.choice(["other" + path.suffix, f"{path.name}.orig"])))
        elif what == "swapped":
            self._swap(path)
        elif path.suffix == ".gz" and self.random.random() < 0.7:  # its numbers, packed anew
            lines = columns.unpacked(path.parent, path.name)
            text = CORRUPTIONS[what](self.random, "".join(f"{line}\n" for line in lines).encode())
            path.write_bytes(columns.packed(text.decode(errors="replace").removesuffix("\n").split("\n")))
        else:
            path.write_bytes(CORRUPTIONS[what](self.random, data))
        return what

    def _swap(self, path: Path) -> None:
        """Two files change places: of two machines, or of one."""
        names = [name for name in self.files if name.suffix == path.suffix and self.results / name != path]
        alike = [name for name in names if name.name == path.name]
        other = self.results / self.random.choice(alike or names or [path.relative_to(self.results)])
        ours, theirs = path.read_bytes(), other.read_bytes()
        path.write_bytes(theirs)
        other.write_bytes(ours)

    def restore(self) -> None:
        """Bring every file back."""
        for path in self.results.rglob("*"):
            if path.is_file() and path.relative_to(self.results) not in self.files:
                path.unlink()
        for name, data in self.files.items():
            if not (self.results / name).exists() or (self.results / name).read_bytes() != data:
                (self.results / name).write_bytes(data)

    def missed(self, name: Path) -> tuple[str, bool, bool]:
        """Corrupt a file: what was done, whether `verify` found it, and whether what is shown changed unnoticed."""
        what, scope = self.corrupt(name), self._scope(name)
        found = bool(verifying.verified(scope).errors)
        changed = not found and shown(scope) != self.before[scope]
        self.restore()
        return what, found, changed

    def _scope(self, name: Path) -> Path:
        """The folder that is verified where this file is corrupted: its machine's, or that of all."""
        return self.results / name.parent if name.parent.parts else self.results


def _bit(random: Random, data: bytes) -> bytes:
    place = random.randrange(max(1, len(data)))
    return data[:place] + bytes([data[place] ^ 1 << random.randrange(8)]) + data[place + 1 :] if data else b"?"


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(max(1, len(data)))]


def _digit(random: Random, data: bytes) -> bytes:
    places = [place for place, byte in enumerate(data) if 48 <= byte <= 57]
    if not places:
        return _bit(random, data)
    place = random.choice(places)
    return data[:place] + str((data[place] - 48 + random.randrange(1, 10)) % 10).encode() + data[place + 1 :]


def _garbage(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.randbytes(random.randrange(1, 40)) + data[place:]


def _lines(change: Callable[[Random, list[bytes]], Sequence[bytes]], random: Random, data: bytes) -> bytes:
    return b"".join(change(random, data.splitlines(keepends=True)))


def _deleted(random: Random, lines: list[bytes]) -> Sequence[bytes]:
    place = random.randrange(max(1, len(lines)))
    return lines[:place] + lines[place + 1 :]


def _twice(random: Random, lines: list[bytes]) -> Sequence[bytes]:
    place = random.randrange(max(1, len(lines)))
    return [*lines[: place + 1], *lines[place:]]


def _exchanged(random: Random, lines: list[bytes]) -> Sequence[bytes]:
    one, other = (random.randrange(max(1, len(lines))) for _ in range(2))
    if lines:
        lines[one], lines[other] = lines[other], lines[one]
    return lines


CORRUPTIONS: dict[str, Callable[[Random, bytes], bytes]] = {
    "a bit flipped": _bit,
    "cut off": _cut,
    "a digit changed": _digit,
    "bytes put in": _garbage,
    "a line deleted": partial(_lines, _deleted),
    "a line twice": partial(_lines, _twice),
    "lines exchanged": partial(_lines, _exchanged),
}


def remembered(monkeypatch) -> None:
    """Draw and render what was drawn or rendered last only once: both depend on their arguments alone."""
    from attnsuite.report import pytest_benchmark
    from attnsuite.report.charts import files
    from attnsuite.report.verification import index, pages, stopwatch

    drawn: dict[str, str] = {}
    draw = files._drawn

    def drawing(picture):
        stamp = files.stamp_of_picture(picture)
        if stamp not in drawn:
            drawn[stamp] = draw(picture)
        return drawn[stamp]

    monkeypatch.setattr(files, "_drawn", drawing)
    monkeypatch.setattr(pages, "texts", _last(pages.texts))
    monkeypatch.setattr(pytest_benchmark, "benchmark_json", _last(pytest_benchmark.benchmark_json))
    monkeypatch.setattr(files, "due", _last(files.due))
    monkeypatch.setattr(stopwatch, "of_trials", _last(stopwatch.of_trials))
    monkeypatch.setattr(stopwatch, "counted", _last(stopwatch.counted))
    monkeypatch.setattr(index, "index", _last(index.index))
    monkeypatch.setattr(index, "rendered", _last(index.rendered))


def _last(function):
    """The function, which remembers its answer to each of the last few arguments."""
    known: list[tuple[tuple[object, ...], object]] = []

    def asked(*arguments):
        for earlier, answer in known:
            if earlier == arguments:
                return answer
        answer = function(*arguments)
        known[:] = [(arguments, answer), *known[:7]]
        return answer

    return asked
