"""One run ↔ what history keeps of it: columns of numbers and letters, compressed to at most LARGEST bytes."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from msgspec import structs

from attnsuite.model import FAILURES, LETTERS, NOT_ASKED, Answered, Facts, Measurement, Outcome, Run, Snapshot, Timed
from attnsuite.model.statistics import Interval, interval
from attnsuite.results.store import columns, runs
from attnsuite.results.store.files import parsed
from attnsuite.results.store.typed import list_of, object_of, text_of, texts_of, typed, whole_of

FORMAT = 1
LARGEST = 100_000
"""Bytes of a file at most. 600 measurements and 41,000 answers take a third of it."""
DIGITS = (5, 4, 3)
"""To how many digits numbers are kept: the first is a tenth of the smallest difference between times that shows; fewer
where the file would be too large."""
NAMES = tuple(field.name for field in fields(Timed))
SAME = ("implementation", "contract", "workload", "dtype", "device", "threads", "direction", "cache")
"""The fields that a measurement and its snapshot share."""


def snapshot(run: Run, records: Iterable[Outcome | Measurement | object]) -> Snapshot:
    """What history keeps of a run that has these records; kinds that it does not keep are passed over."""
    there = list(records)
    timed = _timed(run, [each for each in there if isinstance(each, Measurement)])
    answered = _answered([each for each in there if isinstance(each, Outcome)])
    return Snapshot(structs.replace(run, facts=Facts()), tuple(timed), tuple(answered))


def joined(one: Snapshot, other: Snapshot) -> Snapshot:
    """All that two snapshots of one run hold. A run's rows are superseded in part by later ones, never altered."""
    timed = {each.key: each for each in (*other.timed, *one.timed)}
    timed |= {each.key: _beside(timed[each.key], each) for each in other.timed if timed[each.key].ratio is None}
    answers = {**dict(_answers(other)), **dict(_answers(one))}
    run = max(one.run, other.run, key=lambda run: (run.finished, len(run.shards)))
    return Snapshot(run, tuple(timed[key] for key in sorted(timed)), tuple(_in_contracts(answers)))


def _beside(one: Timed, other: Timed) -> Timed:
    """The one with the other's ratio: where the baseline's row is gone, only an earlier look has it."""
    ratio = {name: getattr(other, name) for name in ("baseline", "ratio", "ratio_low", "ratio_high")}
    return replace(one, **ratio)


def packed(of: Snapshot) -> bytes:
    """The snapshot as a compressed file of at most LARGEST bytes: with fewer digits, and at last with fewer of its
    measurements, where it would be larger. The same snapshot gives the same bytes.
    """
    for digits in DIGITS:
        if len(data := _packed(of, digits)) <= LARGEST:
            return data
    kept = len(of.timed)
    while len(data) > LARGEST and kept:
        kept = min(kept - 1, kept * LARGEST // len(data))
        data = _packed(replace(of, timed=of.timed[:kept], left_out=len(of.timed) - kept), DIGITS[-1])
    return data


def agree(kept: Snapshot, due: Snapshot) -> bool:
    """Whether a snapshot that was kept holds what is due; one that leaves some out, in what it has, and it is full."""
    if not kept.left_out:
        return packed(due) == packed(kept)
    there = {each.key for each in kept.timed}
    part = replace(due, timed=tuple(each for each in due.timed if each.key in there), left_out=kept.left_out)
    data = _packed(kept, DIGITS[-1])
    return len(data) > LARGEST // 2 and data == _packed(part, DIGITS[-1])


def unpacked(data: bytes) -> Snapshot:
    """The snapshot in the text of a file. Raises ValueError for what is none."""
    row = object_of("the file", parsed(data))
    if row.get("format") != FORMAT:
        raise ValueError(f"the format is {row.get('format')!r:.40} and this attnsuite reads {FORMAT}")
    run = runs.run(object_of("run", row.get("run")))
    left_out = whole_of("left_out", row.get("left_out", 0))
    answered = (each for of in list_of("answered", row.get("answered")) for each in _read_answers(of))
    return Snapshot(run, tuple(_read_timed(row.get("timed"))), tuple(answered), left_out)


def _timed(run: Run, measurements: Sequence[Measurement]) -> Iterator[Timed]:
    """Each measurement beside the baseline of its contract in the same timed table."""
    names = {name: f"{name}/{of.baseline}" for name, of in run.facts.contracts.items() if of.baseline}
    baselines = {(m.contract, *m.table): m.seconds for m in measurements if m.implementation == names.get(m.contract)}
    for each in sorted(measurements, key=lambda each: each.key):
        median, low, high = _interval(each.seconds)
        beside = baselines.get((each.contract, *each.table), ())
        ratio = _interval([math.log(mine / theirs) for mine, theirs in zip(each.seconds, beside, strict=False)])
        same = {name: getattr(each, name) for name in SAME}
        yield Timed(
            **same,
            status=str(each.status),
            rounds=len(each.seconds),
            median=median,
            low=low,
            high=high,
            baseline=names[each.contract] if beside and each.seconds else "",
            ratio=_exp(ratio[0]),
            ratio_low=_exp(ratio[1]),
            ratio_high=_exp(ratio[2]),
            peak=each.peak,
        )


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)


