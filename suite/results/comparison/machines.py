"""Two sides → what is compared: each machine with itself, and with another machine what it answers alone."""

from __future__ import annotations

from collections.abc import Iterator

from attnsuite.model import Run, UsageError
from attnsuite.model.compared import Compared
from attnsuite.model.statistics import MARGIN
from attnsuite.results.comparison.outcomes import both, changes
from attnsuite.results.comparison.ratios import memories, of_one_run, times
from attnsuite.results.comparison.sides import Side
from attnsuite.results.store import Recorded
from attnsuite.results.store.place import differences, said

NOT_COMPARED = "times and memory are not compared"


def compared(old: Side, new: Side, margin: float = MARGIN) -> list[Compared]:
    """Each machine that both sides have; where each has one alone, these. UsageError where they have none in common."""
    names = [name for name in new.machines if name in old.machines]
    if not names and len(old.machines) == len(new.machines) == 1:
        return [_compared((old, next(iter(old.machines))), (new, next(iter(new.machines))), margin)]
    if not names:
        has = (f"{side.word} has {', '.join(side.machines)}" for side in (old, new))
        raise UsageError(
            f"both sides have no machine in common: {', '.join(has)}; name a machine's folder on each side"
        )
    found = [_compared((old, name), (new, name), margin) for name in names]
    alone = [note for side, other in ((old, new), (new, old)) for note in _alone(side, other)]
    return [*found[:-1], Compared(**vars(found[-1]) | {"notes": (*found[-1].notes, *alone)})]


def _alone(side: Side, other: Side) -> Iterator[str]:
    """The machines that one side alone has, in a line."""
    if names := [name for name in side.machines if name not in other.machines]:
        yield f"{side.word} alone has {', '.join(names)}"


def _compared(old: tuple[Side, str], new: tuple[Side, str], margin: float) -> Compared:
    before, after = (side.machines[name] for side, name in (old, new))
    notes = [*_differences(before, after)]
    alike = not (unlike := _unlike(before, after))
    if unlike:
        notes.insert(0, f"the machines differ ({unlike}): {NOT_COMPARED}")
    if alike and (same := of_one_run(before, after)):
        notes.append(f"{same:,} measurements are of one run on both sides, and not compared")
    known = new[0].spreads.get(new[1]) or old[0].spreads.get(old[1]) or ()
    return Compared(
        _named(*old),
        _named(*new),
        notes,
        both(before.outcomes, after.outcomes),
        changes(before.outcomes, after.outcomes),
        changes(before.measurements, after.measurements) if alike else (),
        times(before, after, known, margin) if alike else (),
        memories(before, after, margin) if alike else (),
    )


def _named(side: Side, machine: str) -> str:
    """The word, its machine, and of its newest run the time, commit and version of torch."""
    run = side.machines[machine].run
    commit, torch = run.commit and f"commit {run.commit}", f"torch {run.versions.get('torch', 'unknown')}"
    parts = (machine, run.started[:16].replace("T", " "), commit, torch)
    return f"{side.word}: {', '.join(filter(None, parts))}"


def _unlike(old: Recorded, new: Recorded) -> str:
    """How the machine of the one side differs from the other's, in words; empty where nothing tells them apart."""
    one, other = old.run.machine, new.run.machine
    return said(other, one) if any(differences(other, one)) else ""


def _differences(old: Recorded, new: Recorded) -> Iterator[str]:
    """What differs beside the rows: versions of libraries, the suite, and sources of implementations."""
    one, other = old.run, new.run
    names = dict.fromkeys((*one.versions, *other.versions))
    if changed := [name for name in names if _version(one, name) != _version(other, name)]:
        yield "; ".join(f"{name} {_version(one, name)} → {_version(other, name)}" for name in changed)
    if one.suite != other.suite:
        yield "the suite's own sources differ: a case may ask something else by the same name"


def _version(run: Run, name: str) -> str:
    return run.versions.get(name, "absent")
