"""How drawn masks of dropout are asked: read back exactly where they can be, counted where they must be."""

from __future__ import annotations

from suite.asking import Call, Conventions
from suite.asking.drawn import SEED, Counted, DroppedWeights, Kept
from suite.asking.due import Form, Within
from suite.asking.tensors import Array
from suite.contracts.attention.cases.case import AttentionCase, due, form
from suite.judging.patterns import Judge, Seeds
from suite.records import DTYPES


class DroppedByAttention(DroppedWeights):
    """How the kept weights are read off: values are the identity, so the output is the weights after dropout."""

    def form(self, call: Call) -> Form:
        return form(call)

    def kept(self, call: Call, output: Array) -> Array:
        kept: Array = output != 0
        return kept

    def due(self, call: Call, kept: Array, conventions: Conventions) -> Within:
        return due(call, conventions, kept)


def kept(name: str, why: str, of: AttentionCase, dtypes: tuple[str, ...] = DTYPES) -> Kept:
    """A case over identity values, whose output shows which weights were kept."""
    return Kept(of.but(name=name, why=why, dtypes=dtypes), DroppedByAttention())


def counted(
    name: str,
    why: str,
    judge: Judge,
    p: float = 0.3,
    seeds: Seeds = (SEED,),
    *,
    batch: int = 8,
    heads: int = 8,
    size: int = 20,
    dtypes: tuple[str, ...] = ("float32",),
) -> Counted:
    """Many draws at once, judged by what is counted in the patterns of kept weights."""
    of = AttentionCase(
        name, why, batch=batch, heads=heads, queries=size, keys=size, width=size, draw="uniform_identity", dropout_p=p,
        dtypes=dtypes,
    )  # fmt: skip
    return Counted(of, form, DroppedByAttention().count(judge, p, seeds), seeds)


KEPT = AttentionCase("dropout/base", "", queries=8, keys=8, width=8, draw="identity_values", dropout_p=0.4)
"""What most masks are read off: small, its values the identity."""
