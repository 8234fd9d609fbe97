"""The contract `attention`: what an implementation promises, decided once.

Decisions and conventions of single features are in `features/`; the page is assembled from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

from attnsuite.cases import COMMON, Call, Calls, Case, Contract, Conventions, Workload, lists_in
from attnsuite.contracts.attention.feature import adapted, arguments, features

LARGE = 2**16
"""Multiplications per operand, b·h·l·s·(e + v), beyond which a case needs the feature `large`."""

PAGE = """The contract `attention`: what an implementation promises, decided once.

    attention(query, key, value, *, {options}) -> output

    output = dropout(softmax(scale · query keyᵀ + mask)) value

Axes, in this order: `… h l e` query, `… g s e` key, `… g s v` value, `… h l v` output (l queries, s keys, e head
width, d in the literature; v value width, dv; h query heads, g key/value heads). Rank 2, 3 and 4.

{decisions}

Not tested:

{not_tested}
"""

DECISIONS = {
    "no keys": "s = 0 gives zeros; l = 0 gives an empty output",
    "inputs": "never modified; the output aliases none; strides, offsets and stride-0 expansion are honoured",
    "output": "query's dtype and device",
    "leading axes": "equal in query, key and value; broadcasting beyond that is not tested",
    "bad input": "raises before any work: mismatched widths, key/value lengths, heads that do not divide, a mask that "
    "cannot broadcast to the scores, or would enlarge them, p outside [0, 1]. A submission that accepts it fails only "
    "with --strict; one that reads or writes outside its inputs always fails",
    "overflow": "scores that overflow the dtype are wrong, and so are products of output gradients and values: float16 "
    "kernels accumulate wider",
    "rounding": "sums may run in any order, the mask included. In half types queries, keys, scores, weights and the "
    "scale may be rounded to the dtype on the way, always to the nearest; sums are made in float32. In float32 a "
    "product may be made of three products of TensorFloat-32, which is off by 2⁻²⁰ at most; one alone is not float32",
    "repeated calls": "each is right within the bounds; equal bits are required only if repeated_calls is declared "
    "as equal_bits, since atomic sums have no order",
    "NaN": "in masked keys or values: not tested",
    "random source": "torch.manual_seed; a run rejects a correct implementation with probability ≤ 1e-9",
    "backward passes": "run in any order and between other calls, in another thread too, and twice where the graph is "
    "retained; gradients are the caller's, whatever is called later. One tensor in several roles gets the sum of their "
    "gradients. A backward pass leaves the generator as it is",
    "threads": "as many as PyTorch has; concurrent calls do not affect each other, except for draws",
    "modes": "no_grad and inference_mode change no number, nor does torch's default dtype",
    "writing": "each number of an output has a place of its own, and its owner may write there",
}
"""Decisions that belong to no single feature."""

NOT_TESTED = {
    "context": "how tensors are kept for the backward pass, by save_for_backward or otherwise: what is changed in "
    "place between the two passes is the caller's own affair",
    "kept alive": "whether inputs are kept after the call: caches may do so, and `bench` measures memory",
    "p = 0": "whether the generator moves on where nothing is dropped: kernels may reserve numbers in every call",
    "double backward": "gradients of gradients: fused kernels have none",
    "autocast": "it changes the dtypes of inputs and so of the expected output",
    "statistics in half": "log-sum-exps in the half type: scores may be rounded to it, which errs as much",
    "value width 0": "has no numbers to judge; and width 0 has a scale of 1/0",
}
"""Points that are not tested, and why."""

REPEATED_CALLS = {"repeated_calls": ("within_bounds", "equal_bits")}
"""Whether the same call gives the same bits again, on one thread: a promise, which is kept or not."""

SHAPES = {
    "gradient": "gradients of query, key and value",
    "no_keys": "no keys, no queries, no items",
    "value_width": "a value width of its own",
    "rank2": "inputs of rank 2",
    "rank3": "inputs of rank 3",
    "large": "more than 65,536 multiplications per operand",
}
"""Features of the contract that belong to no single feature file."""

FEATURES = {word: says for feature in features() for word, says in feature.vocabulary.items()} | SHAPES | COMMON
CONVENTIONS = {
    point: choices for feature in features() for point, choices in feature.conventions.items()
} | REPEATED_CALLS
"""The conventions that may be declared; the first is the contract's own. empty_row may be given per kind of mask."""
ALIASES = {word: family for feature in features() for word, family in feature.aliases.items()}
"""Other names of features, each with the family of cases that is meant."""
PARAMETERS = {feature.argument.name: tuple(feature.vocabulary) for feature in features() if feature.argument}


def page() -> str:
    """The contract's documentation: its signature and every decision."""
    options = ", ".join(f"{feature.name}={feature.default}" for feature in arguments())
    decisions = {point: says for feature in features() for point, says in feature.decisions.items()} | DECISIONS
    return PAGE.format(options=options, decisions=_table(decisions), not_tested=_table(NOT_TESTED))


def _table(rows: Mapping[str, str]) -> str:
    lines = (f"{point:<16} {says}" for point, says in rows.items())
    return "\n".join(fill(line, 120, initial_indent=" " * 4, subsequent_indent=" " * 21) for line in lines)


def needs(calls: Calls) -> frozenset[str]:
    """The features that these calls need, read off the calls themselves."""
    return frozenset().union(*(_shapes(call) for call in calls), *(e.needs(call) for e in features() for call in calls))


def _shapes(call: Call) -> frozenset[str]:
    query, key, value = (call.tensors[name] for name in ("query", "key", "value"))
    products = query.numel() * key.shape[-2] + query.shape[:-1].numel() * key.shape[-2] * value.shape[-1]
    needed = {"gradient": bool(call.gradient_of), "no_keys": 0 in query.shape or 0 in key.shape,
        "value_width": value.shape[-1] != query.shape[-1], f"rank{query.dim()}": query.dim() < 4,
        "large": products > LARGE}  # fmt: skip
    return frozenset(word for word, needed in needed.items() if needed) | {str(query.dtype).removeprefix("torch.")}


def undefined_reason(case: Case, needed: frozenset[str], conventions: Conventions) -> str:
    """Why a test has no defined result under these conventions, or empty."""
    return next(filter(None, (feature.undefined_reason(case, needed, conventions) for feature in features())), "")


def shaped(text: str) -> Workload:
    """The workload that a user types: `b=4,h=32,g=8,l=2048,e=128,causal`."""
    from attnsuite.contracts.attention.workloads import shaped as read  # needs torch, which lists do without

    return read(text)


CONTRACT = Contract(
    name="attention",
    features=FEATURES,
    conventions=CONVENTIONS,
    parameter_features=PARAMETERS,
    aliases=ALIASES,
    needs=needs,
    adapt=adapted,
    undefined_reason=undefined_reason,
    strict_core=True,
    make_workload=shaped,
    known_bugs=Path(__file__).with_name("findings.toml"),
    core_dtypes={"cpu": "float32", "cuda": "float16"},  # fused CUDA kernels exist in half precision only
    **lists_in(
        __name__,
        variants="variants.variants",
        workloads="workloads.workloads",
        array="cases.combined.array",
        reproducer="reproduction.reproducing",
    )
    | {"page": page()},
)
