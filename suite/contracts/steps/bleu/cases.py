"""The cases of the contract `bleu`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Case, Conventions
from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.documented import CasePair, DocumentedNumbers
from attnsuite.cases.expected import Form, WithinBounds
from attnsuite.cases.formula import Formula, FormulaCase
from attnsuite.cases.tensors import Array, Generator, Inputs
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.bleu import oracle
from attnsuite.contracts.steps.bleu.contract import POSITIONAL

ROW = ("float32",)
"""The one dtype whose rows hold the cases."""
REFERENCE = (41, 42, 43, 44, 45, 46, 47, 48, 49)
"""Nine tokens, no two alike."""
EXAMPLES = ("doc-004/11.4.3-bleu", "doc-004/11.7.6-bleu")


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *brevity(), *clipping(), *order(), *lengths(), *short(), *tokens(), *sizes(),
        *layouts(), *asked.again(), *bad_input(),
    ]  # fmt: skip


class Scoring(Formula):
    """A formula of tokens, which has one dtype to ask, and whose answer is in float32."""

    def __call__(self, name: str, why: str, dtypes: tuple[str, ...] = ROW, **unusual: Any) -> FormulaCase:
        return super().__call__(name, why, ROW, **unusual)

    def given(self, name: str, why: str, inputs: Inputs, **options: Any) -> FormulaCase:
        return replace(super().given(name, why, inputs, **options), dtypes=ROW)

    def due(self, call: Call, conventions: Conventions, **told: Any) -> WithinBounds:
        arrays = {name: tensor.numpy() for name, tensor in call.tensors.items()}
        assert self.oracle is not None
        return WithinBounds(Form((), torch.float32), self.oracle(**arrays, **call.options).bounded)


def drawn(
    random: Generator,
    *,
    prediction: Sequence[int] | Array | None = None,
    reference: Sequence[int] | Array | None = REFERENCE,
    length: int = 9,
    spare: int = 2,
    swapped: bool = False,
) -> Inputs:
    """A reference of distinct tokens, where none is given, and of these all but the last `spare`, up to three wrong.

    `swapped` exchanges two neighbours. What is given is taken as it is.
    """
    due = random.permutation(10 * length)[:length] if reference is None else np.array(reference, _dtype(reference))
    if prediction is None:
        found = np.array(due[: len(due) - spare])
        found[2 : random.integers(3, 6)] = 10 * len(due) + 1000
        if swapped:
            found[:2] = found[1::-1]
    else:
        found = np.array(prediction, _dtype(prediction))
    return {"prediction": found, "reference": due}


def _dtype(given: Sequence[int] | Array) -> Any:
    return given.dtype if isinstance(given, np.ndarray) else np.int64


asked = Scoring(oracle.bleu, POSITIONAL, drawn, options=("k",), always={"k": 2})


def plain() -> Iterator[Case]:
    """A prediction that is a little shorter and has a wrong token."""
    yield asked("plain/usual", "one token of seven is wrong, and two are missing")
    yield asked("plain/equal", "the reference itself, which scores 1", prediction=REFERENCE)
    yield asked("plain/nothing", "no token in common, which scores 0", prediction=range(7))
    yield asked(
        "plain/single", "single tokens in common, and no two neighbours", prediction=(41, 1, 43, 2, 45, 3, 47, 4, 49)
    )


def brevity() -> Iterator[Case]:
    """Predictions of other lengths than the reference's."""
    yield asked("brevity/longer", "a longer prediction gains nothing", prediction=(*REFERENCE, 1, 2, 3))
    yield asked("brevity/one_shorter", "a single token is missing", prediction=REFERENCE[:8])
    yield asked("brevity/far_shorter", "two tokens of nine", prediction=REFERENCE[:2])
    yield asked("brevity/far_longer", "nine tokens of forty are right", prediction=(*REFERENCE, *range(31)))


def clipping() -> Iterator[Case]:
    """Tokens and pairs that stand several times."""
    yield asked(
        "clipping/repeated",
        "the reference has it once, the prediction three times",
        prediction=(5, 5, 5, 7),
        reference=(5, 6, 7, 8, 9),
    )
    yield asked(
        "clipping/twice",
        "the reference has it twice, the prediction three times",
        prediction=(5, 7, 5, 7, 5, 7),
        reference=(5, 7, 1, 5, 7, 2, 3),
    )
    yield asked(
        "clipping/fewer",
        "the reference has it three times, the prediction twice",
        prediction=(5, 8, 5, 9),
        reference=(5, 8, 5, 5, 1),
    )
    yield asked(
        "clipping/many",
        "70 times in place of 50",
        prediction=(1, 2, 3) * 70,
        reference=((1, 2, 3) * 50 + tuple(range(10, 70))),
    )


def order() -> Iterator[Case]:
    """The right tokens in another order."""
    yield asked("order/neighbours", "two neighbours are exchanged", swapped=True)
    yield asked("order/reversed", "every token, and no two of them in order", prediction=REFERENCE[::-1])
    yield asked("order/turned", "the last token comes first", prediction=(49, *REFERENCE[:8]))
    yield asked("order/later", "what is right stands one place later", prediction=(1, *REFERENCE[:7]))


