"""Claims with exact numbers: FLOPs, longest chains of products, dependence, memory, differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from itertools import combinations
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from attnsuite.contracts.sources import documents
from attnsuite.documents.claims import MeasuredValue, number
from attnsuite.documents.claims.layers import LAYERS, SIDES, STEPS, Sizes, decoder, inputs, patches, scores, vision_step
from attnsuite.implementations.attention.matmul import attention
from attnsuite.implementations.attention_scores.matmul import attention_scores
from attnsuite.implementations.kernel_pooling.eager import kernel_pooling
from attnsuite.implementations.patch_embedding.torch_nn import patch_embedding
from attnsuite.implementations.positional_encoding.eager import positional_encoding
from attnsuite.implementations.positionwise_ffn.torch_nn import positionwise_ffn
from attnsuite.implementations.recurrent_gradient.closed_form import recurrent_gradient
from attnsuite.implementations.vision_transformer.eager import softmax_attention
from attnsuite.model.statistics import exponent

# Counting

PRODUCTS = ("MmBackward", "BmmBackward", "AddmmBackward", "MvBackward", "ConvolutionBackward")
"""Prefixes of autograd's names for matrix products and convolutions."""


def flops(call: Callable[[], Any]) -> int:
    """The FLOPs of all matrix products and convolutions of a call; a multiplication with its addition counts 2."""
    with FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def longest_chain(output: Tensor, leaf: Tensor | None = None) -> int:
    """The number of products on the longest path from the output to this leaf, or to any leaf."""
    assert output.grad_fn is not None
    longest: dict[Any, float] = {}
    for node in _leaves_first(output.grad_fn):
        before = [longest[parent] for parent, _ in node.next_functions if parent is not None]
        ends = 0.0 if leaf is None or getattr(node, "variable", None) is leaf else -math.inf
        longest[node] = max([ends, *before]) + type(node).__name__.startswith(PRODUCTS)
    return int(longest[output.grad_fn])


def _leaves_first(root: Any) -> Iterable[Any]:
    """The nodes of autograd's graph, each after its inputs."""
    parents: dict[Any, set[Any]] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        parents[node] = {parent for parent, _ in node.next_functions if parent is not None}
        waiting += parents[node] - parents.keys()
    return TopologicalSorter(parents).static_order()


def dependence(layer: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """True at i, j where output i depends on input j by the Jacobian, n n. `layer` maps n vectors to n vectors."""
    jacobian: Tensor = torch.autograd.functional.jacobian(lambda x: layer(x).sum(-1), x)  # n n d
    return jacobian.abs().sum(-1) > 0


def layers_until(reached: Callable[[Tensor], bool], layer: Callable[[Tensor], Tensor], x: Tensor, most: int) -> int:
    """The number of applications of a layer until `reached` is true of its dependence; `most` + 1 if it never is.

    Dependence of several layers is the product of the dependence of one: output i of two layers depends on input j if
    output i of one depends on a position that depends on j.
    """
    once = dependence(layer, x).double()
    total = once
    for count in range(1, most + 1):
        if reached(total > 0):
            return count
        total = ((once @ total) > 0).double()
    return most + 1


class _Largest(TorchDispatchMode):
    """Records the bytes of the largest tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes: int = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        tensors = [x for x in (result if isinstance(result, tuple | list) else [result]) if isinstance(x, Tensor)]
        self.bytes = max([self.bytes, *(x.numel() * x.element_size() for x in tensors)])
        return result


def largest_bytes(call: Callable[[], Any]) -> int:
    """The bytes of the largest tensor of a call, intermediate results included."""
    largest = _Largest()
    with largest:
        call()
    return largest.bytes


def _power(sizes: Sequence[int], counts: Sequence[int], detail: str) -> MeasuredValue:
    """The power of the size by which counts grow."""
    value = exponent(sizes, counts)
    assert value is not None
    return number(value, f"{', '.join(f'{count:,}' for count in counts)} {detail}")


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(map(str, numbers))


def _largest(difference: Tensor, detail: str = "") -> MeasuredValue:
    """The largest magnitude of a difference."""
    return number(float(difference.abs().max()), detail)


def _normal(seed: int, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Standard normal tensors of these shapes."""
    random = Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=random, dtype=dtype) for shape in shapes]


# Cost of layers, models and scores

LETTERS = {"length": "n", "width": "d", "kernel": "k"}
COUNTED = {"length": (32, 64, 128, 256), "width": (32, 64, 128, 256), "kernel": (3, 5, 9, 17)}
"""The sizes for counting FLOPs; other sizes are the defaults of `Sizes`."""


