"""Claims compared with calls on secret numbers: each comes alone from this process, whose clock times the answer.

So nothing can be computed before it is timed, remembered, put off, or done for several calls at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import median, quantiles

from torch import Tensor

from attnsuite.benchmark.busy import Disturbance
from attnsuite.benchmark.entry import Entry, Excerpt
from attnsuite.benchmark.measure.messages import NoResult, Rows, garbage
from attnsuite.benchmark.own_clock import HELD, Asking, doubt, lasts, margin, quick, unbounded
from attnsuite.benchmark.rounds import MIN_ROUNDS
from attnsuite.cases.tensors import SECRET_NUMBERS
from attnsuite.model import STEP, Status
from attnsuite.model.limits import MAX_CLAIM_RATIO, MIN_BOUNDED_SECONDS

MOST_CALLS = 64
"""Calls in a pass at most: asking for one takes longer than a short call does."""
VERIFIED = 3
"""Outputs that are compared with the oracle. One of each pass is drawn with equal chance in advance; the quickest of
these are verified. To seem too fast it is enough to be fast in most calls of a quarter of the passes, and an exploit
that has to be wrong for that is wrong there: three outputs of any passes would let half of such exploits through. Of
training steps, whose oracle takes seconds, it is one output."""
WARM = 1
"""Calls right before inputs come, where one takes less than `MIN_BOUNDED_SECONDS`: in samples its code lies in the
caches."""
ENOUGH = 0.1
"""Seconds of claimed calls after which no more passes are made, even if there are fewer than `MIN_ROUNDS`."""
MOST_TIMES, FEWEST_PASSES = 5, 3
"""Machines are fast and slow by turns, so that an entry which seems to take too long gets so many times as many
passes, and so many at least."""
MOST_SPENT = 3.0
"""Seconds that passes took, questions without a call among them, after which there are no more: a call may take a
thousand times what it claims, and 200 MB of inputs take 0.3 s to cross to a process and a GPU."""
BESIDE = 5e-6
"""Seconds by which a call shorter than `HELD` may always be longer than claimed: in samples its code lies in the
caches, and here a question was read before it."""
SHORT_TOLERANCE = 2.0
"""How many times as long as claimed such a call may take beyond that."""
BACKWARD_TOLERANCE = 6.0
"""The same of a backward, before which comes its forward, of up to four times the backward's length."""
LONGEST_HEAD_START = 1e-3
"""Seconds that launching may be hidden at most, whatever a process says: flushing a cache of 1 GB takes less."""
MOST_DRIFT = 2.0
"""How many times as slow as in the rounds a machine may be by then before rows say that nothing bounds their times:
a claim of a fraction of the truth would be believed on a slower one."""
WAKING = 5e-3
"""Seconds that a call on several threads may take longer on new numbers: its threads have fallen asleep while these
came, and in samples are awake. One that wakes beside another that spins waits for its turn, some 4 ms. On both cores
of a virtual machine calls of 2 ms by PyTorch's kernels took 1.4 to 3.3 times as long so, on one core 1.0 to 1.4
times."""
NO_TIME = 10.0
"""A row gets no time where calls of `HELD` seconds or more took more than this many times as long as claimed,
however busy the machine is: such a time would be worthless."""


@dataclass(frozen=True)
class Terms:
    """The allowances of every claim."""

    drift: float = 1.0
    """How many times as long as in the rounds calls take."""
    idle: float = 0.0
    """Seconds that asking takes, without a call."""
    jitter: float = 0.0
    """Seconds more that it takes at times: between the quarters of its passes."""
    head_start: float = 0.0
    """Seconds of launching that are no part of a claim."""
    spread: float = 0.0
    """Seconds more that a call of the trusted entry takes at times, likewise, as a share of its claim."""
    call: float = 0.0
    """Seconds of a call of the trusted entry, as claimed."""
    disturbance: Disturbance = field(default_factory=Disturbance)
    """What else may have made calls longer."""

    def doubt(self, claim: float) -> float:
        """Seconds by which a true claim may be off on this machine now.

        On a busy one a call waits for a processor, and the longer it is the more often. The trusted entry's calls tell
        how long, in proportion where these are longer.
        """
        return max(self.jitter, self.spread * min(claim, self.call))

    def waking(self, threads: int) -> float:
        """Seconds beyond that of a call on several threads. What wakes them does so beside other work, too."""
        return WAKING + self.spread * self.call if threads > 1 else 0.0


