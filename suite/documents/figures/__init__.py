"""The table of figures: each is a function that computes its picture with implementations of the suite."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite.contracts.sources import documents
from attnsuite.documents.figures.computing import (
    Translation,
    drawn_queries_and_keys,
    flow,
    function,
    gradient,
    normal,
    trained,
    translate,
    weights_of,
    weights_of_target,
)
from attnsuite.documents.figures.pictures import (
    Axis,
    Colours,
    Curves,
    HeatMaps,
    LineStyle,
    Panel,
    Picture,
    heat_map,
    later,
    numbered,
    rounded,
    series,
)
from attnsuite.model import UsageError
from attnsuite.report.page import plain


@dataclass(frozen=True)
class Figure:
    """A figure that can be drawn."""

    title: str
    source: str
    """The document and its section, such as `doc-004, section 11.2`."""
    picture: Callable[..., Picture]
    """Computes the picture from the figure's options."""
    takes: tuple[str, ...] = ()
    """Names of its options: sentence, attention, causal, from (the argument `checkpoint`)."""
    trains: str = ""
    """The translator that it shows, read from the cache or trained; empty for figures without one."""


_figures: dict[str, Figure] = {}


def _figure(
    title: str, source: str, takes: tuple[str, ...] = (), trains: str = "", name: str = ""
) -> Callable[..., Any]:
    """A decorator that registers a function as a figure, by default with the function's name."""

    def register(draw: Callable[..., Picture]) -> Callable[..., Picture]:
        def picture(**options: Any) -> Picture:
            return replace(draw(**options), title=title)

        _figures[name or draw.__name__] = Figure(title, source, picture, takes, trains)
        return draw

    return register


def select_figures(wanted: Sequence[str]) -> list[str]:
    """The figures with these names or shell patterns; all without a name.

    Raises UsageError, which lists the figures, for a name without a match.
    """
    names: dict[str, None] = {}
    for word in wanted or ["*"]:
        matches = [name for name in FIGURES if fnmatchcase(name, word)]
        if not matches:
            close = get_close_matches(word, list(FIGURES), n=1)
            hint = f": did you mean {close[0]}? There are" if close else "; there are"
            raise UsageError(f"unknown figure {word!r}{hint}: {', '.join(FIGURES)}")
        names |= dict.fromkeys(matches)
    return list(names)


SENTENCE = "I'm home."
"""The last sentence that the documents translate."""


def heads(translation: Translation, kind: str) -> HeatMaps:
    """Maps of the attentions whose names end in `kind`: a row per layer, a column per head."""
    layers = [weights for name, weights in translation.weights.items() if name.endswith(kind)]
    maps = [
        heat_map(matrix, f"layer {layer}, head {head}", later(matrix) if kind == ".self_attention" else None)
        for layer, weights in enumerate(layers, 1)
        for head, matrix in enumerate(weights, 1)
    ]
    across = Axis("key", translation.target if kind == ".self_attention" else translation.source)
    down = Axis("query", translation.source if kind == ".attention" else translation.target)
    largest = max(1.0, *(rounded(float(weights.max())) for weights in layers))
    return HeatMaps(translation.subtitle, tuple(maps), across, down, columns=len(layers[0]), domain=(0.0, largest))


@_figure(
    "Bahdanau attention of a translated sentence",
    "doc-004, section 11.4.3",
    ("sentence", "from"),
    "seq2seq_attention",
)
def bahdanau_attention(sentence: str = SENTENCE, checkpoint: Path | None = None) -> HeatMaps:
    """One map: steps of the decoder by words of the source and its end."""
    translation = translate("seq2seq_attention", trained("seq2seq_attention", checkpoint), sentence)
    axes = Axis("key", translation.source), Axis("query: what the decoder reads", translation.target)
    return HeatMaps(translation.subtitle, (heat_map(translation.weights["attention"][0]),), *axes, cell=36)


for _name, _kind in (("encoder", ".attention"), ("decoder", ".self_attention"), ("cross", ".cross_attention")):

    @_figure(
        f"{_name.capitalize()} attention of a translated sentence",
        "doc-004, section 11.7.6",
        ("sentence", "attention", "from"),
        "transformer",
        f"{_name}_attention",
    )
    def _of_transformer(
        sentence: str = SENTENCE, attention: str = "", checkpoint: Path | None = None, kind: str = _kind
    ) -> HeatMaps:
        """The attentions of one kind in the trained Transformer, layers by heads."""
        return heads(translate("transformer", trained("transformer", checkpoint), sentence, attention), kind)


