"""One shard as the command that answers it, and whether it is answered: that is read from the store alone."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from attnsuite.model import Measurement, Outcome, Run, Shard
from attnsuite.results.store import Results


@dataclass(frozen=True)
class Expected:
    """What a finished run has to be of, to answer a request: of whichever machine."""

    suite: str
    sources: Mapping[str, str]
    versions: Mapping[str, str]

    def is_of(self, run: Run) -> bool:
        """Whether it is of these sources (or of some of them, where a contract has nothing to ask) and versions."""
        same = run.suite == self.suite and dict(run.versions) == dict(self.versions)
        return same and run.sources.items() <= self.sources.items()

    def digest(self, words: Sequence[str]) -> str:
        """Eight hexadecimal digits of all this and of the words of the request."""
        text = json.dumps([asdict(self), list(words)], sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]


@dataclass(frozen=True, eq=False)
class ShardCommand:
    """The command of one shard. `folder` is that of all shards of this very request, and of nothing else."""

    name: str
    python: str
    words: tuple[str, ...]
    folder: Path
    shard: Shard
    expected: Expected

    def __str__(self) -> str:
        return f"{self.name} {self.shard}"

    @property
    def is_timed(self) -> bool:
        return self.words[0] == "bench"

    @property
    def line(self) -> list[str]:
        """The words of the plain command."""
        where = ["--shard", str(self.shard), "--results", str(self.folder)]
        return [self.python, "-m", "attnsuite", *self.words, *where]

    @property
    def shell(self) -> str:
        """The plain command as it is typed."""
        return shlex.join(self.line)

    @property
    def results(self) -> Path:
        """The folder of results of this shard."""
        return self.folder / self.shard.folder

    def answers(self) -> list[Outcome | Measurement] | None:
        """What the shard's finished run has recorded; None where there is none.

        Raises UsageError where what is stored cannot be read.
        """
        store = Results(self.results)
        for name in store.machines():
            there = store.read(name, self._is_answer)
            if there.runs:
                return [*there.outcomes, *there.measurements]
        return None

    def _is_answer(self, run: Run) -> bool:
        return bool(run.finished) and run.shard == str(self.shard) and self.expected.is_of(run)