@dataclass
class Witness:
    """The times of one entry's answers on secret numbers."""

    entry: Entry
    asking: Asking
    least: float = HELD
    """Seconds: longer calls are bounded by their time on new numbers within a share."""
    seconds: list[float] = field(default_factory=list)
    """Of an answer, in the median of each pass."""
    idle: list[float] = field(default_factory=list)
    """Of the same question without a call, in the median of each pass."""
    kept: dict[tuple[float, float], Excerpt] = field(default_factory=dict)
    """What is verified, by the seconds of this answer and the lot of its pass: the quickest are, and of equally
    quick ones those with the lowest lots, so that these are the same for all."""

    @property
    def calls(self) -> int:
        """How many calls make a pass: so few that there are `MIN_ROUNDS` passes, of each of which one answer may be
        verified, whatever the process says of how many make a sample, or of how long a call takes.
        """
        room: int = self.entry.participant.room
        longest = max(quick(self.entry.seconds), quick(self.seconds) - quick(self.idle) if self.seconds else 0.0)
        return max(1, min(self.entry.calls, MOST_CALLS, room, int(ENOUGH / MIN_ROUNDS / longest)))

    @property
    def held(self) -> bool:
        """Whether its calls are so long, and of such a kind, that their time bounds the claim within a share."""
        return not doubt(self.entry) and lasts(self.entry, self.asking) >= self.least

    @property
    def done(self) -> bool:
        """Whether there are passes enough of an entry that takes no longer than it claims."""
        return self._has(MIN_ROUNDS, ENOUGH) or self._spent > MOST_SPENT

    @property
    def heard(self) -> bool:
        """Whether there are passes enough of an entry that seems to take longer."""
        many = self._has(MOST_TIMES * MIN_ROUNDS, MOST_TIMES * ENOUGH) or self._spent > MOST_SPENT
        return many and len(self.seconds) >= FEWEST_PASSES

    @property
    def _spent(self) -> float:
        return (sum(self.seconds) + sum(self.idle)) * self.calls

    def _has(self, passes: int, claimed: float) -> bool:
        return len(self.seconds) >= passes or len(self.seconds) * self.calls * quick(self.entry.seconds) > claimed

    def make_pass(self, numbers: Sequence[int], kept: int, lot: float, rows: Rows) -> None:
        """Have inputs of these numbers answered; the answer to `kept` is verified if it is among the quickest."""
        warm = WARM if quick(self.entry.seconds) < MIN_BOUNDED_SECONDS else 0
        answer = self.entry.ask(lambda: self.entry.participant.answers(numbers, kept, warm))
        if answer is None:
            return
        self._keep(kept, answer.rows, (answer.seconds[numbers.index(kept)], lot), rows)
        self.seconds.append(median(answer.seconds))
        self.idle.append(median(answer.idle))

    def _keep(self, number: int, output: Mapping[str, Tensor], place: tuple[float, float], rows: Rows) -> None:
        try:
            self.kept[place] = Excerpt(number, {name: output[name][list(places)] for name, places in rows.items()})
        except (KeyError, IndexError, RuntimeError):  # RuntimeError: of a dtype whose rows cannot be taken
            sizes = {name: tuple(tensor.shape) for name, tensor in output.items()}
            self.entry.failed = garbage(f"tensors of sizes {sizes}")
            return
        if len(self.kept) > (1 if self.entry.direction == STEP else VERIFIED):
            del self.kept[max(self.kept)]
        self.entry.proofs = [self.kept[each] for each in sorted(self.kept)]

    def times(self, idle: float) -> float:
        """How many times as long as claimed a call takes; `idle` is the seconds of the question without one."""
        return (quick(self.seconds) - idle) / quick(self.entry.seconds)

    def bounds(self, terms: Terms) -> tuple[float, float]:
        """How many times as long as claimed a call takes, with all doubts decided for the entry, and against it.

        Waking may take this process longer than the entry that tells what asking takes, which is long beside a short
        call. But its own idle questions may have been made long on purpose: both are possible.
        """
        beside = 0.0 if self.held else BESIDE + terms.head_start
        own = quick(self.idle) if self.idle else terms.idle
        longest = terms.idle if self.held else max(terms.idle, own)
        least = self.times(longest + beside) / terms.drift
        return least, max(least, self.times(min(terms.idle, own) + beside) / min(terms.drift, MOST_DRIFT))

    def conclude(self, terms: Terms) -> bool:
        """Decide whether the claim is believed or refused; False where that takes more passes.

        It is refused where no doubt can explain the time of calls, and said not to be bounded where some could, as on a
        machine that other processes kept busy.
        """
        entry, claim = self.entry, quick(self.entry.seconds)
        least, times = self.bounds(terms)
        most = margin(entry, self.asking) if self.held else self._tolerance - 1
        if times > 1 + most and not self.heard:
            return False
        doubted = terms.doubt(claim) + terms.waking(entry.participant.threads)
        disturbed = (least - 1) * claim <= doubted
        if least > self._tolerance and (not disturbed or (self.held and least > NO_TIME)):
            self._refuse_unless(terms.disturbance, least, times)
            return True
        words = unbounded(times, margin=most)
        if self.held:
            entry.own_clock = max(times, entry.own_clock or 0.0)
            words = words or unbounded(entry.own_clock, "its samples", most)
            entry.unbounded = self._with_load(terms.disturbance, words)
        elif (why := doubt(entry)) and lasts(entry, self.asking) >= MIN_BOUNDED_SECONDS:
            entry.unbounded, entry.own_clock = why, None
        elif words:
            entry.own_clock = max(times, entry.own_clock or 0.0)
            entry.unbounded = self._with_load(terms.disturbance, words)
        entry.proved = True
        return True

    def _refuse_unless(self, disturbance: Disturbance, least: float, times: float) -> None:
        """Refuse the claim, which calls exceed by `least` times at least, unless a disturbance explains that.

        Then the time is shown and said not to be bounded; beyond `NO_TIME` it is not shown.
        """
        entry, words = self.entry, unbounded(least, margin=0.0)
        why = disturbance.explains(least, self._tolerance, entry.participant.threads)
        if not why:
            entry.refuse(f"it claims {median(entry.seconds):.3g} s for a call, but {words}")
        elif self.held and least > NO_TIME:
            entry.failed = NoResult(Status.UNSUPPORTED, f"not bounded: {why}: {words}")
        else:
            entry.own_clock, entry.unbounded = max(times, entry.own_clock or 0.0), f"{why}: {words}"
            entry.proved = True

    def _with_load(self, disturbance: Disturbance, words: str) -> str:
        """The words of a row whose time is not bounded, with the load where the machine was busy."""
        busy = disturbance.busy(self.entry.participant.threads) if words else ""
        return f"{busy}: {words}" if busy else words

    @property
    def _tolerance(self) -> float:
        """How many times as long as claimed calls may take before the claim is refused."""
        if self.held:
            return MAX_CLAIM_RATIO
        return BACKWARD_TOLERANCE if self.entry.direction == "backward" else SHORT_TOLERANCE


