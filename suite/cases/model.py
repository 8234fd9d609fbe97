"""Cases of models: a factory makes a model of a config and weights, and its outputs are judged by norms.

No bound is derived for models. The tolerance of a position's vector is twice the largest error of several runs of the
eager model in the same dtype, plus the cost of rounding sums, (Σ√k · a + u) · ‖expected‖. Here k are the rows of each
matrix of weights, a the unit roundoff of the accumulator, and u that of the dtype. The weights of these runs differ in
their last digits, so that each run rounds otherwise, as another order of sums does. The error of one run may be small
by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.call import Call, Calls, Conventions, Reply
from attnsuite.cases.expected import AttentionWeights, Expected, Form, NearInNorm, PerCallCase
from attnsuite.cases.tensors import Array, Generator, Inputs, as_tensor, as_tensors, dtype_of, generator
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Precision, widest
from attnsuite.judging.running_error import Unbounded, WithError
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES, Status

Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Weights = Mapping[str, Array]
Attentions = Mapping[str, tuple[WithError, Array]]
"""The weights of every attention by name, … l s, and the visible keys, which broadcast to them."""
Draws = Callable[[Generator], Sequence[Inputs]]
"""Draws the inputs of every call of a case."""
Change = Callable[[Weights], Mapping[str, Array | Tensor]]
"""Makes bad weights of good ones. A tensor of torch keeps its dtype."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
TIMES_EAGER = 2.0
"""How much larger than the largest error of the eager model's runs a model's error may be."""
NEARBY_RUNS = 8
"""Runs of the eager model with weights that differ in their last digits. Changing every weight by up to a unit roundoff
costs about twice as much as rounding every step. So a correct model exceeds the tolerance where its error, in the worst
case a single normal number, is four times the largest of nine alike: with a probability of 7e-5."""
SMALL_MODEL = 2**20
"""A model of this many weights runs once: a run takes long, and errors of many terms are hardly small by chance."""


