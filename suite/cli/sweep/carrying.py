"""The loop of a sweep: what is not answered is started, what ended unanswered is started again, up to a limit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from attnsuite.cli.sweep.command import ShardCommand
from attnsuite.cli.sweep.engines import Engine, Started, ended
from attnsuite.model import Measurement, Outcome

PAUSE = 0.2
"""Seconds between two looks at what runs."""
CANNOT = "exit status 2"
"""How a request ends that cannot be carried out, however often it is started."""
Answers = list[Outcome | Measurement]


@dataclass(frozen=True)
class Unanswered:
    """A shard that was given up, and how its last command ended."""

    command: ShardCommand
    attempts: int
    why: str


@dataclass
class Carried:
    """What became of shards so far: the answers of each, those given up, and what is left."""

    commands: Sequence[ShardCommand]
    tell: Callable[[str], None]
    attempts: int = 1
    """How often a shard is started at most."""
    answers: dict[ShardCommand, Answers] = field(default_factory=dict)
    unanswered: list[Unanswered] = field(default_factory=list)
    begun: Counter[ShardCommand] = field(default_factory=Counter)

    def look(self, command: ShardCommand) -> bool:
        """Whether it is answered: then its answers are kept."""
        found = command.answers()
        if found is not None:
            self.answers[command] = found
        return found is not None

    @property
    def left(self) -> list[ShardCommand]:
        """Those that are neither answered nor given up."""
        over = {*self.answers, *(each.command for each in self.unanswered)}
        return [each for each in self.commands if each not in over]

    def begin(self, command: ShardCommand) -> None:
        self.begun[command] += 1
        times = self.begun[command]
        self.tell(f"{command}: begun" + (f", attempt {times} of {self.attempts}" if times > 1 else ""))

    def end(self, started: Started) -> None:
        """What becomes of a command that is over: answered, given up, or left to be started again."""
        command = started.command
        if self.look(command):
            rows, of = len(self.answers[command]), len(self.commands)
            self.tell(f"{command}: {rows} rows; {len(self.answers)} of {of} shards are answered")
            return
        why = ended(started)
        if why.startswith(CANNOT):
            others = [each for each in self.left if each.name == command.name and not self.begun[each]]
            self._give_up([command, *others], why)
        elif self.begun[command] < self.attempts:
            self.tell(f"{command}: {why}; it goes on with what is missing")
        else:
            self._give_up([command], why)

    def _give_up(self, commands: Sequence[ShardCommand], why: str) -> None:
        self.unanswered += [Unanswered(each, self.begun[each], why) for each in commands]
        more = f", and {len(commands) - 1} more of the same request" if len(commands) > 1 else ""
        self.tell(f"{commands[0]}: given up{more}, {why}")


def carry_out(of: Carried, engine: Engine) -> None:
    """Start what is left, and again what ended without answers, until nothing is left.

    Raises UsageError where what is stored cannot be read, or where nothing can be started.
    """
    running: list[Started] = []
    while left := of.left:
        busy = {started.command for started in running}
        for started in engine.start(engine.ready([each for each in left if each not in busy], running)):
            of.begin(started.command)
            running.append(started)
        over = [started for started in running if engine.is_over(started)]
        running = [started for started in running if started not in over]
        for started in over:
            of.end(started)
        if not over:
            time.sleep(PAUSE)
