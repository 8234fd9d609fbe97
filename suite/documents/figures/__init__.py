"""The table of figures: a function each, which computes its picture from implementations of the suite."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnsuite import registry
from attnsuite.contracts.sources import documents
from attnsuite.documents.figures.pictures import (
    Axis,
    Colours,
    Curves,
    HeatMaps,
    Panel,
    Picture,
    Way,
    heat_map,
    numbered,
    rounded,
    series,
)
from attnsuite.documents.learning import Translator, translator
from attnsuite.documents.learning.data import BEGIN, END, greedy
from attnsuite.model import UsageError
from attnsuite.registry import Loaded
from attnsuite.registry.loading import as_plug, told
from attnsuite.registry.plugging import gaps
from attnsuite.report.cells import plain


@dataclass(frozen=True)
class DrawnFigure:
    """A figure that can be drawn."""

    title: str
    source: str
    """The document and its section, such as `doc-004, section 11.2`."""
    picture: Callable[..., Picture]
    """Computes the picture, with the options that the figure takes."""
    takes: tuple[str, ...] = ()
    """The options that it takes, by name: sentence, attention, causal, seed."""
    trains: str = ""
    """The translator that it shows, which is trained unless the cache has it; empty for figures without one."""


_figures: dict[str, DrawnFigure] = {}


def _figure(title: str, source: str, takes: tuple[str, ...] = (), trains: str = "") -> Callable[[Any], Any]:
    """Registers a function as the figure of its name."""

    def register(picture: Callable[..., Picture]) -> Callable[..., Picture]:
        _figures[picture.__name__] = DrawnFigure(title, source, picture, takes, trains)
        return picture

    return register


def chosen(wanted: Sequence[str]) -> list[str]:
    """The figures of these names or shell patterns, each once; all of them without a name.

    Raises UsageError, which lists the figures, for a name that matches none.
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


# Implementations, and the weights of an attention

Function = Callable[..., Any]


def implementation(name: str, contract: str | None = None) -> Loaded:
    """The implementation that a target names. Raises UsageError unless it is exactly one that can be called."""
    found = registry.find([name], contract)
    if len(found) > 1:
        names = ", ".join(declaration.full_name for declaration in found)
        raise UsageError(f"{name!r} means {len(found)} implementations: {names}")
    loaded = registry.load(found[0])
    if not isinstance(loaded, Loaded):
        raise UsageError(f"nothing can be drawn with {found[0].full_name}: {loaded.reason}")
    return loaded


@cache
def function(name: str) -> Function:
    """The function of an implementation that ships, by its full name."""
    return implementation(name).function


