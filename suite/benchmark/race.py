"""Rounds: in each, every entry takes one sample, in random order, so that a disturbance affects all entries.

Dependent rounds widen the intervals, so that more rounds follow, within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from attnsuite.benchmark.busy import Disturbance, Load
from attnsuite.benchmark.entry import Entry
from attnsuite.benchmark.measure import CHECK_EVERY, MIN_ROUNDS, NARROW_INTERVAL, is_narrow
from attnsuite.benchmark.measure.messages import Rows
from attnsuite.benchmark.own_clock import RequestOverhead, check_samples
from attnsuite.benchmark.proofs import prove
from attnsuite.cases.tensors import ROUND_NUMBERS
from attnsuite.model.faster import compare
from attnsuite.model.statistics import interval, rounds_needed

FEWEST_OF_SLOW = 3
"""The fewest rounds of an entry, however slow it is."""
LONGEST_RACE = 45.0
"""Seconds of timed calls after which an entry may stop with fewer rounds than a verdict needs: twelve rounds of a call
of 5 s, by twelve implementations, would take 12 minutes."""
SAME_CALLS_WITHIN = 2
"""Entries within this factor of the baseline make as many calls in a sample as it does. Beyond it, samples would
differ too much in length."""


def race(
    entries: Sequence[Entry],
    baseline: str,
    rows: Rows,
    budget: float,
    random: Random,
    reference: Entry | None = None,
    load: Callable[[], Load] = Load,
) -> int:
    """Sample all entries in rounds until intervals are narrow or budgets are spent; then prove the claimed times.

    `budget` is seconds of timed calls for each. Every entry stores these `rows` of one round, the same for all, chosen
    at random. The `reference` is sampled with the others, but is neither compared nor proved. `load` measures the load
    by other processes. Returns the number of rounds.
    """
    _align_calls(entries, baseline)
    fewest = max(MIN_ROUNDS, rounds_needed(len(entries) - 1))
    racing = list(entries)
    taken = 0
    while racing:
        taken += 1
        extra = [reference] if reference and _is_sampled_again(reference, budget) else []
        _round([*racing, *extra], keep=random.random() * taken < 1, rows=rows, random=random)  # reservoir sampling
        racing = [entry for entry in racing if not entry.failed]
        _stop(racing, taken, fewest, baseline, budget)
        if taken >= fewest and any(entry.stopped and entry.name == baseline for entry in entries):
            for entry in racing:  # no samples are left to pair with
                entry.stopped = entry.stopped or "budget"
        racing = [entry for entry in racing if not entry.stopped]
    own = (entry for entry in entries if entry.name == baseline and entry.participant.shipped)
    trusted = next(own, reference if reference and reference.seconds else None)
    overhead = RequestOverhead.of(entries)
    disturbance = Disturbance(load, trusted.seconds if trusted else ())
    for entry in entries:
        check_samples(entry, overhead, disturbance)
    prove([entry for entry in entries if not entry.failed], trusted, overhead, rows, random, disturbance)
    return taken


def _is_sampled_again(reference: Entry, budget: float) -> bool:
    """Whether the reference is sampled again: `FEWEST_OF_SLOW` times at least, then within the budget."""
    return not reference.failed and (len(reference.seconds) < FEWEST_OF_SLOW or reference.spent <= budget)


def _round(racing: Sequence[Entry], *, keep: bool, rows: Rows, random: Random) -> None:
    """Take one sample of each, in random order."""
    number = random.choice(ROUND_NUMBERS)
    for entry in random.sample(racing, len(racing)):
        entry.take_turn(random)
        entry.sample(number)
        if keep and not entry.failed:
            entry.keep(number, rows)


def _stop(racing: Sequence[Entry], taken: int, fewest: int, baseline: str, budget: float) -> None:
    """Record why sampling of an entry stops, for those that have enough samples."""
    narrow = taken >= fewest and taken % CHECK_EVERY == 0 and _are_narrow(racing, baseline)
    for entry in racing:
        enough = taken >= fewest or (taken >= FEWEST_OF_SLOW and entry.spent > LONGEST_RACE)
        if narrow:
            entry.stopped = "narrow"
        elif enough and entry.spent > budget:
            entry.stopped = "budget"


def _align_calls(entries: Sequence[Entry], baseline: str) -> None:
    """Give all entries that are about as fast as the baseline as many calls in a sample.

    The first call of a sample takes longest: identical implementations with three and four calls would differ.
    """
    for base in (entry.calls for entry in entries if entry.name == baseline):
        for entry in entries:
            if max(base, entry.calls) <= SAME_CALLS_WITHIN * min(base, entry.calls):
                entry.calls = base


def _are_narrow(racing: Sequence[Entry], baseline: str) -> bool:
    """Whether every interval is narrow: of the ratio to the baseline, or of the time without a baseline."""
    samples = {entry.name: entry.seconds for entry in racing}
    base = samples.pop(baseline, None)
    if base is None or not samples:
        return all(is_narrow(interval(seconds)) for seconds in (samples.values() if base is None else [base]))
    return all(
        ratio.low > 0 and ratio.high / ratio.low < (1 + NARROW_INTERVAL) ** 2
        for ratio in compare(base, samples).values()
    )
