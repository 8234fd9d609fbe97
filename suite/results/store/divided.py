"""Requests that were divided into shards: which parts make one run, which shards are missing or answered twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from attnsuite.model import Shard
from attnsuite.results.store.parts import Kinds, Part, asked, grouped

LISTED = 12
"""The most shards that are named in a line; of more, the others are counted."""


@dataclass(frozen=True)
class Divided:
    """The parts of one request: finished, only begun, and kept in the folder that they are to be merged into."""

    finished: Sequence[Part]
    begun: Sequence[Part]
    kept: Sequence[Part]
    kinds: Kinds

    def run_of(self, part: Part) -> Hashable:
        """What parts share that become one run: a kind of machine and the versions."""
        return self.kinds.of(part.run.machine), part.versions

    def known(self) -> list[Part]:
        """What is finished, and what is kept of the same runs.

        Where shards are missing, all that is kept of the request, unless other runs answered the same shards there.
        """
        mine = grouped(self.finished, self.run_of)
        agreeing = [part for part in self.kept if not _contradicts(part, mine.get(self.run_of(part), ()))]
        shared = [part for part in agreeing if _shares(part, mine.get(self.run_of(part), ()))]
        found = [*shared, *self.finished]
        return found if self._is_whole(found) or len(agreeing) < len(self.kept) else [*agreeing, *self.finished]

    def missing(self, known: Sequence[Part]) -> str:
        """The shards that nobody answered, in a line; empty where there are none."""
        if self._is_whole(known):
            return ""
        answered = self._answers(self._rest(known))
        count = (*self.finished, *self.begun)[0].run.divided
        names = [name for name in (str(Shard(index, count)) for index in range(1, count + 1)) if name not in answered]
        begun = {name: part for part in self.begun for name in part.run.covers}
        said = [f"{name} (begun in {begun[name].folder}, not finished)" if name in begun else name for name in names]
        return f"{self._request}: {len(names)} of {count} shards are missing: {listed(said)}" if names else ""

    def twice(self, known: Sequence[Part], partial: bool) -> str:
        """The shards that were answered twice, in a line, empty where there are none; if only some are wanted, those
        that one machine answered twice.
        """
        rest = self._rest(known)
        sets = grouped(rest, self.run_of).values() if partial else [rest]
        found = [(name, [*by.values()]) for each in sets for name, by in self._answers(each).items() if len(by) > 1]
        said = [f"{name} in {one.folder} and in {other.folder}" for name, (one, other, *_) in sorted(found)]
        return f"{self._request}: shards are answered twice: {listed(said)}" if said else ""

    def unneeded(self, known: Sequence[Part]) -> Iterator[str]:
        """What was begun of shards that are answered elsewhere."""
        answered = self._answers(known)
        for part in self.begun:
            if all(name in answered for name in part.run.covers):
                yield f"{part.folder}: the shard {part.run.shard} was not finished here, and is answered elsewhere"

    @property
    def _request(self) -> str:
        run = (*self.finished, *self.begun)[0].run
        return f"{asked(run)} in {run.divided} shards"

    def _is_whole(self, parts: Sequence[Part]) -> bool:
        return bool(parts) and not self._rest(parts)

    def _rest(self, parts: Sequence[Part]) -> Sequence[Part]:
        """The parts without those that answer everything together: of one machine, with one set of versions, or all."""
        for shared in (self.run_of, lambda part: part.versions, lambda part: None):
            for members in grouped(parts, shared).values():
                answers = self._answers(members)
                if len(answers) == members[0].run.divided and all(len(by) == 1 for by in answers.values()):
                    parts = [part for part in parts if part not in members]
        return parts

    def _answers(self, parts: Iterable[Part]) -> Mapping[str, Mapping[Hashable, Part]]:
        """Of each shard the parts that answer it, by the machine and the run that did: copies are one."""
        found: dict[str, dict[Hashable, Part]] = {}
        for part in parts:
            for shard, identity in part.run.covers.items():
                found.setdefault(shard, {}).setdefault((self.run_of(part), identity), part)
        return found


def _contradicts(kept: Part, parts: Sequence[Part]) -> bool:
    """Whether another run answered a shard."""
    return any(each.run.covers.get(name, own) != own for each in parts for name, own in kept.run.covers.items())


def _shares(kept: Part, parts: Sequence[Part]) -> bool:
    return any(kept.run.covers.items() & each.run.covers.items() for each in parts)


def listed(said: Sequence[str]) -> str:
    """The first of these in a line, and how many more there are."""
    more = f" and {len(said) - LISTED} more" if len(said) > LISTED else ""
    return ", ".join(said[:LISTED]) + more