def lengths() -> Iterator[Case]:
    """Other k."""
    for k in (1, 3, 4, 6):
        yield asked(f"k/{k}", f"n-grams of up to {k}", reference=None, length=30, spare=3, k=k)
    yield asked("k/all", "as many as there are tokens", prediction=REFERENCE, k=9)


def short() -> Iterator[Case]:
    """Predictions that have no n-gram of k tokens."""
    yield asked("short/one", "a single token, which is right", prediction=(41,))
    yield asked("short/whole", "a single token, which is the whole reference: 1", prediction=(41,), reference=(41,))
    yield asked("short/wrong", "a single token, which is wrong", prediction=(1,))
    yield asked("short/three", "three tokens, of which k is more", prediction=(41, 42, 1), k=5)
    yield asked("short/reference", "a reference that has no pair", prediction=(41, 42, 43), reference=(41,))
    yield asked("short/empty", "a prediction without tokens: 0", prediction=())


def tokens() -> Iterator[Case]:
    """Numbers that are tokens like any other."""
    yield asked("tokens/small", "0, 1, 2 and 3 in the middle, which elsewhere may mean padding, start and end",
                prediction=(9, 0, 8, 1, 7, 2, 6, 3, 5), reference=(9, 0, 8, 1, 7, 2, 6, 3, 4, 4))  # fmt: skip
    yield asked("tokens/negative", "−1 and 1 are two", prediction=(-1, 5, -3, 6), reference=(-1, 5, 3, 6, 7))
    yield asked("tokens/digits", "1 12 and 11 2 are written alike without a space",
                prediction=(1, 12, 3, 4, 11), reference=(11, 2, 3, 7, 1, 5, 12))  # fmt: skip
    yield asked("tokens/large", "numbers that single precision takes for one, and whose 32 lower bits agree",
                prediction=(2**40, 2**40 + 1, 2**33, 7), reference=(2**40 + 1, 2**40 + 2, 0, 7, 8))  # fmt: skip


def sizes() -> Iterator[Case]:
    """Many tokens."""
    yield asked(
        "size/long",
        "600 tokens, the last of which is wrong",
        reference=range(5000, 5600),
        prediction=(*range(5000, 5599), 1),
    )


def layouts() -> Iterator[Case]:
    """Tokens that do not lie one behind the other in memory."""
    few = {"prediction": (1, 2, 3, 4, 9, 9), "reference": (1, 2, 3, 4, 5, 6, 7)}
    return asked.layouts(("wrong_end", "what lies in the gaps would be the same in both", few))


def bad_input() -> Iterator[BadInputCase]:
    """What is not defined."""
    row = np.array(REFERENCE)
    rows: tuple[Row, ...] = (
        ("batch", "predictions with an axis of items", {"prediction": row[None]}),
        ("batch_of_references", "references with an axis of items", {"reference": row[None], "prediction": row}),
        ("no_axes", "a single token without its axis", {"prediction": row[0]}),
        ("numbers", "tokens that are no integers", {"prediction": row.astype(np.float32)}),
        ("int32", "tokens in int32", {"prediction": row.astype(np.int32)}),
        ("reference_int32", "a reference in int32", {"prediction": row, "reference": row.astype(np.int32)}),
        ("no_reference", "a reference without tokens", {"prediction": row, "reference": ()}),
        ("nothing_at_all", "neither has tokens", {"prediction": (), "reference": ()}),
        ("zero_k", "a k of 0", {"k": 0}),
        ("negative_k", "a k of −1", {"k": -1}),
    )
    return asked.refused(*rows)


def printed() -> Iterator[Case]:
    """The scores of the documents' translations, four of each model."""
    for example in map(documents.examples().__getitem__, EXAMPLES):
        for number, score in enumerate(example.expected["bleu"]):
            found = _printed(example, number, score)
            yield found if score else CasePair(found, _right(example, number))


def _printed(example: Excerpt, number: int, score: float) -> DocumentedNumbers:
    """One sentence; words become numbers in the order in which they come."""
    prediction, reference = example.inputs["prediction"][number], example.inputs["reference"][number].split()
    case = DocumentedNumbers(_scored(example, number, prediction, reference), example.gives("bleu", score))
    case.dtypes = ROW
    return case


def _right(example: Excerpt, number: int) -> FormulaCase:
    """The reference itself, whose score is 1."""
    reference = example.inputs["reference"][number].split()
    return _scored(example, number, reference, reference)


def _scored(example: Excerpt, number: int, prediction: Sequence[str], reference: Sequence[str]) -> FormulaCase:
    words = {word: place for place, word in enumerate(dict.fromkeys([*reference, *prediction]))}
    inputs = {"prediction": _numbers(words, prediction), "reference": _numbers(words, reference)}
    name = example.named("bleu", f" of “{example.inputs['source'][number]}”", f"bleu_{number + 1}")
    return asked.given(*name, inputs, k=example.parameters["k"])


def _numbers(words: dict[str, int], text: Sequence[str]) -> Array:
    return np.array([words[word] for word in text], np.int64)
