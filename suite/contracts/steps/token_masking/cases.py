"""The cases of the contract `token_masking`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Calls, Case
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import example, first_numbers
from attnsuite.cases.expected import Form
from attnsuite.cases.formula import Formula, FormulaCase
from attnsuite.cases.layouts import out_of_order
from attnsuite.cases.random_cases import SEED, CountedCase
from attnsuite.cases.tensors import Array, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.token_masking import oracle
from attnsuite.contracts.steps.token_masking.contract import POSITIONAL
from attnsuite.contracts.steps.token_masking.oracle import Judge
from attnsuite.judging.patterns import Seeds
from attnsuite.judging.shares import Statistic
from attnsuite.model import Example

VOCABULARY, MASK_TOKEN = 1000, 103
CALLS = 160
"""So many that 80 % of them and all of them can be told apart by chance: 32 are missing, and 4 standard deviations are 20."""


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *independence(), *proportions(), *derived(), *special(), *selects(), *seeds(), *vocabularies(),
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


masked = Formula(
    None,
    POSITIONAL,
    drawn,
    options=("select", "vocab_size", "mask_token"),
    always={"vocab_size": VOCABULARY, "mask_token": MASK_TOKEN},
)


def asked(name: str, why: str, judge: Judge = oracle.nothing_else, seeds: Seeds = (SEED,), **unusual: Any) -> Masked:
    """A masking for each seed. Whatever `judge` counts, the rules must hold."""
    return Masked(masked(name, why, ("float32",), **unusual), judge, seeds)


class Masked(CountedCase):
    """Maskings of the same tokens, one for each seed."""

    def __init__(self, of: FormulaCase, judge: Judge, seeds: Seeds = (SEED,)) -> None:
        def count(calls: Calls, outputs: Sequence[Array]) -> Sequence[Statistic]:
            tokens, special = (calls[0].tensors[name].numpy() for name in POSITIONAL)
            maskings = list(oracle.readings(tokens, special, outputs, **of.options))
            return oracle.rules(maskings) + judge(maskings)

        super().__init__(of, _form, count, seeds)


class Derived(Masked):
    """A document's share of all tokens, which follows from its rates."""

    def __init__(self, of: FormulaCase, judge: Judge, excerpt: Excerpt, quantity: str, computed: float) -> None:
        super().__init__(of, judge)
        self.place, self.given, self.computed = excerpt.at(quantity), excerpt.expected[quantity], computed
        self.source = self.place

    def example(self) -> Example:
        given, computed = (first_numbers(numbers([value]), 6) for value in (self.given, self.computed))
        return example(self.name, self.place, "", computed, f"not printed; derived from the definition: {given}")


def _form(call: Call) -> Form:
    return Form((2, *call.tensors["tokens"].shape), torch.int64)


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


def plain() -> Iterator[Case]:
    """No special tokens, 15 %."""
    yield asked("plain/usual", "items and tokens")
    yield asked("plain/square", "as many items as tokens: axes that were swapped still fit", items=12, length=12)
    yield asked("plain/two_items", "as many items as there are parts of the answer", items=2)


def proportions() -> Iterator[Case]:
    """How many are selected, and what becomes of them."""
    yield asked("share/usual", "15 % are selected; 80 %, 10 % and 10 % of them meet their fates", oracle.kinds,
                items=272, length=200)  # fmt: skip
    yield asked("share/fates", "80 %, 10 % and 10 % of many tokens meet their fates", oracle.kinds, items=460, length=200,
                select=1.0)  # fmt: skip


def special() -> Iterator[Case]:
    """Tokens that are never selected."""
    yield asked("special/ends", "separators at both ends", flags=ends)
    yield asked("special/padding", "items of several lengths", items=10, length=200, flags=padding)
    yield asked("special/square", "flags whose items and tokens could be swapped", items=20, flags=staircase)
    yield asked("special/share", "15 % of the others, not of all", oracle.selection, items=140, length=200,
                flags=padding)  # fmt: skip
    yield asked("special/mask_token", "tokens that are the mask token already are no others than the rest",
                oracle.selection, items=44, ids=(MASK_TOKEN - 1, MASK_TOKEN), select=1.0)  # fmt: skip
    yield asked("special/everything", "nothing is left to select", oracle.selection, flags=everything)


def selects() -> Iterator[Case]:
    """Other shares than 15 %."""
    for select, name in ((0.0, "none"), (1.0, "all")):
        yield asked(f"select/{name}", f"exactly {name}", oracle.selection, select=select)
    yield asked("select/half", "as many as not", oracle.selection, select=0.5, items=44, length=200)
    yield asked("select/few", "4 of 200", oracle.selection, select=0.02, items=136, length=200)
    yield asked("select/usual", "the default, spelled out", oracle.selection, select=0.15, items=44, length=200)


