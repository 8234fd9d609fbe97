"""Claims are compared with answers on secret numbers, by the suite's own clock, which the tests turn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from clocks import Time
from racers import Fake, asked, entry_of, noisy, race

from attnsuite.benchmark.busy import Load
from attnsuite.benchmark.entry import ProofTimes, Sample
from attnsuite.benchmark.measure import MIN_ROUNDS
from attnsuite.benchmark.measure.messages import NoResult
from attnsuite.benchmark.own_clock import BOUNDED_FROM, RequestOverhead, call_seconds, check_samples, quick
from attnsuite.benchmark.proofs import NO_TIME, WAKING, Allowances, Prover
from attnsuite.model import Status

LOADED = Load(share=0.93, cores=2, average=14.2)
"""The load under which an honest function of 43 ms a call took 2.44 times as long on new numbers."""
BUSY = "the machine was busy (load 14 on 2 cores): "
REFUSED, TRUE = "refused", ""


@dataclass
class Racer(Fake):
    """A participant whose calls on new inputs differ from those in samples. All seconds."""

    times: float = 1.0
    """Its calls on new inputs take so many times as long,"""
    longer: float = 0.0
    """and so many seconds longer."""
    idling: float = 0.0
    """Its questions without a call take so much longer; `hidden` is how much of that its calls do not."""
    hidden: float = 0.0
    waits: tuple[float, ...] = (0.0,)
    """Seconds that are added to calls on new inputs, drawn with equal chance,"""
    idle_waits: tuple[float, ...] = (0.0,)
    """and to all questions without a call in a pass."""
    repents: bool = False
    """Whether it claims half, and the truth once samples are over."""
    draw: Random = field(default_factory=lambda: Random(3))

    def anew(self) -> float:
        return self.times * self.takes(self.turn) + self.longer - self.hidden + self.draw.choice(self.waits)

    def idles(self) -> float:
        return self.overhead + self.idling

    def proof_times(self, numbers: Any, kept: int, warm: int) -> Any:
        answer = super().proof_times(numbers, kept, warm)
        if not isinstance(answer, ProofTimes) or self.idle_waits == (0.0,):
            return answer
        return replace(answer, idle=[self.overhead + self.draw.choice(self.idle_waits)] * len(numbers))

    def sample(self, number: int, calls: int) -> Any:
        sample = super().sample(number, calls)
        half = self.repents and self.turn <= MIN_ROUNDS
        return replace(sample, seconds=sample.seconds / 2, elapsed=sample.elapsed / 2) if half else sample


def a_racer(now: Time, name: str, seconds: float, **unusual: Any) -> Racer:
    return Racer(name, now, lambda turn: seconds, **unusual)


# The table of lies: what the trusted baseline and the other one do, and the verdict on the other one

SHORT, LONG = 1e-4, 5e-3
LIES: list[tuple[str, float, dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    # why, seconds of a call, the baseline, the other one, the table: the verdict
    ("a tenth is claimed of a short call", SHORT, {}, {"times": 10.0}, {}, REFUSED),
    ("a third is claimed of a short call", SHORT, {}, {"times": 3.0}, {}, REFUSED),
    ("a third, forward and backward", SHORT, {}, {"times": 3.0}, {"direction": "forward_backward"}, REFUSED),
    ("half, of a remembered output", LONG, {}, {"times": 2.0}, {}, REFUSED),
    ("half, until it is asked again", LONG, {}, {"repents": True}, {}, REFUSED),
    ("somewhat longer is said", LONG, {}, {"times": 1.3}, {}, "1.30"),
    ("a short one within its tolerance", SHORT, {}, {"times": 1.9}, {}, TRUE),
    ("the forward before a backward", LONG, {"times": 5.0}, {"times": 5.0}, {"direction": "backward"}, "its forward"),
    ("the same as a forward", LONG, {}, {"times": 5.0}, {}, REFUSED),
    ("twelve times as a backward", SHORT, {"times": 5.0}, {"times": 12.0}, {"direction": "backward"}, REFUSED),
    ("flushed between calls", LONG, {}, {}, {"cache": "cold"}, "the cache is flushed"),
    # threads that have fallen asleep
    ("one thread needs no waking", 2e-3, {}, {"longer": 4e-3}, {}, REFUSED),
    ("two threads wake", 2e-3, {"threads": 2}, {"longer": 4e-3, "threads": 2}, {}, "3.00"),
    ("no thread wakes so late", 2e-3, {"threads": 2}, {"longer": WAKING + 1e-3, "threads": 2}, {}, REFUSED),
    # a machine that is slower by then, as the baseline tells
    *(
        (f"{drift} times as slow, {seconds} s", seconds, {"times": drift}, {"times": 5.0}, {}, verdict)
        for seconds in (SHORT, LONG)
        for drift, verdict in ((1.0, REFUSED), (2.0, REFUSED), (5.0, "2.50" if seconds == LONG else "2.48"))
    ),
    ("ten times the drift", LONG, {"times": 5.0}, {"times": 50.0}, {}, REFUSED),
    # asking, and waits
    ("asking takes longer for it alone", SHORT, {}, {"idling": 5e-4}, {}, "5.9"),
    ("asking is made to look long", 2e-3, {}, {"times": 4.0, "idling": 5e-4, "hidden": 5e-4}, {}, REFUSED),
    ("the same of a short call is said", 2e-4, {}, {"times": 4.0, "idling": 5e-4, "hidden": 5e-4}, {}, "3.9"),
    ("the baseline is woken later", SHORT, {"idling": 5e-4}, {"times": 4.0}, {}, "3.9"),
    ("calls of the baseline wait seldom", 4e-3, {"waits": (0, 0, 4e-4)}, {"times": 1.9}, {}, REFUSED),
    ("calls of the baseline wait long", 4e-3, {"waits": (0, 0, 8e-3)}, {"times": 1.9}, {}, "1.90"),
    ("questions of the baseline vary little", SHORT, {"idle_waits": (0, 1e-5)}, {"times": 3.0}, {}, REFUSED),
    ("questions of the baseline vary much", SHORT, {"idle_waits": (0, 1e-3)}, {"times": 3.0}, {}, "took"),
    # a load of other processes
    ("a load explains it", 0.043, {}, {"times": 2.44}, {"load": LOADED}, f"{BUSY}calls on new inputs took 2.44"),
    ("of a short call as well", SHORT, {}, {"times": 2.44}, {"load": LOADED}, f"{BUSY}calls on new inputs took 2."),
    ("no load explains that", LONG, {}, {"times": 300.0}, {"load": LOADED}, REFUSED),
    ("a load, beyond ten times", LONG, {}, {"times": 10.4}, {"load": LOADED}, "unsupported"),
]


ROWS = [row[1:] for row in LIES]


@pytest.mark.parametrize(("seconds", "base", "other", "table", "verdict"), ROWS, ids=[row[0] for row in LIES])
def test_a_claim_has_its_verdict(
    now: Time, seconds: float, base: dict[str, Any], other: dict[str, Any], table: dict[str, Any], verdict: str
) -> None:
    trusted, liar = a_racer(now, "base", seconds, **base), a_racer(now, "liar", seconds, shipped=False, **other)

    honest, entry = race(trusted, liar, calls=10, **table)

    assert (honest.failed, honest.concluded) == (None, True)
    if verdict in (REFUSED, "unsupported"):
        assert str(entry.failed).startswith(f"{verdict}: ")
        assert "calls on new inputs took " in str(entry.failed)
        assert not entry.concluded
    else:
        assert (entry.failed, entry.concluded) == (None, True)
        assert verdict in entry.unbounded if verdict else not entry.unbounded


@pytest.mark.parametrize("seconds", [2e-6, 2e-5, 2e-4, 3e-4, 0.001, 0.0049, 0.09, 0.3, 16.0])
@pytest.mark.parametrize("overhead", [2e-5, 0.02])
def test_true_claims_are_proved_and_long_ones_bounded(now: Time, seconds: float, overhead: float) -> None:
    (entry,) = race(a_racer(now, "base", seconds, overhead=overhead))

    assert (entry.failed, entry.concluded, entry.unbounded) == (None, True, "")
    assert entry.own_clock == pytest.approx(1.0)


@pytest.mark.parametrize("seconds", [SHORT, LONG])
def test_only_the_suite_s_own_code_tells_that_a_machine_is_slower(now: Time, seconds: float) -> None:
    """Two submissions are refused together, unless a yardstick of the suite's own is as slow."""

    def proved(reference: Racer | None) -> list[bool]:
        racers = [a_racer(now, name, seconds, times=times, shipped=False) for name, times in (("a", 4.0), ("b", 5.0))]
        return [entry.concluded for entry in race(*racers, calls=10, reference=reference)]

    assert proved(None) == [False, False]
    assert proved(a_racer(now, "reference", seconds)) == [False, False]
    assert proved(a_racer(now, "reference", seconds, times=4.0)) == [True, True]