# Backpropagation through time

TEXT = "the time machine"
"""The characters in the document's figure, one per step."""
SCHEMES: dict[str, dict[str, Any]] = {
    "full": {},
    "truncated after 4 steps": {"truncate": 4},
    "randomised, one draw, π = 0.8": {"keep": 0.8, "seed": 20},
}
"""With π = 0.8 a gradient stops at every fifth step on average. The seed gives a typical draw: 4 stops in 15 steps."""
STEPS, INPUTS, HIDDEN, OUTPUTS = 24, 4, 8, 3
RADIUS = 0.9
"""The spectral radius of the hidden weights: gradients shrink, and do not vanish within the steps."""
PROBABILITIES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Below RADIUS², 0.81, the variance grows with every step that is added."""
DRAWS = 200
"""Randomised gradients per probability: the error of their mean is 1/14 of a single one's."""


@_figure("Backpropagation through time in three schemes", "doc-004, sections 9.7.1.1 to 9.7.1.4")
def bptt_schemes() -> HeatMaps:
    """A map per scheme: rows are losses of steps, columns are hidden states that their gradients reach."""
    flows = {title: flow(len(TEXT), **scheme) for title, scheme in SCHEMES.items()}
    letters = tuple("␣" if letter == " " else letter for letter in TEXT)
    return HeatMaps(
        "by what factor gradients flow, measured with recurrent_gradient/autograd: one unit, its weight 1",
        tuple(heat_map(matrix, title) for title, matrix in flows.items()),
        columns=3,
        across=Axis("hidden state of step", letters),
        down=Axis("loss of step", letters),
        bar="factor",
        domain=(0.0, rounded(max(float(matrix.max()) for matrix in flows.values()))),
        cell=16,
        numbers=False,
    )


def _network() -> tuple[Tensor, ...]:
    """Random x, y, h0, w_hx, w_hh and w_qh."""
    sizes = [(STEPS, INPUTS), (STEPS, OUTPUTS), (HIDDEN,), (HIDDEN, INPUTS), (HIDDEN, HIDDEN), (OUTPUTS, HIDDEN)]
    draw = normal(0)
    x, y, h0, w_hx, w_hh, w_qh = (draw(*size) for size in sizes)
    return x, y, h0, w_hx / INPUTS**0.5, w_hh * RADIUS / torch.linalg.eigvals(w_hh).abs().max(), w_qh / HIDDEN**0.5


def truncated_errors() -> list[float]:
    """The error of the hidden weights' gradient truncated to 1, 2, … steps, relative to the full gradient's norm."""
    full = gradient("closed_form", *_network())
    gradients = (gradient("closed_form", *_network(), truncate=steps) for steps in range(1, STEPS + 1))
    return [float((truncated - full).norm() / full.norm()) for truncated in gradients]


def randomised_errors() -> tuple[list[float], list[float]]:
    """By probability, the root mean square error of single randomised gradients, and the error of their mean."""
    tensors, single, mean = _network(), [], []
    full = gradient("closed_form", *tensors)
    for keep in PROBABILITIES:
        gradients = torch.stack([gradient("closed_form", *tensors, seed=seed, keep=keep) for seed in range(DRAWS)])
        errors = (gradients - full) / full.norm()
        single.append(float(errors.square().sum((1, 2)).mean().sqrt()))
        mean.append(float(errors.mean(0).norm()))
    return single, mean


@_figure("Errors of truncated and randomised gradients", "doc-004, section 9.7.1")
def bptt_errors() -> Curves:
    """A panel per scheme."""
    single, mean = (
        series(name, PROBABILITIES, errors)
        for name, errors in zip(("one draw, root mean square", "mean of all draws"), randomised_errors(), strict=True)
    )
    truncated = series("truncated", range(1, STEPS + 1), truncated_errors())
    panels = (
        Panel("truncated", (truncated,), "steps that a gradient passes"),
        Panel(f"randomised, {DRAWS} draws", (single, mean), "probability π of passing a gradient on"),
    )
    size = f"{STEPS} steps, {HIDDEN} units, spectral radius {RADIUS}"
    by = f"recurrent_gradient/closed_form in float64; {size}; errors of dL/dW_hh in norms of the full gradient"
    return Curves(by, panels, 2, "", "error", size=(300, 220))


# The sentence of doc-003: its six tokens, their embeddings, and the maps of its class SelfAttention_v2