def independence() -> Iterator[Case]:
    """Every token draws for itself. These come before shares, by which one draw for many looks like another share."""
    yield asked("independence/calls", "one token of a call shares its fate with the next no more than by chance",
                oracle.of_calls, range(CALLS), items=1, length=20, select=1.0)  # fmt: skip
    yield asked("independence/selection", "neighbours and items are selected for themselves", oracle.apart,
                items=360, length=200)  # fmt: skip
    yield asked("independence/positions", "every position is selected as often", oracle.positions, items=900)
    yield asked("independence/fates", "fates depend on neither place nor neighbour", oracle.mixed,
                items=136, length=200)  # fmt: skip


def seeds() -> Iterator[Case]:
    """What the random source governs."""
    yield asked("seed/repeated", "torch.manual_seed governs the draw, and the next call draws anew", oracle.repeated,
                items=44, length=200, seeds=(3, 3, 4, None), select=0.5)  # fmt: skip


def vocabularies() -> Iterator[Case]:
    """Where random tokens come from."""
    yield asked("vocabulary/small", "every one of 40 is as likely, the first and the last too", oracle.uniform,
                items=180, length=200, vocab_size=40, mask_token=20, ids=(17, 18, 19), select=1.0)  # fmt: skip
    yield asked("vocabulary/large", "120,000, of which every part is as likely", oracle.uniform,
                items=180, length=200, vocab_size=120_000, mask_token=103, select=1.0)  # fmt: skip
    yield asked("vocabulary/high", "the last of 120,000 are selected as often as others", oracle.selection,
                items=44, length=200, vocab_size=120_000, ids=range(119_000, 120_000), select=0.5)  # fmt: skip
    yield asked("vocabulary/last_is_mask", "the mask token is the last", items=64, vocab_size=8, mask_token=7,
                ids=range(7), select=1.0)  # fmt: skip


def sizes() -> Iterator[Case]:
    """Long items, one token, and none."""
    yield asked("size/long", "tokens beyond the 512th", oracle.quarters, items=44, length=1000)
    yield asked("size/one", "a single token", items=1, length=1)
    yield asked("size/no_items", "an empty batch", items=0)
    yield asked("size/no_tokens", "empty items", length=0)


def layouts() -> Iterator[Case]:
    """Tokens and flags that do not lie in memory row by row."""
    yield out_of_order(asked("layout/scattered", "in memory from the last axis to the first, with gaps",
                     items=8, flags=ends))  # fmt: skip


def bad_input() -> Iterator[BadInputCase]:
    """What is not defined."""
    flags = np.zeros((4, 20), bool)
    return masked.refused(
        ("rank", "a single item without its axis", {"tokens": np.zeros(20, np.int64), "special": flags[0]}),
        ("shapes", "19 flags for 20 tokens", {"special": flags[:, :19]}),
        ("broadcast", "flags for one item, which would broadcast", {"special": flags[:1]}),
        ("flags", "special tokens marked by integers", {"special": flags.astype(np.int64)}),
        ("numbers", "tokens that are no integers", {"tokens": np.zeros((4, 20))}),
        ("int32", "tokens in int32", {"tokens": np.zeros((4, 20), np.int32)}),
        ("beyond", "a token of 1,000 in a vocabulary of 1,000", {"ids": (999, 1000)}),
        ("negative", "a token of −1", {"ids": (-1, 0)}),
        ("mask_token", "a mask token of 1,000 in a vocabulary of 1,000", {"mask_token": VOCABULARY}),
        ("negative_mask_token", "a mask token of −1", {"mask_token": -1}),
        ("above_one", "a share of 1.5", {"select": 1.5}),
        ("below_zero", "a share of −0.1", {"select": -0.1}),
    )


def derived() -> Iterator[Derived]:
    """The document's rates, as shares of all tokens, and as counts of its 2,000."""
    for excerpt in documents.of("token_masking"):
        tokens = excerpt.inputs.get("num_tokens", 28_000)
        of_all = oracle.proportions(excerpt.parameters["select"])
        total = tokens if "num_tokens" in excerpt.inputs else 1
        for quantity, given in excerpt.expected.items():
            wanted = next(fate for fate in of_all if fate in quantity)
            of = masked(*excerpt.named(quantity), ("float32",), items=tokens // 200, length=200)
            yield Derived(of, oracle.in_all(wanted, given / total), excerpt, quantity, total * of_all[wanted])