@pytest.mark.parametrize(("budget", "samples"), [(0.5, 3), (3.5, 4)])
def test_a_yardstick_is_sampled_no_longer_than_the_others(now: Time, budget: float, samples: int) -> None:
    slow = a_racer(now, "reference", 1.0)
    (entry,) = race(Fake("base", now, noisy(1), shipped=False), reference=slow, budget=budget)

    assert (entry.stopped, len(asked(slow.log, "sample"))) == ("budget", samples)

    dies = Fake("reference", now, says={("sample", 1): NoResult(Status.CRASHED, "it died")})
    (entry,) = race(Fake("base", now, shipped=False), reference=dies)
    assert (entry.concluded, len(dies.log)) == (True, 1), "nor does it hold them up"


@pytest.mark.parametrize(("disturbed", "believed"), [(0.7, True), (0.8, False)])
def test_passes_between_two_turns_of_other_processes_are_enough(now: Time, disturbed: float, believed: bool) -> None:
    class Waits(Fake):
        passes = 0

        def proof_times(self, numbers: Any, kept: int, warm: int) -> Any:
            self.passes += 1
            answer = super().proof_times(numbers, kept, warm)
            waited = 0.02 * (self.passes % 10 < 10 * disturbed)
            return replace(answer, seconds=[each + waited for each in answer.seconds])

    _, entry = race(a_racer(now, "base", SHORT), Waits("other", now, lambda turn: SHORT, shipped=False), calls=10)

    assert entry.concluded == believed


