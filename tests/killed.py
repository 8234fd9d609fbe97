"""A sweep whose processes are killed at random moments, and checks of its results."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from processes import words_of

import attnsuite
from attnsuite.model import Outcome
from attnsuite.results import read

HOME = Path(attnsuite.__file__).parent.parent
LAUNCHER = "launcher"
VICTIMS = (LAUNCHER, "shard", "submitit's process", "submitit's controller")
"""Processes to kill: the launcher with its children, the command of a shard, or one of submitit's two around it."""
FALLS = 60.0
"""Seconds within which the children of a killed launcher must end."""
Row = tuple[str, str, str]


@dataclass
class KilledSweep:
    """A sweep in a folder, started by the command line, killed several times and restarted."""

    folder: Path
    shards: int
    table: str
    jobs: int = 2
    seed: int = 0
    kills: list[str] = field(default_factory=list)
    seen: dict[Row, float | None] = field(default_factory=dict)
    """Seconds of each outcome that was stored before a kill; a repeated test would have other seconds."""
    amiss: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        (self.folder / "sweep.toml").write_text(f"shards = {self.shards}\n{self.table}")

    @property
    def words(self) -> list[str]:
        return [sys.executable, "-m", "attnsuite", "sweep", "sweep.toml", "--jobs", str(self.jobs), "--attempts", "100"]

    def launch(self) -> subprocess.Popen[bytes]:
        around = {**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
        with (self.folder / "lines.txt").open("ab") as lines:
            return subprocess.Popen(self.words, cwd=self.folder, env=around, stdout=lines, stderr=lines)

    def carried_out(self, victims: Sequence[str], moments: tuple[float, float], seconds: float) -> int:
        """Launch, kill these processes at random moments, and wait; the exit status, or -1 after `seconds`."""
        until = time.monotonic() + seconds
        launcher = self.launch()
        for victim in victims:
            pause = time.monotonic() + self._chance.uniform(*moments)
            while launcher.poll() is None and (time.monotonic() < pause or not self._found(launcher, victim)):
                if time.monotonic() > until:
                    break
                time.sleep(0.05)
            if launcher.poll() is None and time.monotonic() < until:
                launcher = self._kill(launcher, victim)
        try:
            return launcher.wait(max(until - time.monotonic(), 1))
        except subprocess.TimeoutExpired:
            self._end(launcher)
            return -1

    def _kill(self, launcher: subprocess.Popen[bytes], victim: str) -> subprocess.Popen[bytes]:
        """Kill a process and remember the stored outcomes; restart a killed launcher."""
        self.kills.append(victim)
        if victim == LAUNCHER:
            self._end(launcher)
            self._remember()
            return self.launch()
        found = self._found(launcher, victim)
        if found:
            self._chance.choice(found).kill()
            self._remember()
        return launcher

    def _end(self, launcher: subprocess.Popen[bytes]) -> None:
        family = psutil.Process(launcher.pid).children(recursive=True)
        launcher.kill()
        launcher.wait()
        _, alive = psutil.wait_procs(family, timeout=FALLS)
        self.amiss += [f"{each} outlived the launcher" for each in alive]

    def _found(self, launcher: subprocess.Popen[bytes], victim: str) -> list[psutil.Process]:
        if victim == LAUNCHER:
            return [psutil.Process(launcher.pid)]
        sign = {"shard": "--shard", "submitit's process": "submitit.core._submit"}.get(victim, "submitit.local._local")
        try:
            family = psutil.Process(launcher.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [each for each in family if sign in words_of(each)]

    def _remember(self) -> None:
        """Remember the outcomes in the store, also of unfinished shards."""
        self.seen |= {key: of.seconds for key, of in self.rows(self.folder / "sweep.sweep")}

    def rows(self, folder: Path) -> Iterator[tuple[Row, Outcome]]:
        """The outcomes below a folder, by test."""
        for results in {file.parents[2] for file in folder.rglob("run.json")}:
            for of in stored(results):
                yield (of.implementation, of.case, of.dtype), of

    @property
    def there(self) -> dict[Row, Outcome]:
        """The outcomes of the merged results, or of the shards of an unfinished sweep."""
        merged = self.folder / "results"
        return dict(self.rows(merged if merged.exists() else self.folder / "sweep.sweep"))

    def forgotten(self) -> list[str]:
        """A line per outcome that was stored before a kill and is missing."""
        return [f"{key} is lost" for key in self.seen.keys() - self.there.keys()]

    def lost(self, due: Sequence[Outcome]) -> list[str]:
        """A line per difference between the results and those of an undivided check."""
        there = self.there
        wanted = {(of.implementation, of.case, of.dtype): of for of in due}
        missing = [f"{key} is lost" for key in wanted if key not in there]
        both = wanted.keys() & there.keys()
        unlike = [f"{key} is {there[key].status}" for key in both if there[key].status != wanted[key].status]
        return [*missing, *unlike, *(f"{key} is no test of the check" for key in there.keys() - wanted.keys())]

    def repeated(self) -> list[Row]:
        """Tests that were stored before a kill and ran again: their seconds changed."""
        there = self.there
        return [key for key, seconds in self.seen.items() if key in there and not _alike(seconds, there[key].seconds)]

    @property
    def lines(self) -> str:
        """The output of all launchers."""
        return (self.folder / "lines.txt").read_text(errors="replace")

    @property
    def started(self) -> int:
        """The number of started shards."""
        return self.lines.count(": begun")


def undivided(folder: Path, words: Sequence[str]) -> list[Outcome]:
    """The outcomes of the same check, undivided and not killed."""
    around = {**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "attnsuite", "check", *words, "--results", "whole", "--quiet"]
    subprocess.run(command, cwd=folder, env=around, check=False, capture_output=True)
    return stored(folder / "whole")


def stored(folder: Path) -> list[Outcome]:
    """The outcomes in a folder of results."""
    return [of for recorded in read(folder).values() for of in recorded.outcomes]


def _alike(one: float | None, other: float | None) -> bool:
    """Whether two times are equal to the digits of the store."""
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 0.01 * max(one, other)