def weights_of(attention: Function, query: Tensor, key: Tensor, **options: Any) -> Tensor:
    """The weights of an attention, … l s, for queries … l e and keys … s e: its output for the identity as values.

    Values are given e columns at a time, because some attentions need values as wide as queries. Raises ValueError for
    an output that is no tensor of the right shape.
    """
    width, keys = query.shape[-1], key.shape[-2]
    identity, columns = torch.eye(keys, -(-keys // width) * width, dtype=query.dtype), []
    for start in range(0, keys, width):
        value = identity[:, start : start + width].expand(*key.shape[:-1], width).contiguous()
        output = attention(query, key, value, **options)
        if not isinstance(output, Tensor):
            raise ValueError(f"it returned {type(output).__name__}, expected a tensor")
        if output.shape != query.shape:
            raise ValueError(f"it returned shape {tuple(output.shape)}, expected {tuple(query.shape)}")
        columns.append(output)
    return torch.cat(columns, -1)[..., :keys]


def _normal(seed: int) -> Callable[..., Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return lambda *shape: torch.randn(shape, generator=draw, dtype=torch.float64)


# Translations: the attention of trained translators

SENTENCE = "I'm home."
"""The last of the sentences that the documents translate."""
_trained = cache(translator)


@dataclass(frozen=True)
class Translation:
    """A sentence, its translation, and by name the weights of each attention, heads queries keys, without padding."""

    source: tuple[str, ...]
    """Its tokens, `<eos>` last."""
    target: tuple[str, ...]
    """The decoder's input: `<bos>`, then its own words."""
    weights: Mapping[str, Tensor]
    by: str
    """The translator, in words."""

    @property
    def subtitle(self) -> str:
        return f"{' '.join(self.source[:-1])} → {' '.join(self.target[1:])}; {self.by} in float32"


def translate(name: str, by: Translator, sentence: str, attention: str = "") -> Translation:
    """Translate with a translator and a named attention backend, and return the weights.

    Raises UsageError for unknown words, a sentence that is too long, and an attention that raises.
    """
    words = by.source.known(sentence)
    if not 1 <= len(words) < by.steps:
        raise UsageError(f"expected a sentence of 1 to {by.steps - 1} tokens, got {len(words)}: {sentence!r:.80}")
    backend: dict[str, Any] = {"attention": as_plug(implementation(attention, "attention"))} if attention else {}
    full_name = f"{name}/eager{f'+{attention}' if attention else ''}"
    with told(f"{full_name} gave no weights:"):
        translation, weights = _watched(function(f"{name}/eager"), by, words, backend)
    source, target = (*words, END), (BEGIN, *translation)
    lengths = {"source": len(source), "target": len(target)}
    return Translation(source, target, {key: _cut(of, key, lengths) for key, of in weights.items()}, full_name)


def _watched(
    factory: Function, by: Translator, words: list[str], backend: Mapping[str, Any]
) -> tuple[list[str], Mapping[str, Tensor]]:
    """The words of the translation, and the weights of all attentions while the decoder reads them."""
    source, lengths = by.source.rows([words], by.steps)
    numbers = greedy(factory(by.config, by.weights, **backend), source, lengths, by.target, by.steps)
    translation = by.target.sentence(numbers[0].tolist())
    begun = torch.tensor([[by.target[BEGIN], *numbers[0, : len(translation)].tolist()]])
    _, weights = factory(by.config, by.weights, **backend, need_weights=True)(source, lengths, begun)
    return translation, weights


def _cut(weights: Tensor, name: str, lengths: Mapping[str, int]) -> Tensor:
    """The weights of the one sentence without its padding, heads queries keys: weights without heads have one."""
    queries = lengths["source" if name.startswith("encoder") else "target"]
    keys = lengths["target" if name.endswith("self_attention") else "source"]
    return (weights[0] if weights.dim() == 4 else weights)[:, :queries, :keys]


def heads(title: str, of: Translation, kind: str) -> HeatMaps:
    """A row of maps for each layer, a column for each head, of the attentions whose names end in `kind`."""
    layers = [weights for name, weights in of.weights.items() if name.endswith(kind)]
    return HeatMaps(
        title,
        of.subtitle,
        tuple(
            heat_map(matrix, f"layer {layer}, head {head}")
            for layer, weights in enumerate(layers, 1)
            for head, matrix in enumerate(weights, 1)
        ),
        columns=len(layers[0]),
        across=Axis("key", of.target if kind == ".self_attention" else of.source),
        down=Axis("query", of.source if kind == ".attention" else of.target),
        domain=(0.0, max(1.0, *(rounded(float(weights.max())) for weights in layers))),
    )


@_figure(
    "Bahdanau attention of a translated sentence", "doc-004, section 11.4.3", ("sentence", "seed"), "seq2seq_attention"
)
def bahdanau_attention(sentence: str = SENTENCE, seed: int = 0) -> HeatMaps:
    """One map: steps of the decoder by words of the source and its end."""
    of = translate("seq2seq_attention", _trained("seq2seq_attention", seed), sentence)
    maps = (heat_map(of.weights["attention"][0]),)
    across, down = Axis("key", of.source), Axis("query: what the decoder reads", of.target)
    return HeatMaps(_figures["bahdanau_attention"].title, of.subtitle, maps, across, down, cell=36)


def _of_transformer(kind: str, title: str) -> None:
    """A figure of the attentions of one kind in the trained Transformer, layers by heads."""

    def picture(sentence: str = SENTENCE, attention: str = "", seed: int = 0) -> HeatMaps:
        return heads(title, translate("transformer", _trained("transformer", seed), sentence, attention), f".{kind}")

    name = {"self_attention": "decoder_attention", "attention": "encoder_attention"}.get(kind, kind)
    takes = ("sentence", "attention", "seed")
    _figures[name] = DrawnFigure(title, "doc-004, section 11.7.6", picture, takes, "transformer")


_of_transformer("attention", "Encoder attention of a translated sentence")
_of_transformer("self_attention", "Decoder attention of a translated sentence")
_of_transformer("cross_attention", "Cross attention of a translated sentence")

# Backpropagation through time

TEXT = "the time machine"
"""The first characters of the book in the document's figure, one per step."""
SCHEMES: dict[str, dict[str, Any]] = {
    "full": {},
    "truncated after 4 steps": {"truncate": 4},
    "randomised, one draw, π = 0.8": {"keep": 0.8, "seed": 20},
}
"""With π = 0.8 a gradient is cut at every fifth step in the mean. The seed is of a typical draw: 4 cuts in 15 steps."""
STEPS, INPUTS, HIDDEN, OUTPUTS = 24, 4, 8, 3
RADIUS = 0.9
"""The spectral radius of the hidden weights: gradients fade, and do not vanish within the steps."""
PROBABILITIES = (0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Below RADIUS², 0.81, the variance grows with every step that is added."""
DRAWS = 200
"""Randomised gradients for each probability: unbiased, the error of their mean is a fourteenth of one's."""


def gradient(name: str, *tensors: Tensor, seed: int | None = None, **options: Any) -> Tensor:
    """A quantity of an implementation's gradient; its random numbers are drawn from the seed."""
    with torch.random.fork_rng(devices=[]):
        if seed is not None:
            torch.manual_seed(seed)
        found: Tensor = function(f"recurrent_gradient/{name}")(*tensors, **options)
    return found


def flow(steps: int, seed: int | None = None, **scheme: Any) -> Tensor:
    """The factor by which the gradient of each step's loss reaches each step's hidden state, losses by states.

    The network has one unit and the weight 1, so that only the scheme changes the flow. A row is the gradient of the
    hidden states where all steps but one are predicted without an error.
    """
    zeros, zero, one = torch.zeros(steps, 1).double(), torch.zeros(1).double(), torch.ones(1, 1).double()
    rows = []
    for step in range(steps):
        target = zeros.clone()
        target[step] = -steps  # the loss is a mean over steps: its gradient at this one is then 1
        tensors = (zeros, target, zero, one, one, one)
        rows.append(gradient("autograd", *tensors, seed=seed, of="d_hidden", **scheme)[:, 0])
    return torch.stack(rows)


@_figure("Backpropagation through time in three schemes", "doc-004, sections 9.7.1.1 to 9.7.1.4")
def bptt_schemes() -> HeatMaps:
    """A map for each scheme: from the loss of a step, down, to the hidden states that its gradient reaches, across."""
    flows = {title: flow(len(TEXT), **scheme) for title, scheme in SCHEMES.items()}
    letters = tuple("␣" if letter == " " else letter for letter in TEXT)
    return HeatMaps(
        _figures["bptt_schemes"].title,
        "by what factor gradients flow, measured with recurrent_gradient/autograd: one unit, its weight 1",
        tuple(heat_map(matrix, title) for title, matrix in flows.items()),
        columns=3,
        across=Axis("hidden state of step", letters),
        down=Axis("loss of step", letters),
        bar="factor",
        domain=(0.0, rounded(max(float(matrix.max()) for matrix in flows.values()))),
        cell=16,
        written=False,
    )


def _network() -> tuple[Tensor, ...]:
    """x, y, h0, w_hx, w_hh and w_qh, drawn."""
    sizes = [(STEPS, INPUTS), (STEPS, OUTPUTS), (HIDDEN,), (HIDDEN, INPUTS), (HIDDEN, HIDDEN), (OUTPUTS, HIDDEN)]
    draw = _normal(0)
    x, y, h0, w_hx, w_hh, w_qh = (draw(*size) for size in sizes)
    return x, y, h0, w_hx / INPUTS**0.5, w_hh * RADIUS / torch.linalg.eigvals(w_hh).abs().max(), w_qh / HIDDEN**0.5


def truncated_errors() -> list[float]:
    """The error of the truncated gradient of the hidden weights, in norms of the full one, for 1, 2, … steps."""
    full = gradient("closed_form", *_network())
    found = (gradient("closed_form", *_network(), truncate=steps) for steps in range(1, STEPS + 1))
    return [float((truncated - full).norm() / full.norm()) for truncated in found]


def randomised_errors() -> tuple[list[float], list[float]]:
    """The root mean square error of one randomised gradient, and the error of the mean of all, by probability."""
    tensors, single, mean = _network(), [], []
    full = gradient("closed_form", *tensors)
    for keep in PROBABILITIES:
        drawn = torch.stack([gradient("closed_form", *tensors, seed=seed, keep=keep) for seed in range(DRAWS)])
        errors = (drawn - full) / full.norm()
        single.append(float(errors.square().sum((1, 2)).mean().sqrt()))
        mean.append(float(errors.mean(0).norm()))
    return single, mean


@_figure("Errors of truncated and randomised gradients", "doc-004, section 9.7.1")
def bptt_errors() -> Curves:
    """A panel for each scheme."""
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
    return Curves(_figures["bptt_errors"].title, by, panels, 2, "", "error", size=(300, 220))


# The sentence of doc-003: its six tokens, their embeddings, and the maps of its class SelfAttention_v2

WORDS = ("Your", "journey", "starts", "with", "one", "step")
LAYERS = "doc-003/3.4.2-self-attention-v2"
"""The example whose embeddings and maps are used."""


def queries_and_keys() -> tuple[Tensor, Tensor]:
    """Queries and keys of the six tokens, l e each."""
    inputs: Any = documents.examples()[LAYERS].inputs
    x, query, key = (torch.tensor(inputs[name], dtype=torch.float64) for name in ("x", "w_query", "w_key"))
    return x @ query, x @ key


def _of_sentence(title: str, by: str, maps: Mapping[str, Tensor], **options: Any) -> HeatMaps:
    """Maps side by side, words by words."""
    drawn = tuple(heat_map(matrix, name) for name, matrix in maps.items())
    return HeatMaps(title, by, drawn, Axis("key", WORDS), Axis("query", WORDS), columns=3, **options)


def causal_weights() -> dict[str, Tensor]:
    """The weights of all tokens, those with later ones struck out, and those of causal attention."""
    query, key = queries_and_keys()
    attention = function("attention/matmul")
    unmasked, causal = weights_of(attention, query, key), weights_of(attention, query, key, is_causal=True)
    return {"unmasked": unmasked, "masked after the softmax": unmasked.tril(), "causal: rows sum to 1 again": causal}


@_figure("The causal mask", "doc-003, section 3.5.1")
def causal_mask() -> HeatMaps:
    """Self-attention of six tokens before and after masking, in both of doc-003's ways."""
    by = "attention/matmul in float64, identity as values"
    return _of_sentence(_figures["causal_mask"].title, by, causal_weights())


def dropout_weights() -> dict[str, Tensor]:
    """Causal weights, what our draw leaves of them, and what the document prints: draws depend on the platform."""
    query, key = queries_and_keys()
    attention, identity = function("attention/matmul"), torch.eye(len(key), dtype=torch.float64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(123)
        dropped = attention(query, key, identity, is_causal=True, dropout_p=0.5)
    printed = documents.examples()["doc-003/3.5.2-dropout-weights"].expected["output"]
    return {
        "before": attention(query, key, identity, is_causal=True),
        "after, seed 123 here": dropped,
        "after, as the document prints it": torch.tensor(printed, dtype=torch.float64),
    }


@_figure("Dropout on attention weights", "doc-003, section 3.5.2")
def dropout_mask() -> HeatMaps:
    """Causal weights before and after half of them are dropped."""
    by = "attention/matmul in float64, dropout 0.5: what is kept is doubled, and rows no longer sum to 1"
    return _of_sentence(_figures["dropout_mask"].title, by, dropout_weights(), domain=(0.0, 2.0))


# Small examples: a check of heat maps, masked softmax, scores


@_figure("Every query finds its own key", "doc-004, section 11.1.1")
def identity() -> HeatMaps:
    """One map, with ones on its diagonal: at this scale, any other key has weight e⁻⁵⁰."""
    unit = torch.eye(10, dtype=torch.float64)
    maps = (heat_map(weights_of(function("attention/matmul"), unit, unit, scale=50.0).round(decimals=12)),)
    by = "attention/matmul in float64; queries and keys are the same unit vectors"
    axes = numbered("key", range(10)), numbered("query", range(10))
    return HeatMaps(_figures["identity"].title, by, maps, *axes, cell=22)


def masked_weights(example: str) -> tuple[Tensor, Tensor]:
    """The weights of an example of masked softmax, b l s, and its lengths, b or b l."""
    inputs = documents.examples()[f"doc-004/11.3.2.1-literal-lens-{example}"].inputs
    scores, lengths = torch.tensor(inputs["scores"], dtype=torch.float64), torch.tensor(inputs["valid_lens"])
    return function("attention_weights/eager")(scores, lengths=lengths), lengths


@_figure("Masked softmax", "doc-004, section 11.3.2.1")
def masked_softmax() -> HeatMaps:
    """A row of maps for each way to give lengths, an item in each column. The document's own scores have no seed."""
    items = [pair for example in ("1d", "2d") for pair in zip(*masked_weights(example), strict=True)]
    maps = tuple(heat_map(item, f"length{'s' * of.dim()} {of.tolist()}") for item, of in items)
    by = "attention_weights/eager in float64; a key beyond the length gets weight 0, exactly"
    axes = numbered("key", range(4)), numbered("query", range(2))
    return HeatMaps(_figures["masked_softmax"].title, by, maps, *axes, columns=2, cell=36)


def score_weights() -> tuple[Tensor, Tensor]:
    """The weights of dot products and of a small network, items by keys, at the document's sizes.

    Two items with ten keys of width 2, of which the first 2 and 6 are visible; the network has queries of width 20 and
    8 hidden units. The document draws without a seed.
    """
    normal = _normal(0)
    query, key, wide = normal(2, 1, 2), normal(2, 10, 2), normal(2, 1, 20)
    maps = normal(20, 8), normal(2, 8), normal(8)
    visible = torch.arange(10) < torch.tensor([2, 6])[:, None, None]
    dots = weights_of(function("attention/matmul"), query, key, attn_mask=visible)
    unit = torch.eye(10, dtype=torch.float64).expand(2, 10, 10)
    network: Tensor = function("additive_attention/eager")(wide, key, unit, *maps, attn_mask=visible)
    return dots[:, 0], network[:, 0]


@_figure("Scaled dot products and additive scores", "doc-004, sections 11.3.3 and 11.3.4")
def scoring() -> HeatMaps:
    """A map for each way to score."""
    dots, network = score_weights()
    maps = heat_map(dots, "scaled dot products"), heat_map(network, "additive scores")
    by = "attention/matmul and additive_attention/eager in float64; lengths [2, 6], drawn with seed 0"
    axes = numbered("key", range(10)), numbered("item", range(2))
    return HeatMaps(_figures["scoring"].title, by, maps, *axes, cell=36)


# Kernel regression

KERNELS = {
    "gaussian": "Gaussian",
    "boxcar": "boxcar",
    "constant": "constant",
    "triangular": "triangular (called Epanechikov there)",
}
"""The documents' kernels by their names in `kernel_pooling`, and the titles of their panels."""
Choice = tuple[str, float]
"""A kernel and its width."""
BY_KERNEL: dict[Choice, str] = {(kernel, 1.0): title for kernel, title in KERNELS.items()}
BY_WIDTH: dict[Choice, str] = {("gaussian", width): f"σ = {width:g}" for width in (0.1, 0.2, 0.5, 1.0)}
"""The panels of the figures, by what varies."""
BY = "computed by kernel_pooling/eager in float64"
SHADES = 250
"""Steps of a weight in large maps: a reader distinguishes fewer shades, and equal neighbours share a mark."""


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
    found: Tensor = function("kernel_pooling/eager")(queries, x, y[:, None], kernel=kernel, width=width)
    return found[:, 0]


def kernel_matrix(kernel: str, width: float) -> Tensor:
    """The weight of each training point for each query, s l, as the documents lay them out."""
    x, _, queries = points()
    unit = torch.eye(len(x), dtype=torch.float64)
    found: Tensor = function("kernel_pooling/eager")(queries, x, unit, kernel=kernel, width=width)
    return found.T


def _regressions(title: str, choices: dict[Choice, str]) -> Curves:
    """A panel for each choice: the truth dashed, the estimate, and the training points."""
    x, y, queries = points()
    truth = series("truth, 2 sin x + x", queries.tolist(), 2 * queries.sin() + queries, Way.DASHED)
    training = series("training points", x.tolist(), y, Way.POINTS)

    def panel(choice: Choice, name: str) -> Panel:
        return Panel(name, (series("estimate", queries.tolist(), estimate(*choice)), truth, training))

    return Curves(title, BY, tuple(panel(*choice) for choice in choices.items()), 4, "x", "y")


def _weight_maps(title: str, choices: dict[Choice, str]) -> HeatMaps:
    """A map for each choice: training points by queries."""
    x, _, queries = points()
    matrices = {name: kernel_matrix(*choice) for choice, name in choices.items()}
    return HeatMaps(
        title,
        BY,
        tuple(heat_map((matrix * SHADES).round() / SHADES, name) for name, matrix in matrices.items()),
        columns=4,
        across=numbered("query x", queries.tolist(), 10),
        down=numbered("training point x", x.tolist(), 8),
        domain=(0.0, rounded(max(float(matrix.max()) for matrix in matrices.values()))),
        cell=4,
        written=False,
    )


for _name, _draw, _choices, _title in (
    ("kernel_regressions", _regressions, BY_KERNEL, "Regression by attention: four kernels"),
    ("width_regressions", _regressions, BY_WIDTH, "Regression by attention: Gaussians of four widths"),
    ("kernel_weights", _weight_maps, BY_KERNEL, "Weights of the training points: four kernels"),
    ("width_weights", _weight_maps, BY_WIDTH, "Weights of the training points: Gaussians of four widths"),
):
    _figures[_name] = DrawnFigure(_title, "doc-004, section 11.2", partial(_draw, _title, _choices))


def distances() -> Tensor:
    """u from −2.5 to 2.4 in steps of 0.1; whole numbers are divided, so that 1 is exactly 1."""
    return torch.arange(-25, 25, dtype=torch.float64) / 10


def heights(kernel: str) -> Tensor:
    """K(u), computed from pooling itself.

    A query at u has two keys: one at u with the value 0, whose kernel is K(0) = 1, and one at 0 with the value 1. Their
    mean is m = K(u) / (1 + K(u)), so that K(u) is m / (1 − m).
    """
    pool, value = function("kernel_pooling/eager"), torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    means = [pool(u[None], torch.stack([u, torch.zeros_like(u)]), value, kernel=kernel) for u in distances()]
    mean = torch.cat(means)[:, 0]
    return mean / (1 - mean)


@_figure("Kernels of the distance between query and key", "doc-004, section 11.2")
def kernels() -> Curves:
    """A panel for each kernel."""
    at = distances().tolist()
    panels = tuple(Panel(title, (series("K(u)", at, heights(kernel)),)) for kernel, title in KERNELS.items())
    return Curves(_figures["kernels"].title, BY, panels, 4, "distance u", "K(u)")


# Positions

POSITIONS, WIDTH = 60, 32
"""The document's sizes."""
BY_EAGER = f"positional_encoding/eager in float64, width {WIDTH}"


def encoding() -> Tensor:
    """The positional encoding itself, positions by columns: what is added to zeros."""
    zeros = torch.zeros(1, POSITIONS, WIDTH, dtype=torch.float64)
    found: Tensor = function("positional_encoding/eager")(zeros)
    return found[0]


@_figure("Positional encoding, columns 6 to 9", "doc-004, section 11.6.3")
def position_curves() -> Curves:
    """One panel: a sine and a cosine of 0.178 radians a position, and of 0.1, as in the document."""
    columns = tuple(series(f"column {c}", range(POSITIONS), encoding()[:, c]) for c in range(6, 10))
    title = _figures["position_curves"].title
    return Curves(title, BY_EAGER, (Panel("", columns),), 1, "position", "encoding", size=(520, 220))


@_figure("Positional encoding", "doc-004, section 11.6.3")
def position_map() -> HeatMaps:
    """One map, in blue."""
    maps = (heat_map(encoding().round(decimals=2)),)
    axes = numbered("column", range(WIDTH), 4), numbered("position", range(POSITIONS), 10)
    options: dict[str, Any] = {"bar": "encoding", "colours": Colours.BLUES, "domain": (-1.0, 1.0), "cell": 9}
    return HeatMaps(_figures["position_map"].title, BY_EAGER, maps, *axes, written=False, **options)


# The weights of any attention for a sentence

EMBEDDING = 16
"""The width of words that have no embedding in the documents."""
LONGEST, LONGEST_WORD = 40, 24
"""Words of a sentence: more would be illegible in a picture that fits a screen. Characters of a word."""
ROUNDING = 1e-3
"""How far a row's sum may lie from 1 before the picture says so: float32 is far closer, and the eye sees no less."""


@_figure(
    "Attention weights of a sentence",
    "doc-003, section 3.4.2, for its own sentence",
    ("sentence", "attention", "causal", "seed"),
)
def weights(
    sentence: str = " ".join(WORDS), attention: str = "matmul", causal: bool = False, seed: int = 0
) -> HeatMaps:
    """One map, words by words. The sentence of doc-003 has its embeddings and maps; those of others are drawn.

    Raises UsageError for a sentence without words or with too many, and for an attention that gives no weights.
    """
    words = tuple(plain(word, LONGEST_WORD) for word in plain(sentence, 10_000).split())
    if not 1 <= len(words) <= LONGEST:
        raise UsageError(f"expected a sentence of 1 to {LONGEST} words, got {len(words)}")
    printed = words == WORDS
    query, key = queries_and_keys() if printed else _drawn_queries_and_keys(words, seed)
    name, matrix, remark = _weights_of_target(attention, query, key, causal)
    origin = "embeddings and maps of doc-003" if printed else f"embeddings and maps drawn with seed {seed}"
    by = "; ".join(filter(None, (f"{name}{', causal' if causal else ''}, in float32", origin, remark)))
    low, high = (rounded(float(extreme)) for extreme in matrix.aminmax())
    domain = (min(0.0, low), high if high > 0 else 1.0)  # in a long sentence no weight comes near 1
    size: dict[str, Any] = {"cell": 30 if len(words) <= 20 else 16, "written": len(words) <= 20}
    axes = Axis("key", words), Axis("query", words)
    return HeatMaps(_figures["weights"].title, by, (heat_map(matrix),), *axes, domain=domain, **size)


def _drawn_queries_and_keys(words: tuple[str, ...], seed: int) -> tuple[Tensor, Tensor]:
    """Queries and keys, l e: standard normal vectors, the same wherever a word stands, mapped by drawn matrices."""

    def drawn(what: str, *shape: int) -> Tensor:
        digest = hashlib.sha256(f"{seed} {what}".encode(errors="backslashreplace")).digest()
        return _normal(int.from_bytes(digest[:6], "big"))(*shape)

    x = torch.stack([drawn(f"word {word}", EMBEDDING) for word in words])
    query, key = (drawn(f"map of the {role}", EMBEDDING, EMBEDDING) / EMBEDDING**0.5 for role in ("query", "key"))
    return x @ query, x @ key


def _weights_of_target(target: str, query: Tensor, key: Tensor, causal: bool) -> tuple[str, Tensor, str]:
    """The full name of an attention, its weights in float32, l s, and a remark where its rows do not sum to 1.

    Raises UsageError where the attention cannot be called, raises, or returns anything but finite numbers.
    """
    loaded = implementation(target, "attention")
    name = loaded.declaration.full_name
    if causal and (reason := gaps(loaded.declaration).get("causal")):
        raise UsageError(f"{name} is not causal: {reason}")
    query, key = (tensor.float()[None, None] for tensor in (query, key))
    with told(f"{name} gave no weights:"):
        found = weights_of(as_plug(loaded), query, key, **({"is_causal": True} if causal else {}))
    if not found.isfinite().all():
        raise UsageError(f"{name} returned NaN or infinity, which cannot be drawn")
    sums = found.sum(-1)
    if torch.all((sums - 1).abs() <= ROUNDING):
        return name, found[0, 0], ""
    return (
        name,
        found[0, 0],
        f"rows sum to {float(sums.min()):.4g} at least and {float(sums.max()):.4g} at most, not to 1",
    )


FIGURES: Mapping[str, DrawnFigure] = dict(sorted(_figures.items()))
"""Every figure by its name."""