def sample(seconds: float, calls: int = 5) -> Sample:
    """A true sample of so many calls."""
    return Sample(seconds, 0.0, 0.0, calls * seconds + 0.001, 0.001)


@pytest.mark.parametrize(("seconds", "margin"), [(2e-3, 1.1), (1e-3, 1.1), (5e-4, 1.2), (2.5e-4, 1.4), (1e-3, NO_TIME)])
def test_a_row_says_so_beyond_ten_per_cent_or_0_1_ms(now: Time, seconds: float, margin: float) -> None:
    """And beyond ten times it has no time on any machine."""
    for times in (margin - 0.02, margin + 0.02):
        entry = entry_of(Fake("a", now), calls=5)
        entry.seconds, entry.samples = [seconds] * 12, [sample(seconds)] * 12
        witness = Prover(entry, RequestOverhead(seconds=0.001), BOUNDED_FROM, [1e-4 + seconds * times] * 60)

        assert witness.conclude(Allowances(idle=1e-4, jitter=1.0)), "such a machine explains everything"
        assert (entry.failed is not None) == (times > NO_TIME)
        assert entry.failed or bool(entry.unbounded) == (times > min(margin, 2.0))


# Samples


@pytest.mark.parametrize("seconds", [2e-5, 0.0049, 0.3, 16.0])
@pytest.mark.parametrize("direction", ["forward", "forward_backward"])
def test_half_of_what_samples_take_is_not_believed(now: Time, seconds: float, direction: str) -> None:
    liar = Fake("liar", now, lambda turn: seconds, claims=0.5)

    base, entry = race(Fake("base", now), liar, calls=max(1, round(0.005 / seconds)), direction=direction)

    assert (base.failed, base.concluded) == (None, True)
    assert "for the calls in its samples, but by the suite's own clock they took" in str(entry.failed)


def claimed(claim: float, wall: float, *idles: float) -> list[Sample]:
    return [Sample(claim, 0.0, 0.0, wall, idle) for idle in (idles or (0.001,) * 12)]


def test_making_asking_look_long_gains_nothing_and_a_busy_machine_is_no_lie() -> None:
    honest, liar, busy = (entry_of(Fake(name, Time())) for name in ("honest", "liar", "busy"))
    honest.samples, liar.samples = claimed(0.005, 0.006), claimed(0.005, 0.011, *[0.006] * 12)
    busy.samples = claimed(0.002, 0.007, 0.001, 0.001, 0.001, 0.001, 0.009, 0.009)

    for entry in (honest, liar):
        check_samples(entry, RequestOverhead.of([honest, liar]))
    check_samples(busy, RequestOverhead.of([busy]))

    assert (honest.failed, honest.own_clock) == (None, pytest.approx(1.0))
    assert str(liar.failed).startswith("refused: it claims 0.06 s for the calls in its samples")
    assert (busy.failed, busy.unbounded) == (None, "its samples took 3.00 times as long")