def growth_of_flops(layer: str, variable: str) -> MeasuredValue:
    """The power of a size by which the FLOPs of a layer's products grow."""
    varied = [replace(Sizes(), **{variable: size}) for size in COUNTED[variable]]
    counts = [flops(partial(LAYERS[layer](sizes), inputs(sizes))) for sizes in varied]
    return _power(COUNTED[variable], counts, f"FLOPs at {LETTERS[variable]} = {_listed(COUNTED[variable])}")


def sequential_steps(layer: str) -> MeasuredValue:
    """The power of n in the longest chain of products of a layer."""
    lengths = (8, 16, 32, 64)
    sizes = [Sizes(length, width=8) for length in lengths]
    chains = [longest_chain(LAYERS[layer](size)(inputs(size).requires_grad_())) for size in sizes]
    return _power(lengths, chains, f"products in a row at n = {_listed(lengths)}")


def flops_of_images() -> MeasuredValue:
    """The power of the number of patches by which the FLOPs of a vision transformer's training step grow."""
    counts = [flops(vision_step(side)) for side in SIDES]
    return _power(list(map(patches, SIDES)), counts, f"FLOPs at sides {_listed(SIDES)}")


def flops_of_attention() -> MeasuredValue:
    """The power of the number of positions by which the FLOPs of attention's own products grow."""
    sizes = (16, 64, 256)
    counts = [flops(partial(softmax_attention, *[torch.zeros(1, 8, size, 16)] * 3)) for size in sizes]
    return _power(sizes, counts, f"FLOPs of {_listed(sizes)} positions")


def memory_of_scores() -> MeasuredValue:
    """The bytes of the largest tensor of additive scores ÷ those of dot products."""
    with torch.no_grad():
        sizes = {score: largest_bytes(scores(score)) for score in ("additive", "dot")}
    return number(sizes["additive"] / sizes["dot"], ", ".join(f"{score} {sizes[score]:,} B" for score in sizes))


def chain_of_decoders() -> MeasuredValue:
    """The longest chain of a decoder that waits for the context ÷ that of one that attends afterwards."""
    waits, follows = (longest_chain(decoder(waits)()) for waits in (True, False))
    return number(waits / follows, f"{waits} products in a row against {follows} in {STEPS} steps")


# Path lengths and visibility

LENGTHS = (9, 17, 33, 65)
KERNELS = (3, 5, 9, 17)
"""Kernel sizes with 1, 2, 4 and 8 neighbours on each side."""


def _layers(layer: str, sizes: Sizes) -> int:
    """The number of layers until every output depends on every input."""
    x = inputs(sizes, torch.float64)
    return layers_until(lambda sees: bool(sees.all()), LAYERS[layer](sizes, torch.float64), x, most=sizes.length)


def path_by_length(layer: str) -> MeasuredValue:
    """The power of n in the number of layers until all outputs depend on all inputs."""
    counts = [_layers(layer, Sizes(length, width=2)) for length in LENGTHS]
    return _power(LENGTHS, counts, f"layers at n = {_listed(LENGTHS)}")


def path_by_kernel() -> MeasuredValue:
    """The power of k in the number of convolutions until all outputs depend on all inputs."""
    counts = [_layers("convolution", Sizes(65, width=2, kernel=kernel)) for kernel in KERNELS]
    return _power(KERNELS, counts, f"layers at k = {_listed(KERNELS)}, n = 65")


def path_of_recurrence() -> MeasuredValue:
    """The power of n in the products between the first input and the last output of a recurrent layer."""
    chains = []
    for length in LENGTHS:
        sizes = Sizes(length, width=2)
        rows = [row.clone().requires_grad_() for row in inputs(sizes)]
        chains.append(longest_chain(LAYERS["recurrence"](sizes)(torch.stack(rows))[-1], rows[0]))
    return _power(LENGTHS, chains, f"products at n = {_listed(LENGTHS)}")


def convolutions_until_ends_meet() -> MeasuredValue:
    """The number of convolutions of kernel 3 until a position depends on both the first and the fifth input."""
    sizes = Sizes(length=5, width=2)
    layer, x = LAYERS["convolution"](sizes, torch.float64), inputs(sizes, torch.float64)
    return number(layers_until(lambda sees: bool((sees[:, 0] & sees[:, 4]).any()), layer, x, most=5))


def causal_dependence(on: str) -> MeasuredValue:
    """The number of outputs of causal attention that depend on a later input, or on that at their own position."""
    x = inputs(Sizes(8, width=4), torch.float64)
    sees = dependence(lambda x: attention(*[x[None, None]] * 3, is_causal=True)[0, 0], x)
    return number(int((sees.triu(1).any(1) if on == "later" else sees.diagonal()).sum()), "of 8 positions")


# Softmax, weights and values


def derivative(gap: float, dtype: str) -> MeasuredValue:
    """The largest derivative of two keys' weights with respect to their scores, which differ by `gap`."""
    scores = torch.tensor([0.0, gap], dtype=getattr(torch, dtype))
    weights: Tensor = torch.autograd.functional.jacobian(lambda x: x.softmax(-1), scores).abs().max()
    return number(float(weights), f"{weights:.2g} at a gap of {gap:g} in {dtype}")


