"""What tests of sweeps have in common: shards whose answers are ready, and a stand-in that gives them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace
from stored import RUN, outcome, record

from attnsuite.cli.sweep.command import Expected, ShardCommand
from attnsuite.model import Shard

EXPECTED = Expected(RUN.suite, dict(RUN.sources), dict(RUN.versions))
STAND_IN = '''#!{python}
"""Called like the interpreter: does with a shard what stands in plan.json for this start of it."""
import json, os, pathlib, shutil, signal, sys, time

home = pathlib.Path(__file__).parent
shard, folder = (sys.argv[sys.argv.index(word) + 1] for word in ("--shard", "--results"))
starts = home / ("starts-" + shard.replace("/", "-"))
with starts.open("a") as file:
    file.write("{{}} {{}}\\n".format(os.getpid(), os.environ.get("CUDA_VISIBLE_DEVICES")))
plan = json.loads((home / "plan.json").read_text()).get(shard, [])
number = len(starts.read_text().splitlines())
act = plan[number - 1] if number <= len(plan) else "answer"
if act == "answer":
    name = "shard-" + shard.replace("/", "-of-")
    shutil.copytree(home / "ready" / name, pathlib.Path(folder) / name)
elif act == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif act == "refuse":
    print("attnsuite: there is no such thing", file=sys.stderr)
    sys.exit(2)
elif act == "wait":
    time.sleep(600)
'''


class Shards:
    """Commands of shards in a folder, which start the stand-in; `plan` says what each start of a shard does."""

    def __init__(self, home: Path, count: int, plan: dict[str, Sequence[str]] | None = None) -> None:
        self.home = home
        self.python = home / "python"
        self.python.write_text(STAND_IN.format(python=sys.executable))
        self.python.chmod(0o755)
        (home / "plan.json").write_text(json.dumps(plan or {}))
        self.parts = [Shard(index, count) for index in range(1, count + 1)]
        for part in self.parts:
            self._answer(part)

    def _answer(self, part: Shard) -> None:
        run = replace(RUN, id=f"r{part.index}", shard=str(part))
        record(self.home / "ready" / part.folder, run, outcome(f"family_{part.index}/case"))

    def commands(self, subcommand: str = "check") -> list[ShardCommand]:
        folder = self.home / "answers"
        return [ShardCommand(subcommand, str(self.python), (subcommand,), folder, of, EXPECTED) for of in self.parts]

    def starts(self, part: str) -> list[list[str]]:
        """Of each start of a shard, the number of its process and the GPUs that it saw."""
        file = self.home / f"starts-{part.replace('/', '-')}"
        return [line.split() for line in file.read_text().splitlines()] if file.exists() else []