@dataclass(frozen=True, eq=False)
class Model:
    """What all cases of a kind of model have in common. `model("family/what", "why", **unusual)` makes a case."""

    oracle: Callable[..., tuple[WithError, Attentions]]
    """`oracle(config, weights, **inputs)` of `WithError` numbers: the output, and the weights of its attentions."""
    eager: Callable[..., Callable[..., Any]]
    """A factory whose models compute in the dtype of their weights, step by step."""
    weights: Callable[[Config, Generator], Weights]
    """Draws weights that show mistakes."""
    draw: Callable[..., Inputs]
    """`draw(random, config=…, **unusual)` makes the inputs of one call; each argument has a plain default."""
    positional: tuple[str, ...]
    """The names of the inputs, in order."""
    usual: Config
    """The config of a case that names no other."""
    source_prefix: str = "encoder"
    """How the names of attentions begin whose rows are positions of the source, not steps of a translation."""

    def __call__(
        self,
        name: str,
        why: str,
        config: Config | None = None,
        dtypes: tuple[str, ...] = DTYPES,
        *,
        calls: Draws | None = None,
        weights: Weights | None = None,
        same_storage: bool = False,
        factory_options: Mapping[str, Any] = NOTHING,
        **unusual: Any,
    ) -> ModelCase:
        """A case of one call with unusual inputs, or of `calls`; the factory gets `factory_options` as well."""
        config = self.usual if config is None else config

        def once(random: Generator) -> Sequence[Inputs]:
            return [self.draw(random, config=config, **unusual)]

        return ModelCase(
            name, why, self, config, calls or once, weights, dtypes, same_storage, factory_options=factory_options
        )

    def with_inputs(
        self,
        name: str,
        why: str,
        config: Config,
        inputs: Inputs,
        weights: Weights | None = None,
        factory_options: Mapping[str, Any] = NOTHING,
    ) -> ModelCase:
        """A case with these inputs and weights."""
        return ModelCase(name, why, self, config, lambda random: [inputs], weights, factory_options=factory_options)

    def bad_input(self, *rows: Row, **usual: Any) -> Iterator[BadInputCase]:
        """Cases of the family `bad_input`: what is usual in all, and unusual in each row.

        A row may also have `bad_weights`, which changes good ones, `bad_config`, which does not fit the weights,
        `bad_factory_options`, and `inputs`, which replace drawn ones.
        """
        for what, why, unusual in rows:
            own = {**usual, **unusual}
            bad = {name: own.pop(name) for name in ("bad_weights", "bad_config", "bad_factory_options") if name in own}
            inputs = own.pop("inputs", {})
            case = replace(self(f"bad_input/{what}", why, **own), **bad)
            yield BadInputCase(replace(case, inputs=_replacing(case.inputs, inputs)))

    def expected_results(self, calls: Sequence[Call]) -> tuple[NearInNorm, ...]:
        """The expected outputs of a model's calls."""
        return _near(calls, [output.value for output, _ in self._oracle(calls)], self._eager(calls))

    def expected_with_weights(self, calls: Sequence[Call]) -> tuple[NearInNorm, ...]:
        """The expected outputs and attention weights of a model's calls: of each attention its farthest row counts."""
        exact, eager = self._oracle(calls), self._eager(calls, need_weights=True)
        values, of_eager = [output.value for output, _ in exact], [[output for output, _ in runs] for runs in eager]
        outputs = _near(calls, values, of_eager)
        attentions: list[dict[str, AttentionWeights]] = [{} for _ in calls]
        for name in exact[0][1]:
            values = [weights[name][0].value for _, weights in exact]
            near = _near(calls, values, [[weights[name] for _, weights in runs] for runs in eager])
            for by_name, expected, (_, weights) in zip(attentions, near, exact, strict=True):
                by_name[name] = AttentionWeights(expected, ~np.broadcast_to(weights[name][1], expected.form.shape))
        return tuple(replace(output, attentions=by_name) for output, by_name in zip(outputs, attentions, strict=True))

    def expected_translations(self, calls: Sequence[Call]) -> tuple[ExpectedTokens, ...]:
        """The expected tokens of a model's calls that translate greedily, and attention weights if they are requested.

        The eager model proposes tokens in float64; the oracle's logits of these tokens say whether they are right.
        """
        config, greedy = calls[0].config, calls[0].factory_options["greedy"]
        assert config is not None
        propose = self.eager(config, {name: w.double() for name, w in calls[0].weights.items()}, greedy=greedy)
        with torch.no_grad():
            proposed = [propose(*_inputs(call)) for call in calls]
        read = [pad(tokens[:, :-1], (1, 0), value=greedy["begin"]) for tokens in proposed]
        taught = [
            replace(call, tensors={**call.tensors, call.positional[-1]: tokens})
            for call, tokens in zip(calls, read, strict=True)
        ]
        logits = self.expected_with_weights(taught) if calls[0].need_weights else self.expected_results(taught)
        return tuple(
            expected_tokens(result, tokens.numpy(), greedy, self.source_prefix)
            for result, tokens in zip(logits, proposed, strict=True)
        )

    def _oracle(self, calls: Sequence[Call]) -> list[tuple[WithError, Attentions]]:
        config, dtype = calls[0].config, dtype_of(calls[0])
        weights = {name: _exact(tensor, dtype) for name, tensor in calls[0].weights.items()}
        inputs = ({name: _exact(tensor, dtype) for name, tensor in call.tensors.items()} for call in calls)
        with np.errstate(all="ignore"):
            return [self.oracle(config, weights, **arguments) for arguments in inputs]

    def _eager(self, calls: Sequence[Call], **factory_options: Any) -> list[list[Any]]:
        """For each call the results of the eager model, then of models whose weights differ in their last digits."""
        config, weights, random = calls[0].config, calls[0].weights, generator("reference runs")
        assert config is not None
        small = sum(tensor.numel() for tensor in weights.values()) < SMALL_MODEL
        runs = [weights, *(_nearby(weights, random) for _ in range(NEARBY_RUNS * small))]
        models = [self.eager(config, own, **factory_options) for own in runs]
        with torch.no_grad():
            return [[model(*_inputs(call)) for model in models] for call in calls]