def accepted_values(varied: str) -> MeasuredValue:
    """The number of widths, or counts, of values that the product of weights and values accepts for 3 keys."""
    (key,) = _normal(7, (3, 3))
    weights, sizes, accepted = (key @ key.mT).softmax(-1), (1, 2, 3, 5, 8), 0
    for size in sizes:
        value = torch.ones(3, size) if varied == "widths" else torch.ones(size, 3)
        try:
            accepted += (weights @ value).shape == (3, value.shape[1])
        except RuntimeError:
            continue
    return number(accepted, f"of {_listed(sizes)} for 3 keys of width 3")


def pooling(quantity: str) -> MeasuredValue:
    """A quantity of attention on 20 queries, 12 keys and 12 values of width 16."""
    query, key, value = _normal(20, (1, 1, 20, 16), (1, 1, 12, 16), (1, 1, 12, 16), dtype=torch.float64)
    if quantity == "outside":  # how far an output lies outside the range of the values
        output = attention(3 * query, key, value)
        beyond = torch.maximum(output - value.amax(-2, keepdim=True), value.amin(-2, keepdim=True) - output)
        return number(float(beyond.max()))
    if quantity == "average":  # the output of equal scores, less the mean of the values
        return _largest(attention(query * 0, key, value) - value.mean(-2, keepdim=True))
    if quantity == "query norm":  # the weights by distance, less those without the query's norm
        distance = attention_scores(query, key, score="distance")
        without = attention_scores(query, key, score="dot") - key.square().sum(-1)[..., None, :] / 2
        return _largest(distance.softmax(-1) - without.softmax(-1))
    key = key * torch.linspace(0.5, 2.0, 12, dtype=torch.float64)[:, None]  # the norms of normalised keys
    norms = functional.layer_norm(key, (16,)).norm(dim=-1)
    return number(float(norms.std() / norms.mean()))


def dropout_factor() -> MeasuredValue:
    """The factor of dropout for kept numbers at p = 0.1. At the document's p = 0.5 both rules give 2."""
    with torch.random.fork_rng():
        torch.manual_seed(123)
        dropped = functional.dropout(torch.ones(1000), 0.1)
    return number(float(dropped.max()), f"{int((dropped > 0).sum())} of 1,000 ones kept")


def _example() -> list[Tensor]:
    """The queries, keys and values of doc-000."""
    arrays = documents.examples()["doc-000/1.2-unscaled"].inputs
    return [torch.tensor(arrays[name], dtype=torch.float64) for name in ("query", "key", "value")]


def unscaled() -> MeasuredValue:
    """The difference between the product without scaling and the library's result."""
    query, key, value = _example()
    library = functional.scaled_dot_product_attention(query, key, value)
    return _largest((query @ key.mT).softmax(-1) @ value - library)


def causal_ways() -> MeasuredValue:
    """The largest difference between three ways: a mask of 1 and −∞ by hand, in the library, and the causal flag."""
    query, key, value = _example()
    keep = torch.ones(2, 2, dtype=torch.float64).tril()
    mask = keep.masked_fill(keep == 0, -math.inf)
    ways = (
        (query @ key.mT / math.sqrt(query.shape[-1]) + mask).softmax(-1) @ value,
        functional.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        functional.scaled_dot_product_attention(query, key, value, is_causal=True),
    )
    return number(max(float((first - second).abs().max()) for first, second in combinations(ways, 2)))


# Positions, kernels, blocks, gradients


def _sinusoids(rows: int) -> Tensor:
    """Sines and cosines of positions, rows 32."""
    return positional_encoding(torch.zeros(1, rows, 32, dtype=torch.float64), base=10000.0)[0]


