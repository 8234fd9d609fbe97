"""What calls take of memory: measured in processes of their own, side by side, once for each kind of call."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.measure.protocol import Failed, Weighed
from attnsuite.benchmark.participant import Participant
from attnsuite.benchmark.processes import cores
from attnsuite.benchmark.request import Table
from attnsuite.cases import Contract

Weight = Weighed | Failed | None
"""What a call takes; None where the participant has no process of its own."""


class Weighing:
    """Weighs the calls of a benchmark. Whole calls are weighed, so a backward takes what forward and backward take."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self._known: dict[tuple[str, str, str, int, bool], Weight] = {}
        """By implementation, workload, dtype, threads, and whether it is forward alone."""

    def weigh(self, table: Table, entries: Sequence[Entry[Participant]]) -> dict[str, Weight]:
        """What a call of each takes, by the implementation's name; of those alone that have not dropped out."""
        at_once = max(1, len(cores()) // table.threads) if table.threads else 1  # a GPU's meter sees all that it holds
        able = [entry for entry in entries if not entry.failed]
        longest_first = sorted(able, key=lambda entry: -entry.prepared.first_call)  # so that they end together
        with ThreadPoolExecutor(at_once) as pool:
            answers = {entry.name: pool.submit(self._weighed, table, entry) for entry in longest_first}
            return {name: answer.result() for name, answer in answers.items()}

    def _weighed(self, table: Table, entry: Entry[Participant]) -> Weight:
        call = entry.name, table.workload.name, table.dtype, table.threads, table.direction == "forward"
        if call not in self._known:
            job = table.job(self._contract, entry.participant.declaration)
            self._known[call] = entry.participant.weigh(job, entry.prepared.expected)
        return self._known[call]