WORDS = ("Your", "journey", "starts", "with", "one", "step")
LAYERS = "doc-003/3.4.2-self-attention-v2"
"""The example with the embeddings and maps."""


def queries_and_keys() -> tuple[Tensor, Tensor]:
    """Queries and keys of the six tokens, l e each."""
    inputs: Any = documents.examples()[LAYERS].inputs
    x, query, key = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("x", "w_query", "w_key"))
    return x @ query, x @ key


def _of_sentence(by: str, maps: Mapping[str, Tensor], **options: Any) -> HeatMaps:
    """Heat maps side by side, words by words."""
    hidden = {name: later(matrix) for name, matrix in maps.items() if name != "unmasked"}
    heat_maps = tuple(heat_map(matrix, name, hidden.get(name)) for name, matrix in maps.items())
    return HeatMaps(by, heat_maps, Axis("key", WORDS), Axis("query", WORDS), columns=3, **options)


@_figure("The causal mask", "doc-003, section 3.5.1")
def causal_mask() -> HeatMaps:
    """Self-attention of six tokens before and after masking, in doc-003's two ways."""
    query, key = queries_and_keys()
    attention = function("attention/matmul")
    unmasked, causal = weights_of(attention, query, key), weights_of(attention, query, key, is_causal=True)
    maps = {"unmasked": unmasked, "masked after the softmax": unmasked.tril(), "causal: rows sum to 1 again": causal}
    return _of_sentence("attention/matmul in float64, identity as values", maps)


