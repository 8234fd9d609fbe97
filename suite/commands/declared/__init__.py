"""What each subcommand takes: a file each, whose fields are its options and whose opening sentence is its help."""

from __future__ import annotations

from collections.abc import Mapping

from suite.commands.declared.audit import Audit
from suite.commands.declared.bench import Bench
from suite.commands.declared.check import Check
from suite.commands.declared.claims import Claims
from suite.commands.declared.common import Command
from suite.commands.declared.compare import Compare
from suite.commands.declared.draw import Draw
from suite.commands.declared.export import Export
from suite.commands.declared.history import History
from suite.commands.declared.learn import Learn
from suite.commands.declared.list_ import List
from suite.commands.declared.merge import Merge
from suite.commands.declared.migrate import Migrate
from suite.commands.declared.new import New
from suite.commands.declared.report import Report
from suite.commands.declared.run import Run
from suite.commands.declared.sweep import Sweep
from suite.commands.declared.verify import Verify

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
