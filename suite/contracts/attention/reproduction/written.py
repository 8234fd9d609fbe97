"""A failing call of attention as lines of plain torch, with the formula of the expected output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnsuite.cases import Call, Conventions, Reply
from attnsuite.cases.expected import Expected, WithinBounds
from attnsuite.cases.layouts import INPUTS
from attnsuite.cases.returned_weights import WEIGHTS_NAMES
from attnsuite.contracts.attention import feature
from attnsuite.contracts.attention.reproduction.numbers import seed_of
from attnsuite.contracts.attention.reproduction.numbers import written as as_text
from attnsuite.judging import compare

WIDEST = 110
"""Characters of a line: what terminals show without a break."""
FEW = 8
"""The numbers of an answer that are printed whole; of more, the one that is farthest off is printed."""
MOST = 4000
"""Characters of a reproduction: longer ones are no help."""
EMPTY = "weights = (scores - scores.amax(-1, True).detach().clamp_min(-1e300)).exp()"
"""A softmax whose empty rows are 0 and have gradients of 0; it is not yet normalised."""


def written(call: Call, reply: Reply, due: Expected | None, conventions: Conventions) -> Sequence[str]:
    """The lines; none where the call cannot be said in plain torch."""
    seed = seed_of(call)
    formula = _formula(call, conventions)
    if call.own_thread or call.same_storage or formula is None:
        return ()
    drawn = [] if seed is None else [f"torch.manual_seed({seed})"]
    lines = [*drawn, *_packed(_definitions(call, seed is not None))]
    lines += _printed(call, reply, due, formula) if isinstance(due, WithinBounds) else [_accepted(call)]
    return lines if sum(map(len, lines)) <= MOST else ()


def _definitions(call: Call, drawn: bool) -> Iterator[tuple[str, str]]:
    for name, tensor in call.tensors.items():
        if name in call.same_tensor[1:]:
            yield name, call.same_tensor[0]
            continue
        text = as_text(tensor, drawn)
        wants = name in call.gradient_of
        yield name, f"({text}).requires_grad_()" if wants else text
    if call.output_gradient is not None:
        yield "output_gradient", as_text(call.output_gradient, drawn)


def _packed(definitions: Iterator[tuple[str, str]]) -> list[str]:
    """As few assignments as fit their lines; what uses another name gets a line of its own."""
    rows: list[list[tuple[str, str]]] = []
    for name, text in definitions:
        together = [*rows[-1], (name, text)] if rows else []
        if together and len(_assigned(together)) <= WIDEST and text not in INPUTS:
            rows[-1] = together
        else:
            rows.append([(name, text)])
    return [_assigned(row) for row in rows]


def _assigned(row: Sequence[tuple[str, str]]) -> str:
    return f"{', '.join(name for name, _ in row)} = {', '.join(text for _, text in row)}"


def _called(call: Call) -> str:
    """The call itself, with the options that are given."""
    masks = {name: name for name in call.tensors if name not in call.positional}
    options = {name: repr(value) for name, value in call.options.items()}
    given = [*call.positional, *(f"{name}={value}" for name, value in (masks | options).items())]
    text = f"attention({', '.join(given)})"
    return text if call.grad_mode else f"torch.no_grad()(attention){text.removeprefix('attention')}"


def _formula(call: Call, conventions: Conventions) -> list[str] | None:
    """The expected output, in float64; None where a feature cannot be said in plain torch."""
    arguments = {**call.options, **call.tensors}
    texts = {"key": "key.double()", "value": "value.double()", "scores": "", "weights": "scores.softmax(-1)"}
    empty = _leaves_rows_empty(call, conventions)
    if empty:
        texts["weights"] = "weights / weights.sum(-1, True).clamp_min(1e-300)"
    for each in feature.features():
        changed = _changed(each, texts, each.value(arguments), call, conventions)
        if changed is None:
            return None
        texts = changed
        if each.stage == "source":
            texts["scores"] = f"query.double() @ {texts['key']}.mT"
    scores = f"scores = {texts['scores']}"
    weights = [EMPTY] if empty else []
    return [scores, *weights, f"expected = {texts['weights']} @ {texts['value']}"]


def _leaves_rows_empty(call: Call, conventions: Conventions) -> bool:
    """Whether some query may attend to nothing, though there are keys."""
    queries, keys = (call.tensors[name].shape[-2] for name in ("query", "key"))
    grid = feature.Grid(torch.arange(queries), torch.arange(keys), queries, keys)
    seen = feature.visible({**call.options, **call.tensors}, grid, conventions)
    return keys > 0 and seen is not None and not bool(seen.any(-1).all())


def _changed(
    each: feature.Feature, texts: dict[str, str], value: Any, call: Call, conventions: Conventions
) -> dict[str, str] | None:
    """The expressions after a feature has done its part at its stage."""
    if each.in_torch is None:
        return texts if value is None else None
    at = {"source": ("key", "value"), "score": ("scores",), "visibility": ("scores",), "weights": ("weights",)}
    found = {name: each.in_torch(texts[name], value, call, conventions) for name in at[each.stage]}
    return None if None in found.values() else {**texts, **found}  # type: ignore[dict-item]


def _printed(call: Call, reply: Reply, due: WithinBounds, formula: Sequence[str]) -> list[str]:
    """Compute the expected output, make the call, print both where they differ most."""
    called = f"{_called(call)}[0]" if reply.pair else _called(call)
    if reply.raised or reply.output is None:
        return [*formula, 'print("expected", expected.tolist())', f'print("actual", {called})']
    if due.form.unfit(reply) and not due.form.of_gradients(reply):
        return _form(called, reply, formula)
    if reply.weights is not None and not due.verdict(replace(reply, weights=None)).detail:
        return _weights(call, reply.weights_name, formula)
    name, place = _worst(reply, due)
    if name:
        both = f"({called}, expected)"
        gradients = f"(torch.autograd.grad(o, {name}, output_gradient.to(o))[0] for o in {both})"
        lines = [*formula, f"actual, expected = {gradients}"]
    else:
        lines = [*formula, f"actual = {called}"]
    at = f"[{', '.join(map(str, place))}].item()" if place else ".tolist()"
    return [*lines, f'print("actual", actual{at}, "expected", expected{at})']


def _weights(call: Call, name: str, formula: Sequence[str]) -> list[str]:
    """Of a pair whose output is right: the weights beside it, which may have a name there."""
    *steps, last = formula
    expected, _, _ = last.rpartition(" @ ")
    beside = f"[1][{name!r}]" if name in WEIGHTS_NAMES else "[1]"
    printed = 'print("actual", actual.tolist(), "expected", expected.tolist())'
    return [*steps, expected, f"actual = {_called(call)}{beside}", printed]


def _form(called: str, reply: Reply, formula: Sequence[str]) -> list[str]:
    """What is wrong about an answer beside its numbers."""
    if reply.changed:
        name = reply.changed[0]
        before = f"before, actual = {name}.clone(), {called}"
        return [before, f'print("{name} before", before.tolist(), "and after", {name}.tolist())']
    if reply.aliased:
        addresses = ", ".join(f"{each}.untyped_storage().data_ptr()" for each in ("actual", reply.aliased[0]))
        return [
            f"actual = {called}",
            f'print("addresses of the output and of {reply.aliased[0]}, which differ:", {addresses})',
        ]
    printed = 'print("actual", actual.shape, actual.dtype, "expected", expected.shape, query.dtype)'
    return [*formula, f"actual = {called}", printed]


def _accepted(call: Call) -> str:
    return f'print("actual", {_called(call)}.shape, "expected: an error")'


def _worst(reply: Reply, due: WithinBounds) -> tuple[str, tuple[int, ...]]:
    """The gradient that is wrong, empty for the output, and its worst place where it has too many numbers to print."""
    pairs = [("", reply.output, due.output, due.accept)]
    pairs += [(name, reply.gradients[name], bounded, 1.0) for name, bounded in due.gradients.items()]
    for name, tensor, bounded, accept in pairs:
        if tensor is None or tensor.numel() != bounded.value.size:
            return name, ()
        actual = compare.numbers(tensor)
        value = bounded.value.reshape(actual.shape)
        errors = compare.errors(actual, value, bounded.bound.reshape(actual.shape))
        if errors.max(initial=0.0) > accept:
            worst = np.unravel_index(int(errors.argmax()), errors.shape)
            return name, tuple(map(int, worst)) if errors.size > FEW else ()
    return "", ()
