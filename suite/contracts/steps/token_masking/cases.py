"""The cases of the contract `token_masking`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from suite import asking
from suite.asking import Call, Conventions, Reply
from suite.asking.layouts import Scattered
from suite.asking.question import Array, Generator, Inputs, Refused, as_tensor, first, generator, numbers, row, unfit
from suite.contracts.steps.token_masking import oracle
from suite.contracts.steps.token_masking.contract import POSITIONAL
from suite.contracts.steps.token_masking.oracle import Judge
from suite.judging import compare, shares
from suite.judging.shares import Share
from suite.judging.verdicts import Verdict
from suite.records import Example, Status
from suite.sources import documents

VOCABULARY, MASK_TOKEN = 1000, 103
SEED = 11
USUAL = {"vocab_size": VOCABULARY, "mask_token": MASK_TOKEN}


@dataclass(frozen=True)
class Drawn(asking.Case):
    """A masking for each seed; None goes on where the call before left the random source. `judge` says what is counted.

    Whatever is counted, the rules must hold.
    """

    name: str
    why: str
    judge: Judge
    draw: Callable[[Generator], Inputs]
    options: Mapping[str, Any] = field(default_factory=lambda: USUAL)
    seeds: tuple[int | None, ...] = (SEED,)
    dtypes: tuple[str, ...] = ("float32",)

    def calls(self, dtype: str) -> tuple[Call, ...]:
        tensors = {name: as_tensor(array, dtype) for name, array in self.draw(generator(self.name)).items()}
        return tuple(Call(tensors, self.options, POSITIONAL, seed=seed) for seed in self.seeds)

    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> None:
        return None  # what is counted depends on the answer

    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: None) -> Verdict:
        due = (2, *calls[0].tensors["tokens"].shape)
        for reply in replies:
            if complaint := unfit(reply, due, torch.int64):
                return complaint
        said = shares.complaint(self.counted(calls, replies))
        return Verdict(Status.WRONG, said, output_wrong=True) if said else Verdict(Status.PASSED)

    def counted(self, calls: tuple[Call, ...], replies: tuple[Reply, ...]) -> list[Share]:
        """The counts in these answers."""
        tokens, special = (calls[0].tensors[name].numpy() for name in POSITIONAL)
        outputs = [compare.numbers(reply.output) for reply in replies if reply.output is not None]
        maskings = list(oracle.readings(tokens, special, outputs, **self.options))
        return oracle.rules(maskings) + self.judge(maskings)

    def alike(
        self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: None
    ) -> bool:
        """By what is counted: two draws of one mistake have no more in common."""
        due = (2, *calls[0].tensors["tokens"].shape)
        if any(unfit(reply, due, torch.int64) for reply in (*replies, *theirs)):
            return False
        return shares.alike(self.counted(calls, replies), self.counted(calls, theirs))


@dataclass(frozen=True)
class Derived(Drawn):
    """A document's share of all tokens, which follows from its rates."""

    given: float = 0.0
    computed: float = 0.0

    def example(self) -> Example:
        given, computed = (first(numbers([value]), 6) for value in (self.given, self.computed))
        return row(self, "", computed, f"not printed; derived from the definition: {given}")


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *derived(), *proportions(), *special(), *selects(), *independence(), *seeds(), *vocabularies(),
        *sizes(), *layouts(), *bad_input(),
    ]  # fmt: skip


def drawn(
    random: Generator,
    *,
    items: int = 4,
    length: int = 20,
    ids: Sequence[int] = tuple(range(MASK_TOKEN)),
    flags: Callable[[int, int], Array] | None = None,
    **replaced: Array,
) -> Inputs:
    """Tokens of these ids, none of them the mask token. A name with an array replaces that tensor."""
    inputs: dict[str, Array] = {
        "tokens": random.choice(np.asarray(ids), size=(items, length)),
        "special": np.zeros((items, length), bool) if flags is None else flags(items, length),
    }
    return inputs | replaced


def asked(name: str, why: str, judge: Judge = oracle.nothing_else, **unusual: Any) -> Drawn:
    options = USUAL | {option: unusual.pop(option) for option in ("select", *USUAL) if option in unusual}
    seeds = unusual.pop("seeds", (SEED,))
    return Drawn(name, why, judge, partial(drawn, **unusual), options, seeds)


def ends(items: int, length: int) -> Array:
    """The first and the last token of each item."""
    places: Array = np.zeros((items, length), bool)
    places[:, [0, -1]] = True
    return places