@pytest.mark.parametrize(
    ("claim", "wait", "turns", "believed"),
    [(0.1, 0.0, range(4, 11), False), (1.0, 0.5, range(5), True), (1.0, 0.5, range(1000), False)],
    ids=["seven of twelve lie", "four of twelve are disturbed", "all are disturbed"],
)
def test_what_most_long_samples_claim_has_to_be_true(
    now: Time, claim: float, wait: float, turns: range, believed: bool
) -> None:
    class Wavering(Fake):
        def sample(self, number: int, calls: int) -> Any:
            sampled = super().sample(number, calls)
            odd = replace(sampled, seconds=claim * sampled.seconds, elapsed=sampled.elapsed + wait)
            return odd if self.turn in turns else sampled

    _, entry = race(Fake("base", now), Wavering("a", now, lambda turn: 0.2))

    assert (entry.failed is None) == believed
    assert believed or "for the calls in its samples, but by the suite's own clock they took" in str(entry.failed)


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_one_that_stalls_between_its_calls_is_out(now: Time, cache: str) -> None:
    class Staller(Fake):
        def sample(self, number: int, calls: int) -> Any:
            self.now.now += 3.0
            return super().sample(number, calls)

    _, entry = race(Fake("base", now), Staller("a", now), cache=cache)

    says = "its samples took 12 s; it claims 0.02 s for the calls in them"
    assert entry.failed == (NoResult(Status.REFUSED, says) if cache == "hot" else None), "a flush takes long too"


@pytest.mark.parametrize("cache", ["hot", "cold"])
def test_a_call_lasts_what_the_suite_s_own_clock_says_if_that_is_more(cache: str) -> None:
    liar = entry_of(Fake("liar", Time()), calls=2, cache=cache)
    liar.seconds, liar.samples = [0.0004] * 12, claimed(0.0004, 0.0031)

    assert call_seconds(liar, RequestOverhead(seconds=0.001)) == pytest.approx(0.00105 if cache == "hot" else 0.0004)


def test_the_lower_quartile_is_never_above_what_is_quoted() -> None:
    draw = Random(1)
    claims = [draw.lognormvariate(0, 1) for _ in range(40)]

    assert quick(claims) < sorted(claims)[20]
    assert quick([3.0]) == 3.0
    assert RequestOverhead.of([]).seconds == 0.0


# On a GPU launching is hidden behind the flush of the cache

FLUSH, COPY = 40e-6, 12e-6
"""Seconds of a flush, and of copying what a call has returned."""


def on_gpu(name: str, now: Time, device: float, launching: float, claims: float | None = None, **more: Any) -> Fake:
    """An entry whose calls keep the device and its process busy for so long, and which claims what events tell."""
    told, wall = max(device, launching - FLUSH) if claims is None else claims, max(device, launching)
    settings = {"head_start": FLUSH, "overhead": COPY, "witnessed": False} | more
    return Fake(name, now, lambda _: wall, told / wall, **settings)


@pytest.mark.parametrize("device", [5e-6, 2e-5, 4e-4])
@pytest.mark.parametrize("launching", [3e-6, 35e-6, 70e-6])
def test_honest_kernels_are_proved_however_short_they_are(now: Time, device: float, launching: float) -> None:
    racers = on_gpu("base", now, 3e-5, 60e-6), on_gpu("fused", now, device, launching)

    assert [(entry.failed, entry.concluded) for entry in race(*racers, calls=10, cache="cold")] == [(None, True)] * 2


@pytest.mark.parametrize(
    ("base", "liar"),
    [
        ({}, {"device": 2e-4, "launching": 35e-6}),
        ({}, {"device": 5e-3, "launching": 35e-6, "head_start": 1.0, "shipped": False}),
        ({"shipped": False}, {"device": 5e-3, "launching": 35e-6, "head_start": 1.0, "shipped": False}),
        ({"head_start": 0.0}, {"device": 5e-6, "launching": 70e-6, "head_start": 0.0}),
    ],
    ids=["longer than a flush", "a head start of its own", "without a trusted one", "nothing is flushed"],
)
def test_work_that_is_longer_than_launching_can_hide_is_refused(
    now: Time, base: dict[str, Any], liar: dict[str, Any]
) -> None:
    launching = 6e-6 if base.get("head_start") == 0.0 else 60e-6
    racers = on_gpu("base", now, 3e-5, launching, **base), on_gpu("liar", now, claims=5e-6, **liar)

    assert str(race(*racers, calls=10, cache="cold")[1].failed).startswith("refused: it claims 5e-06 s for a call")