@dataclass(frozen=True)
class ModelCase(PerCallCase):
    """One model and its calls, in order. The weights of a config are the same in all cases."""

    name: str
    why: str
    model: Model
    config: Config
    inputs: Draws
    weights: Weights | None = None
    """Weights in place of drawn ones."""
    dtypes: tuple[str, ...] = DTYPES
    same_storage: bool = False
    """The inputs of later calls are written into the tensors of the first."""
    bad_weights: Change = field(default=dict)
    bad_config: Config = field(default_factory=dict)
    """Entries of the config for which the weights were not made."""
    factory_options: Mapping[str, Any] = field(default_factory=dict)
    """The factory's keyword arguments besides config and weights."""
    bad_factory_options: Mapping[str, Any] = field(default_factory=dict)

    def calls(self, dtype: str) -> Calls:
        weights = self.weights
        if weights is None:
            weights = self.model.weights(self.config, generator(repr(sorted(self.config.items()))))
        return self.calls_of_one_model(weights, dtype)

    def calls_of_one_model(self, weights: Weights, dtype: str) -> Calls:
        """The calls of one model with these weights."""
        bad = self.bad_weights(weights)
        tensors = {name: w if isinstance(w, Tensor) else as_tensor(w, dtype) for name, w in bad.items()}
        inputs = [as_tensors(drawn, dtype) for drawn in self.inputs(generator(self.name))]
        config, factory_options = (
            {**self.config, **self.bad_config},
            {**self.factory_options, **self.bad_factory_options},
        )
        first = Call(
            inputs[0], {}, self.model.positional, config=config, weights=tensors, factory_options=factory_options
        )
        again = replace(first, config=None, weights={}, model_of=0, same_storage=self.same_storage)
        return (first, *(replace(again, tensors=drawn) for drawn in inputs[1:]))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        if "greedy" in self.factory_options:
            return self.model.expected_translations(calls)
        return self.model.expected_with_weights(calls) if calls[0].need_weights else self.model.expected_results(calls)


@dataclass(frozen=True)
class TwoModelsCase(ModelCase):
    """Two models of one config and different weights, called with the same inputs; then the first once more."""

    def calls(self, dtype: str) -> Calls:
        drawn = (self.model.weights(self.config, generator(f"{self.name} {number}")) for number in (1, 2))
        first, second = (self.calls_of_one_model(weights, dtype)[0] for weights in drawn)
        return first, second, replace(first, config=None, weights={}, model_of=0)

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        first, second = (super(TwoModelsCase, self).expected((call,), conventions)[0] for call in calls[:2])
        return first, second, first


def two_models(case: ModelCase) -> TwoModelsCase:
    """The same case, of two models."""
    return TwoModelsCase(**vars(case))


def without(name: str) -> Change:
    """Removes one tensor from the weights."""
    return lambda weights: {other: tensor for other, tensor in weights.items() if other != name}


def instead(name: str, tensor: Array | Tensor) -> Change:
    """Replaces or adds one tensor of the weights."""
    return lambda weights: {**weights, name: tensor}


def token_among(length: int, token: int) -> Array:
    """Tokens of three items, all 0 except this one."""
    tokens = np.zeros((3, length), np.int64)
    tokens[1, 2] = token
    return tokens


@dataclass(frozen=True)
class ExpectedTokens(Expected):
    """The expected tokens of greedy decoding, b t."""

    form: Form
    value: Array
    known: Array
    """False from the first step on whose two largest logits lie nearer to each other than both may be off."""
    attentions: Mapping[str, AttentionWeights] | None = None

    @property
    def numbers(self) -> Array:
        return self.value.astype(np.float64)

    @property
    def slack(self) -> Array:
        return np.where(self.known, 0.0, np.inf)

    def compare_numbers(self, reply: Reply, name: str = "output") -> Verdict:
        assert reply.output is not None
        wrong = np.argwhere(self.known & (compare.numbers(reply.output) != self.value))
        if not len(wrong):
            return Verdict(Status.PASSED, "", 0.0)
        item, step = map(int, wrong[0])
        actual, expected = int(reply.output[item, step]), int(self.value[item, step])
        says = f"token {step + 1} of item {item} is {actual}, expected {expected}"
        says = f"{says} ({len(wrong)} of {self.known.sum()} tokens)"
        return Verdict(Status.FAILED, says, np.inf, output_wrong=True)

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        assert reply.output is not None
        assert theirs.output is not None
        return torch.equal(reply.output, theirs.output)