def prove(
    entries: Sequence[Entry],
    trusted: Entry | None,
    asking: Asking,
    rows: Rows,
    random: Random,
    disturbance: Disturbance | None = None,
) -> None:
    """Prove the claims of these entries, or refuse them.

    Passes are made as samples are, in turns, so that what disturbs one disturbs the others. The `trusted` entry, whose
    code is the suite's own, tells how much slower the machine is by then, and what asking takes; without it, the entry
    that is asked in least time does, so that none can make it longer.
    """
    tells = trusted is not None and not trusted.failed
    least = (
        HELD if tells else MIN_BOUNDED_SECONDS
    )  # without it, nothing tells a lie from a machine that is slower by now
    witnesses = {entry.name: Witness(entry, asking, least) for entry in entries}
    known = witnesses.setdefault(trusted.name, Witness(trusted, asking, least)) if trusted and tells else None
    waiting = [witnesses[entry.name] for entry in entries if not entry.failed]
    while waiting:
        kept, *others = random.sample(SECRET_NUMBERS, max(each.calls for each in waiting))
        lot = random.random()
        asked = [*waiting, *([known] if known and known not in waiting and not known.entry.failed else [])]
        for witness in random.sample(asked, len(asked)):
            numbers = [kept, *others[: witness.calls - 1]]
            witness.make_pass(random.sample(numbers, len(numbers)), kept, lot, rows)
        waiting = [each for each in waiting if not each.entry.failed]
        terms = replace(_terms(known, list(witnesses.values()), asking), disturbance=disturbance or Disturbance())
        waiting = [each for each in waiting if not (each.done and each.conclude(terms))]


def _terms(known: Witness | None, witnesses: Sequence[Witness], asking: Asking) -> Terms:
    """The terms by the trusted entry, where it was asked; no other one tells drift."""
    trusted = known if known and known.idle else None
    able = [trusted] if trusted else [each for each in witnesses if each.idle]
    if not able:
        return Terms()
    least = min(able, key=lambda each: quick(each.idle))
    idle = quick(least.idle)
    slow = quantiles(least.idle, n=4)[-1] if len(least.idle) > 1 else idle
    tells = trusted is not None and trusted.entry.direction != "backward"  # before a backward lies its forward
    drift = max(1.0, trusted.times(idle)) if trusted and tells else 1.0
    head_start = min(LONGEST_HEAD_START, trusted.entry.prepared.head_start if trusted else asking.head_start)
    if trusted is None or len(trusted.seconds) < FEWEST_PASSES:
        return Terms(drift, idle, slow - idle, head_start)
    early, _, late = quantiles(trusted.seconds, n=4)
    call = quick(trusted.entry.seconds)
    return Terms(drift, idle, slow - idle, head_start, (late - early) / call, call)
