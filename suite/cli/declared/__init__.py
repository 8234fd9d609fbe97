"""What each subcommand takes: a file each, whose fields are its options and whose opening sentence is its help."""

from __future__ import annotations

from collections.abc import Mapping

from attnsuite.cli.declared.audit import Audit
from attnsuite.cli.declared.bench import Bench
from attnsuite.cli.declared.check import Check
from attnsuite.cli.declared.claims import Claims
from attnsuite.cli.declared.common import Command
from attnsuite.cli.declared.compare import Compare
from attnsuite.cli.declared.draw import Draw
from attnsuite.cli.declared.export import Export
from attnsuite.cli.declared.history import History
from attnsuite.cli.declared.learn import Learn
from attnsuite.cli.declared.list_ import List
from attnsuite.cli.declared.merge import Merge
from attnsuite.cli.declared.migrate import Migrate
from attnsuite.cli.declared.new import New
from attnsuite.cli.declared.report import Report
from attnsuite.cli.declared.run import Run
from attnsuite.cli.declared.sweep import Sweep
from attnsuite.cli.declared.verify import Verify

COMMANDS: Mapping[str, type[Command]] = {
    "list": List,
    "new": New,
    "check": Check,
    "bench": Bench,
    "export": Export,
    "audit": Audit,
    "learn": Learn,
    "claims": Claims,
    "merge": Merge,
    "report": Report,
    "run": Run,
    "sweep": Sweep,
    "history": History,
    "draw": Draw,
    "compare": Compare,
    "verify": Verify,
    "migrate": Migrate,
}
"""The subcommands by name, in workflow order."""