def _interval(samples: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    of = interval(samples) if samples else Interval(math.nan, math.nan, math.nan)
    median, low, high = (value if math.isfinite(value) else None for value in (of.median, of.low, of.high))
    return median, low, high


def _answered(outcomes: Iterable[Outcome]) -> Iterator[Answered]:
    letters = {status: letter for letter, status in LETTERS.items()}
    found = {}
    for each in outcomes:
        letter = letters[each.status]
        is_known = each.status in FAILURES and not each.fails
        place = each.contract, each.implementation, each.device
        found[(*place, f"{each.case} {each.dtype}")] = letter.upper() if is_known else letter
    yield from _in_contracts(found)


def _in_contracts(found: Mapping[tuple[str, str, str, str], str]) -> Iterator[Answered]:
    """Letters by contract, implementation, device and question → a text of letters for each implementation."""
    questions: dict[str, set[str]] = defaultdict(set)
    of: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for (contract, implementation, device, question), letter in found.items():
        questions[contract].add(question)
        of[contract, implementation, device][question] = letter
    ordered = {contract: tuple(sorted(each)) for contract, each in questions.items()}
    for (contract, implementation, device), letters in sorted(of.items()):
        text = "".join(letters.get(question, NOT_ASKED) for question in ordered[contract])
        yield Answered(implementation, contract, device, ordered[contract], text)


def _answers(of: Snapshot) -> Iterator[tuple[tuple[str, str, str, str], str]]:
    """Each answer as `_in_contracts` takes them."""
    for each in of.answered:
        for question, letter in zip(each.questions, each.letters, strict=True):
            if letter != NOT_ASKED:
                yield (each.contract, each.implementation, each.device, question), letter


def _packed(of: Snapshot, digits: int) -> bytes:
    timed = {name: [_short(getattr(each, name), digits) for each in of.timed] for name in NAMES}
    answered: dict[str, dict[str, Any]] = {}
    for each in of.answered:
        contract = answered.setdefault(each.contract, {"contract": each.contract, "questions": each.questions})
        contract.setdefault("letters", {}).setdefault(each.device, {})[each.implementation] = each.letters
    row = {"format": FORMAT, "run": runs.open_row(of.run), "timed": timed, "answered": list(answered.values())}
    row |= {"left_out": of.left_out} if of.left_out else {}
    return columns.packed([json.dumps(row, separators=(",", ":"), allow_nan=False)])


def _short(value: Any, digits: int) -> Any:
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _read_timed(found: Any) -> Iterator[Timed]:
    by_name = {name: list_of(name, values) for name, values in object_of("timed", found).items()}
    if len({len(values) for values in by_name.values()}) > 1:
        raise ValueError("the columns of timed are not of one length")
    for values in zip(*by_name.values(), strict=True):
        there = {name: value for name, value in zip(by_name, values, strict=True) if value is not None}
        yield typed(Timed, there)


def _read_answers(found: Any) -> Iterator[Answered]:
    row = object_of("answered", found)
    contract, questions = text_of("contract", row.get("contract")), texts_of("questions", row.get("questions"))
    for device, of in object_of("letters", row.get("letters")).items():
        for implementation, letters in object_of(device, of).items():
            if len(text_of(implementation, letters)) != len(questions):
                raise ValueError(f"{implementation:.80} has {len(letters)} answers to {len(questions)} questions")
            if unknown := set(letters.lower()) - {*LETTERS, NOT_ASKED}:
                raise ValueError(f"{implementation:.80} has an answer {min(unknown)!r:.40}, which no status has")
            yield Answered(implementation, contract, device, questions, letters)