@_figure("Dropout on attention weights", "doc-003, section 3.5.2")
def dropout_mask() -> HeatMaps:
    """Causal weights before dropout, after it, and as the document prints them: draws depend on the platform."""
    query, key = queries_and_keys()
    attention, unit = function("attention/matmul"), torch.eye(len(WORDS), dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        dropped = attention(query, key, unit, is_causal=True, dropout_p=0.5)
    printed = documents.examples()["doc-003/3.5.2-dropout-weights"].expected["output"]
    maps = {
        "before": attention(query, key, unit, is_causal=True),
        "after, seed 123 here": dropped,
        "after, as the document prints it": torch.tensor(printed, dtype=torch.float64),
    }
    by = "attention/matmul in float64, dropout 0.5: what is kept is doubled, and rows no longer sum to 1"
    return _of_sentence(by, maps, domain=(0.0, 2.0))


# Small examples: a check of heat maps, masked softmax, scores


@_figure("Every query finds its own key", "doc-004, section 11.1.1")
def identity() -> HeatMaps:
    """One map with ones on its diagonal: at this scale, another key has weight e⁻⁵⁰."""
    unit = torch.eye(10, dtype=torch.float64)
    maps = (heat_map(weights_of(function("attention/matmul"), unit, unit, scale=50.0).round(decimals=12)),)
    by = "attention/matmul in float64; queries and keys are the same unit vectors"
    axes = numbered("key", range(10)), numbered("query", range(10))
    return HeatMaps(by, maps, *axes, cell=22)


@_figure("Masked softmax", "doc-004, section 11.3.2.1")
def masked_softmax() -> HeatMaps:
    """A row of maps per form of lengths, a column per item. The document's own scores have no seed."""
    maps = []
    for example in ("doc-004/11.3.2.1-literal-lens-1d", "doc-004/11.3.2.1-literal-lens-2d"):
        inputs = documents.examples()[example].inputs
        scores, lengths = torch.tensor(inputs["scores"], dtype=torch.float64), torch.tensor(inputs["valid_lens"])
        items = zip(function("attention_weights/eager")(scores, lengths=lengths), lengths, strict=True)
        maps += [
            heat_map(item, f"length{'s' * length.dim()} {length.tolist()}", torch.arange(4) >= length[..., None])
            for item, length in items
        ]
    by = "attention_weights/eager in float64; a key beyond the length gets weight 0, exactly"
    return HeatMaps(by, tuple(maps), numbered("key", range(4)), numbered("query", range(2)), columns=2, cell=36)


@_figure("Scaled dot products and additive scores", "doc-004, sections 11.3.3 and 11.3.4")
def scoring() -> HeatMaps:
    """The weights of dot products and of a small network, items by keys, at the sizes of the document's unseeded draw.

    Two items have ten keys of width 2, 2 and 6 of them visible. The network has queries of width 20 and 8 hidden units.
    """
    draw = normal(0)
    query, key, wide = draw(2, 1, 2), draw(2, 10, 2), draw(2, 1, 20)
    layers = draw(20, 8), draw(2, 8), draw(8)
    visible = torch.arange(10) < torch.tensor([2, 6])[:, None, None]
    dots = weights_of(function("attention/matmul"), query, key, attn_mask=visible)
    unit = torch.eye(10, dtype=torch.float64).expand(2, 10, 10)
    network = function("additive_attention/eager")(wide, key, unit, *layers, attn_mask=visible)
    hidden = ~visible[:, 0]
    maps = heat_map(dots[:, 0], "scaled dot products", hidden), heat_map(network[:, 0], "additive scores", hidden)
    by = "attention/matmul and additive_attention/eager in float64; lengths [2, 6], drawn with seed 0"
    return HeatMaps(by, maps, numbered("key", range(10)), numbered("item", range(2)), cell=36)


# Kernel regression

KERNELS = {
    "gaussian": "Gaussian",
    "boxcar": "boxcar",
    "constant": "constant",
    "triangular": "triangular (called Epanechikov there)",
}
"""The documents' kernels: names in `kernel_pooling`, and titles of panels."""
Choice = tuple[str, float]
"""A kernel and its width."""
BY_KERNEL: dict[Choice, str] = {(kernel, 1.0): title for kernel, title in KERNELS.items()}
BY_WIDTH: dict[Choice, str] = {("gaussian", width): f"σ = {width:g}" for width in (0.1, 0.2, 0.5, 1.0)}
"""Titles of panels by kernel and width: the kernel varies, or the width."""
BY = "computed by kernel_pooling/eager in float64"
SHADES = 250
"""Steps of a weight in large maps: readers distinguish fewer shades, and equal neighbours share a mark."""


@cache
def points() -> tuple[Tensor, Tensor, Tensor]:
    """The document's 40 training points x and y, and its 50 queries."""
    file = Path(documents.__file__).with_name("nadaraya_watson.json")
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    x, y, queries = (torch.tensor(data[name], dtype=torch.float64) for name in ("x_train", "y_train", "x_val"))
    return x, y, queries


def estimate(kernel: str, width: float) -> Tensor:
    """The estimate at each query, l."""
    x, y, queries = points()
    result: Tensor = function("kernel_pooling/eager")(queries, x, y[:, None], kernel=kernel, width=width)
    return result[:, 0]


def kernel_matrix(kernel: str, width: float) -> Tensor:
    """The weight of each training point for each query, s l, in the documents' layout."""
    x, _, queries = points()
    unit = torch.eye(len(x), dtype=torch.float64)
    result: Tensor = function("kernel_pooling/eager")(queries, x, unit, kernel=kernel, width=width)
    return result.T


def _regressions(choices: dict[Choice, str]) -> Curves:
    """A panel per choice: the true function dashed, the estimate, and the training points."""
    x, y, queries = points()
    true_curve = series("true function, 2 sin x + x", queries.tolist(), 2 * queries.sin() + queries, LineStyle.DASHED)
    training = series("training points", x.tolist(), y, LineStyle.POINTS)

    def panel(choice: Choice, name: str) -> Panel:
        return Panel(name, (series("estimate", queries.tolist(), estimate(*choice)), true_curve, training))

    return Curves(BY, tuple(panel(*choice) for choice in choices.items()), 4, "x", "y")


def _weight_maps(choices: dict[Choice, str]) -> HeatMaps:
    """A map per choice: training points by queries."""
    x, _, queries = points()
    matrices = {name: kernel_matrix(*choice) for choice, name in choices.items()}
    maps = tuple(heat_map((matrix * SHADES).round() / SHADES, name) for name, matrix in matrices.items())
    axes = numbered("query x", queries.tolist(), 10), numbered("training point x", x.tolist(), 8)
    domain = (0.0, rounded(max(float(matrix.max()) for matrix in matrices.values())))
    return HeatMaps(BY, maps, *axes, columns=4, domain=domain, cell=4, numbers=False)


for _name, _title, _draw in (
    ("regressions", "Regression by attention", _regressions),
    ("weights", "Weights of the training points", _weight_maps),
):
    for _varied, _words, _choices in (
        ("kernel", "four kernels", BY_KERNEL),
        ("width", "Gaussians of four widths", BY_WIDTH),
    ):
        _figure(f"{_title}: {_words}", "doc-004, section 11.2", name=f"{_varied}_{_name}")(partial(_draw, _choices))


def distances() -> Tensor:
    """u from −2.5 to 2.4 in steps of 0.1, as quotients of integers, so that 1 is exact."""
    return torch.arange(-25, 25, dtype=torch.float64) / 10


def heights(kernel: str) -> Tensor:
    """K(u), computed with kernel pooling.

    A query at u has a key at u with the value 0 and the kernel K(0) = 1, and a key at 0 with the value 1. The pooled
    mean is m = K(u) / (1 + K(u)), so K(u) = m / (1 − m).
    """
    pool, value = function("kernel_pooling/eager"), torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    means = [pool(u[None], torch.stack([u, torch.zeros_like(u)]), value, kernel=kernel) for u in distances()]
    mean = torch.cat(means)[:, 0]
    return mean / (1 - mean)


@_figure("Kernels of the distance between query and key", "doc-004, section 11.2")
def kernels() -> Curves:
    """A panel per kernel."""
    u = distances().tolist()
    panels = tuple(Panel(title, (series("K(u)", u, heights(kernel)),)) for kernel, title in KERNELS.items())
    return Curves(BY, panels, 4, "distance u", "K(u)")


# Positions

POSITIONS, WIDTH = 60, 32
"""The document's sizes."""
BY_EAGER = f"positional_encoding/eager in float64, width {WIDTH}"


def encoding() -> Tensor:
    """The positional encoding, positions by columns."""
    zeros = torch.zeros(1, POSITIONS, WIDTH, dtype=torch.float64)
    result: Tensor = function("positional_encoding/eager")(zeros)
    return result[0]


@_figure("Positional encoding, columns 6 to 9", "doc-004, section 11.6.3")
def position_curves() -> Curves:
    """One panel: sines and cosines with 0.178 and 0.1 radians per position, as in the document."""
    columns = tuple(series(f"column {c}", range(POSITIONS), encoding()[:, c]) for c in range(6, 10))
    return Curves(BY_EAGER, (Panel("", columns),), 1, "position", "encoding", size=(520, 220))


@_figure("Positional encoding", "doc-004, section 11.6.3")
def position_map() -> HeatMaps:
    """One map, in blue."""
    maps = (heat_map(encoding().round(decimals=2)),)
    axes = numbered("column", range(WIDTH), 4), numbered("position", range(POSITIONS), 10)
    options: dict[str, Any] = {"bar": "encoding", "colours": Colours.BLUES, "domain": (-1.0, 1.0), "cell": 9}
    return HeatMaps(BY_EAGER, maps, *axes, numbers=False, **options)


# The weights of any attention for a sentence

LONGEST, LONGEST_WORD = 40, 24
"""Words of a sentence that are legible on a screen, and characters of a word."""


@_figure(
    "Attention weights of a sentence",
    "doc-003, section 3.4.2, for its own sentence",
    ("sentence", "attention", "causal"),
)
def weights(sentence: str = " ".join(WORDS), attention: str = "matmul", causal: bool = False) -> HeatMaps:
    """One map, words by words. doc-003's sentence has the document's embeddings and maps, other sentences random ones.

    Raises UsageError for an empty or too long sentence, and for an attention that fails.
    """
    words = tuple(plain(word, LONGEST_WORD) for word in plain(sentence, 10_000).split())
    if not 1 <= len(words) <= LONGEST:
        raise UsageError(f"expected a sentence of 1 to {LONGEST} words, got {len(words)}")
    printed = words == WORDS
    query, key = queries_and_keys() if printed else drawn_queries_and_keys(words)
    name, matrix, remark = weights_of_target(attention, query, key, causal)
    origin = "embeddings and maps of doc-003" if printed else "embeddings and maps drawn with seed 0"
    by = "; ".join(filter(None, (f"{name}{', causal' if causal else ''}, in float32", origin, remark)))
    hidden = later(matrix) if causal else torch.zeros_like(matrix, dtype=torch.bool)
    low, high = (rounded(float(extreme)) for extreme in matrix[~hidden].aminmax())
    domain = (low, high) if low < high else (min(0.0, low), max(high, 1.0))  # the scale of the visible weights
    size: dict[str, Any] = {"cell": 30 if len(words) <= 20 else 16, "numbers": len(words) <= 20}
    axes = Axis("key", words), Axis("query", words)
    return HeatMaps(by, (heat_map(matrix, hidden=hidden),), *axes, domain=domain, **size)


FIGURES: Mapping[str, Figure] = dict(sorted(_figures.items()))
"""Every figure by its name."""
