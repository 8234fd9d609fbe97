"""What each subcommand takes: a file each, whose fields are its options and whose opening sentence is its help."""

from __future__ import annotations

from collections.abc import Mapping

from attnsuite.commands.declared.audit import Audit
from attnsuite.commands.declared.bench import Bench
from attnsuite.commands.declared.check import Check
from attnsuite.commands.declared.claims import Claims
from attnsuite.commands.declared.common import Command
from attnsuite.commands.declared.compare import Compare
from attnsuite.commands.declared.draw import Draw
from attnsuite.commands.declared.export import Export
from attnsuite.commands.declared.history import History
from attnsuite.commands.declared.learn import Learn
from attnsuite.commands.declared.list_ import List
from attnsuite.commands.declared.merge import Merge
from attnsuite.commands.declared.migrate import Migrate
from attnsuite.commands.declared.new import New
from attnsuite.commands.declared.report import Report
from attnsuite.commands.declared.run import Run
from attnsuite.commands.declared.sweep import Sweep
from attnsuite.commands.declared.verify import Verify

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