def shifted_positions() -> MeasuredValue:
    """The difference between the encoding of i + δ and that of i, rotated by angles that depend on δ alone."""
    rows, shifts, differences = 1000, (1, 7, 100), []
    table, rates = _sinusoids(rows), 10000.0 ** (-torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    sine, cosine = table[:, ::2], table[:, 1::2]
    for shift in shifts:
        by_sine, by_cosine = (shift * rates).sin(), (shift * rates).cos()
        turned = torch.stack([sine * by_cosine + cosine * by_sine, cosine * by_cosine - sine * by_sine], -1)
        differences.append(float((turned.flatten(-2)[:-shift] - table[shift:]).abs().max()))
    return number(max(differences), f"shifts of {_listed(shifts)} over {rows:,} positions")


def reordered(with_positions: bool) -> MeasuredValue:
    """The difference between self-attention's outputs of reordered inputs and its reordered outputs."""
    random = Generator().manual_seed(8)
    x, order = torch.randn(12, 32, generator=random, dtype=torch.float64), torch.randperm(12, generator=random)
    places = _sinusoids(12) * with_positions

    def attend(x: Tensor) -> Tensor:
        x = x + places
        mixed: Tensor = (x @ x.mT / 32**0.5).softmax(-1) @ x
        return mixed

    return _largest(attend(x[order]) - attend(x)[order])


def odd_columns() -> MeasuredValue:
    """The largest number in the odd columns at position 0, where sines are 0 and cosines are 1."""
    return _largest(positional_encoding(torch.zeros(1, 1, 8))[0, 0, 1::2])


def points(random: Generator, count: int) -> tuple[Tensor, Tensor]:
    """Training points x with noisy values y, as in doc-004, section 11.2."""
    x = (5 * torch.rand(count, generator=random, dtype=torch.float64)).sort().values
    return x, 2 * x.sin() + x + torch.randn(count, generator=random, dtype=torch.float64)


GRID = torch.arange(0, 5, 0.1, dtype=torch.float64)
"""The document's queries for validation."""


def estimates(x: Tensor, y: Tensor, kernel: str = "gaussian", width: float = 1.0, queries: Tensor = GRID) -> Tensor:
    """The kernel regression at the queries."""
    return kernel_pooling(queries, x, y[:, None], kernel=kernel, width=width)[:, 0]


def kernel_regression(quantity: str) -> MeasuredValue:
    """The constant kernel's estimates less the mean, or the effect of an equal shift of queries and keys."""
    x, y = points(Generator().manual_seed(10), 40)
    if quantity == "constant":
        return _largest(estimates(x, y, "constant") - y.mean())
    return _largest(estimates(x + 3, y, queries=GRID + 3) - estimates(x, y))


def equal_rows() -> MeasuredValue:
    """The difference between the feed-forward network's outputs of equal positions."""
    w1, w2, b1, b2 = _normal(21, (8, 4), (4, 8), (4,), (8,))
    output = positionwise_ffn(torch.ones(1, 3, 8), w1, b1, w2, b2)
    return _largest(output - output[:, :1])


def channels() -> MeasuredValue:
    """The number of channels that an output of the patch embedding depends on."""
    images, weights = _normal(22, (1, 3, 4, 4), (8, 3, 4, 4))
    output = patch_embedding(images.requires_grad_(), weights, torch.zeros(8))
    (gradient,) = torch.autograd.grad(output[0, 0, 0], images)
    return number(int((gradient.abs().sum((0, 2, 3)) > 0).sum()), "of 3")


def other_samples(norm: str) -> MeasuredValue:
    """The largest change of one sample's normalised numbers when another sample of its batch changes."""
    batch = torch.tensor([[1.0, 2.0], [2.0, 3.0], [4.0, 1.0]])
    changed = batch * torch.tensor([[1.0], [1.0], [10.0]])
    before, after = (
        functional.layer_norm(x, (2,)) if norm == "layer" else functional.batch_norm(x, None, None, training=True)
        for x in (batch, changed)
    )
    return _largest((before - after)[0])


STEPS_BACK, UNITS = 8, 4
KEEP, RUNS = 0.8, 64
"""The probability that a gradient passes a step (on average 1.9 of 3.5 steps), and draws per network."""


def network(random: Generator) -> tuple[Tensor, ...]:
    """Inputs, targets, an initial state and weights for which hidden states neither vanish nor grow fast."""
    x, y = (torch.randn(STEPS_BACK, UNITS, generator=random, dtype=torch.float64) for _ in range(2))
    weights = [torch.randn(UNITS, UNITS, generator=random, dtype=torch.float64) / UNITS**0.5 for _ in range(3)]
    return (x, y, torch.zeros(UNITS, dtype=torch.float64), *weights)


def randomised(network: tuple[Tensor, ...]) -> Tensor:
    """RUNS randomised gradients of w_hh, r h h."""
    return torch.stack([recurrent_gradient(*network, keep=KEEP) for _ in range(RUNS)])


def spread_of_randomised() -> MeasuredValue:
    """The standard deviation of one network's randomised gradients ÷ the norm of the whole gradient."""
    tensors = network(Generator().manual_seed(15))
    with torch.random.fork_rng():
        torch.manual_seed(16)
        spread = randomised(tensors).std(0)
    return number(float(spread.norm() / recurrent_gradient(*tensors).norm()))


def growth_through_time(eigenvalue: float) -> MeasuredValue:
    """The norm of the 40th power of a matrix with eigenvalues of this size."""
    turn = torch.linalg.qr(_normal(17, (UNITS, UNITS), dtype=torch.float64)[0])[0]
    power = torch.linalg.matrix_power(eigenvalue * turn, 40)
    return number(float(torch.linalg.matrix_norm(power, 2)), f"eigenvalues of size {eigenvalue:g}, 40 steps")