def expected_tokens(
    logits: NearInNorm, proposed: Array, greedy: Mapping[str, int], source_prefix: str = ""
) -> ExpectedTokens:
    """The result of greedy decoding, from the expected logits, b t v, where the proposed tokens, b t, were read.

    Each token that is read is that of the largest logit of the step before, so that a step is known where this is
    certain for all steps before it: the two largest logits differ by more than both may be off. Of attentions whose
    rows are steps, all but those `source_prefix`, rows count that read known tokens, up to the end of a translation.
    """
    best, largest = logits.value.argmax(-1), np.sort(logits.numbers, -1)
    clear = largest[..., -1] - largest[..., -2] > 2 * logits.allowed
    ended = np.cumsum(best == greedy["end"], -1) > 0
    known = np.logical_and.accumulate((clear & (best == proposed)) | _before(ended, first=False), -1)
    tokens = np.where(ended, greedy["end"], best)
    over = _before(ended, first=False)
    unknown = ~_before(known, first=True) & ~over
    attentions = logits.attentions and {
        name: weights if name.startswith(source_prefix) else _of_steps(weights, over, unknown)
        for name, weights in logits.attentions.items()
    }
    return ExpectedTokens(Form(best.shape, torch.int64), tokens, known, attentions)


def _before(steps: Array, *, first: bool) -> Array:
    """The value of the step before each step, b t."""
    return np.pad(steps[:, :-1], ((0, 0), (1, 0)), constant_values=first)


def _of_steps(weights: AttentionWeights, over: Array, unknown: Array) -> AttentionWeights:
    """Expected weights, b … t s: zeros in steps that are over, and anything in those that are unknown, b t."""
    expected = weights.expected
    assert isinstance(expected, NearInNorm)
    over, unknown = (steps.reshape(len(steps), *[1] * (expected.value.ndim - 3), -1) for steps in (over, unknown))
    value = np.where(over[..., None], 0.0, expected.value)
    expected = replace(expected, value=value, allowed=np.where(unknown, np.inf, expected.allowed))
    assert weights.hidden is not None
    return AttentionWeights(expected, weights.hidden | over[..., None])


def _inputs(call: Call) -> list[Tensor]:
    return [call.tensors[name] for name in call.positional if name in call.tensors]


def _nearby(weights: Mapping[str, Tensor], random: Generator) -> dict[str, Tensor]:
    """The weights, each changed by up to a unit roundoff."""

    def moved(tensor: Tensor) -> Tensor:
        off = PRECISIONS[str(tensor.dtype)[6:]].unit * random.uniform(-1, 1, tuple(tensor.shape))
        return (tensor.double() + tensor.double() * torch.from_numpy(off)).to(tensor.dtype)

    return {name: moved(tensor) for name, tensor in weights.items()}


def _near(calls: Sequence[Call], values: Sequence[Array], eager: Sequence[Sequence[Tensor]]) -> tuple[NearInNorm, ...]:
    """The expected results of these values, given those of the eager model's runs."""
    dtype = dtype_of(calls[0])
    floor = _floor([tensor.shape for tensor in calls[0].weights.values()], PRECISIONS[dtype])
    pairs = ((value, result) for value, runs in zip(values, eager, strict=True) for result in runs)
    errors = (norms(compare.numbers(result).astype(value.dtype) - value) for value, result in pairs)
    allowed = TIMES_EAGER * max(error.max(initial=0.0) for error in errors)
    forms = [Form(value.shape, getattr(torch, dtype), pair=True) for value in values]
    return tuple(
        NearInNorm(form, value, allowed + floor * norms(value)) for form, value in zip(forms, values, strict=True)
    )


def _replacing(draws: Draws, inputs: Inputs) -> Draws:
    return lambda random: [{**drawn, **inputs} for drawn in draws(random)]


def _exact(tensor: Tensor, dtype: str) -> Any:
    """Numbers as `WithError`, without bounds; tokens and lengths as arrays."""
    if not tensor.dtype.is_floating_point:
        return tensor.numpy()
    return Unbounded.exact(compare.numbers(tensor), PRECISIONS[dtype], widest(dtype))


def _floor(weights: Sequence[Sequence[int]], precision: Precision) -> float:
    """The relative cost of rounding the sums of a model with weights of these shapes."""
    terms = sum(math.sqrt(shape[0]) for shape in weights if len(shape) == 2)
    return terms * precision.accumulator + precision.unit


def norms(vectors: Array) -> Array:
    """The norms along the last axis."""
    lengths: Array = np.sqrt((vectors**2).sum(-1)).astype(np.float64)
    return lengths