def padding(items: int, length: int) -> Array:
    """Items of 20, 40, 60 tokens and so on, padded to one length."""
    lengths = 20 * (1 + np.arange(items) % (length // 20))
    places: Array = np.arange(length) >= lengths[:, None]
    return places


def staircase(items: int, length: int) -> Array:
    """Items of one token, two tokens and so on."""
    places: Array = ~np.tri(items, length, dtype=bool)
    return places


def everything(items: int, length: int) -> Array:
    return np.ones((items, length), bool)


def plain() -> Iterator[Drawn]:
    """No special tokens, 15 %."""
    yield asked("plain/usual", "items and tokens")
    yield asked("plain/square", "as many items as tokens: axes that were swapped still fit", items=12, length=12)
    yield asked("plain/two_items", "as many items as there are parts of the answer", items=2)


def proportions() -> Iterator[Drawn]:
    """How many are selected, and what becomes of them."""
    yield asked("share/usual", "15 % are selected; 80 %, 10 % and 10 % of them meet their fates", oracle.kinds,
                items=96, length=200)  # fmt: skip
    yield asked("share/fates", "80 %, 10 % and 10 % of many tokens meet their fates", oracle.kinds, items=128, length=200,
                select=1.0)  # fmt: skip


def special() -> Iterator[Drawn]:
    """Tokens that are never selected."""
    yield asked("special/ends", "separators at both ends", flags=ends)
    yield asked("special/padding", "items of several lengths", items=10, length=200, flags=padding)
    yield asked("special/square", "flags whose items and tokens could be swapped", items=20, flags=staircase)
    yield asked("special/share", "15 % of the others, not of all", oracle.selection, items=100, length=200,
                flags=padding)  # fmt: skip
    yield asked("special/mask_token", "tokens that are the mask token already are no others than the rest",
                oracle.selection, items=32, ids=(MASK_TOKEN - 1, MASK_TOKEN), select=1.0)  # fmt: skip
    yield asked("special/everything", "nothing is left to select", oracle.selection, flags=everything)


def selects() -> Iterator[Drawn]:
    """Other shares than 15 %."""
    for select, name in ((0.0, "none"), (1.0, "all")):
        yield asked(f"select/{name}", f"exactly {name}", oracle.selection, select=select)
    yield asked("select/half", "as many as not", oracle.selection, select=0.5, items=32, length=200)
    yield asked("select/few", "4 of 200", oracle.selection, select=0.02, items=96, length=200)
    yield asked("select/usual", "the default, spelled out", oracle.selection, select=0.15, items=32, length=200)


def independence() -> Iterator[Drawn]:
    """Every token draws for itself."""
    yield asked("independence/selection", "neighbours and items are selected for themselves", oracle.apart,
                items=256, length=200)  # fmt: skip
    yield asked("independence/positions", "every position is selected as often", oracle.positions, items=640)
    yield asked("independence/fates", "fates depend on neither place nor neighbour", oracle.mixed,
                items=96, length=200)  # fmt: skip


def seeds() -> Iterator[Drawn]:
    """What the random source governs."""
    yield asked("seed/repeated", "torch.manual_seed governs the draw, and the next call draws anew", oracle.repeated,
                items=32, length=200, seeds=(3, 3, 4, None), select=0.5)  # fmt: skip


def vocabularies() -> Iterator[Drawn]:
    """Where random tokens come from."""
    yield asked("vocabulary/small", "every one of 40 is as likely, the first and the last too", oracle.uniform,
                items=128, length=200, vocab_size=40, mask_token=20, ids=(17, 18, 19), select=1.0)  # fmt: skip
    yield asked("vocabulary/large", "120,000, of which every part is as likely", oracle.uniform,
                items=128, length=200, vocab_size=120_000, mask_token=103, select=1.0)  # fmt: skip
    yield asked("vocabulary/high", "the last of 120,000 are selected as often as others", oracle.selection,
                items=32, length=200, vocab_size=120_000, ids=range(119_000, 120_000), select=0.5)  # fmt: skip
    yield asked("vocabulary/last_is_mask", "the mask token is the last", items=64, vocab_size=8, mask_token=7,
                ids=range(7), select=1.0)  # fmt: skip


def sizes() -> Iterator[Drawn]:
    """Long items, one token, and none."""
    yield asked("size/long", "tokens beyond the 512th", oracle.quarters, items=32, length=1000)
    yield asked("size/one", "a single token", items=1, length=1)
    yield asked("size/no_items", "an empty batch", items=0)
    yield asked("size/no_tokens", "empty items", length=0)


def layouts() -> Iterator[asking.Case]:
    """Tokens and flags that do not lie in memory row by row."""
    yield Scattered(asked("layout/scattered", "in memory from the last axis to the first, with gaps",
                     items=8, flags=ends))  # fmt: skip


def bad_input() -> Iterator[Refused]:
    """What is not defined."""
    flags = np.zeros((4, 20), bool)
    undefined: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("rank", "a single item without its axis", {"tokens": np.zeros(20, np.int64), "special": flags[0]}, {}),
        ("shapes", "19 flags for 20 tokens", {"special": flags[:, :19]}, {}),
        ("broadcast", "flags for one item, which would broadcast", {"special": flags[:1]}, {}),
        ("flags", "special tokens marked by integers", {"special": flags.astype(np.int64)}, {}),
        ("numbers", "tokens that are no integers", {"tokens": np.zeros((4, 20))}, {}),
        ("int32", "tokens in int32", {"tokens": np.zeros((4, 20), np.int32)}, {}),
        ("beyond", "a token of 1,000 in a vocabulary of 1,000", {"ids": (999, 1000)}, {}),
        ("negative", "a token of −1", {"ids": (-1, 0)}, {}),
        ("mask_token", "a mask token of 1,000 in a vocabulary of 1,000", {}, {"mask_token": VOCABULARY}),
        ("negative_mask_token", "a mask token of −1", {}, {"mask_token": -1}),
        ("above_one", "a share of 1.5", {}, {"select": 1.5}),
        ("below_zero", "a share of −0.1", {}, {"select": -0.1}),
    ]
    for name, why, unusual, options in undefined:
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, USUAL | options)


def derived() -> Iterator[Derived]:
    """The document's rates, as shares of all tokens, and as counts of its 2,000."""
    for id, example in documents.of("token_masking").items():
        tokens = example["inputs"].get("num_tokens", 20_000)
        draw = partial(drawn, items=tokens // 200, length=200)
        parameters, expected = example["parameters"], example["expected"]
        of_all = oracle.proportions(parameters["select"])
        total = tokens if "num_tokens" in example["inputs"] else 1
        for quantity, given in expected.items():
            wanted = next(fate for fate in of_all if fate in quantity)
            yield Derived(
                f"documents/{id}/{quantity}", f"{example['document']}, section {example['section']}: {quantity}",
                oracle.in_all(wanted, given / total), draw, given=given, computed=total * of_all[wanted],
            )  # fmt: skip
