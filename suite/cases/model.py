"""Cases of a contract that is a model: a factory makes one of a config and weights, and it is judged by norms.

No bound is derived for models. A position's vector may lie twice as far from the truth as the eager model's in the same
dtype does where that is worst of all calls, and farther by a floor: what rounding sums of that many terms costs,
(Σ√k · a + u) · ‖truth‖, with k the rows of every matrix of weights, a the unit roundoff of the accumulator, and u that
of the dtype.

Tokens that a model chooses one after the other, and the attention weights of its steps: what is due of them, as far
as no rounding may choose otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnsuite.cases.attention_weights import AttentionWeights, WithWeights
from attnsuite.cases.bad_input import BadInputCase, Row
from attnsuite.cases.call import Call, Calls, Conventions, Reply
from attnsuite.cases.expected import Expected, Form, NearInNorm, PerCallCase
from attnsuite.cases.tensors import Array, Generator, Inputs, as_tensor, as_tensors, dtype_of, generator
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Precision, widest
from attnsuite.judging.rounded import Rounded, Unbounded
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import DTYPES, Status

Config = Mapping[str, Any]
Shapes = Mapping[str, tuple[int, ...]]
Weights = Mapping[str, Array]
Attentions = Mapping[str, tuple[Rounded, Array]]
"""The weights of every attention by name, … l s, and who may attend to whom, which broadcasts to them."""
Draws = Callable[[Generator], Sequence[Inputs]]
"""Makes the inputs of every call of a case."""
Change = Callable[[Weights], Mapping[str, Array | Tensor]]
"""Makes bad weights of good ones. A tensor of torch keeps its dtype."""

NOTHING: Mapping[str, Any] = MappingProxyType({})
TIMES_EAGER = 2.0
"""How much farther from the truth than the eager model a model may be."""


@dataclass(frozen=True, eq=False)
class Model:
    """What all cases of a kind of model have in common. `model("family/what", "why", **unusual)` makes one."""

    oracle: Callable[..., tuple[Rounded, Attentions]]
    """`oracle(config, weights, **inputs)`, weights and numbers as `Rounded`: the output, and what attends in it."""
    eager: Callable[..., Callable[..., Any]]
    """A factory whose models compute in the dtype of their weights, step by step."""
    weights: Callable[[Config, Generator], Weights]
    """Weights for a config, so that mistakes show."""
    draw: Callable[..., Inputs]
    """`draw(random, config=…, **unusual)` makes the inputs of one call; each of its arguments has a plain default."""
    positional: tuple[str, ...]
    """The inputs' names, in order."""
    usual: Config
    """That of a case which names no other."""
    of_source: str = "encoder"
    """How the names of attentions begin whose rows are the source's positions, not steps of a translation."""

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
        making: Mapping[str, Any] = NOTHING,
        **unusual: Any,
    ) -> ModelCase:
        """A case with one call of unusual inputs, or with `calls`; `making` is what its factory is given by keyword."""
        config = self.usual if config is None else config

        def once(random: Generator) -> Sequence[Inputs]:
            return [self.draw(random, config=config, **unusual)]

        return ModelCase(name, why, self, config, calls or once, weights, dtypes, same_storage, making=making)

    def given(
        self,
        name: str,
        why: str,
        config: Config,
        inputs: Inputs,
        weights: Weights | None = None,
        making: Mapping[str, Any] = NOTHING,
    ) -> ModelCase:
        """A case with these very inputs, and weights."""
        return ModelCase(name, why, self, config, lambda random: [inputs], weights, making=making)

    def refused(self, *rows: Row, **usual: Any) -> Iterator[BadInputCase]:
        """Cases of the family `bad_input`, of what is usual in all and unusual in each row.

        Beside what a case may have, that is `bad_weights`, which makes them of good ones, `bad_config`, what a config
        has that its weights were not made for, `bad_making`, and `inputs`, which take the place of drawn ones.
        """
        for what, why, unusual in rows:
            own = {**usual, **unusual}
            bad = {name: own.pop(name) for name in ("bad_weights", "bad_config", "bad_making") if name in own}
            inputs = own.pop("inputs", {})
            case = replace(self(f"bad_input/{what}", why, **own), **bad)
            yield BadInputCase(replace(case, inputs=_replacing(case.inputs, inputs)))

    def dues(self, calls: Sequence[Call]) -> tuple[NearInNorm, ...]:
        """What is due of the outputs of one model's calls."""
        return self._near(calls)([output.value for output, _ in self._truths(calls)], self._eager(calls))

    def seen(self, calls: Sequence[Call]) -> tuple[WithWeights, ...]:
        """What is due of one model's calls, attention weights too: of each attention its farthest row counts."""
        near, truths, theirs = self._near(calls), self._truths(calls), self._eager(calls, need_weights=True)
        outputs = near([output.value for output, _ in truths], [output for output, _ in theirs])
        found: list[dict[str, AttentionWeights]] = [{} for _ in calls]
        for name in truths[0][1]:
            dues = near([of[name][0].value for _, of in truths], [of[name] for _, of in theirs])
            for shares, due, (_, of) in zip(found, dues, truths, strict=True):
                shares[name] = AttentionWeights(due, ~np.broadcast_to(of[name][1], due.form.shape))
        return tuple(WithWeights(output, shares) for output, shares in zip(outputs, found, strict=True))

    def translated(self, calls: Sequence[Call]) -> tuple[Expected, ...]:
        """What is due of one model's calls that translate greedily, attention weights too where they are asked for.

        The eager model proposes tokens in float64; the oracle's logits, where these are read, say whether they are due.
        """
        config, greedy = calls[0].config, calls[0].making["greedy"]
        assert config is not None
        propose = self.eager(config, {name: w.double() for name, w in calls[0].weights.items()}, greedy=greedy)
        with torch.no_grad():
            proposed = [propose(*_inputs(call)) for call in calls]
        read = [pad(tokens[:, :-1], (1, 0), value=greedy["begin"]) for tokens in proposed]
        taught = [
            replace(call, tensors={**call.tensors, call.positional[-1]: tokens})
            for call, tokens in zip(calls, read, strict=True)
        ]
        said = [tokens.numpy() for tokens in proposed]
        if not calls[0].need_weights:
            return tuple(expected_tokens(due, each, greedy) for due, each in zip(self.dues(taught), said, strict=True))
        return tuple(
            expected_tokens_with_weights(due, each, greedy, lambda name: not name.startswith(self.of_source))
            for due, each in zip(self.seen(taught), said, strict=True)
        )

    def _truths(self, calls: Sequence[Call]) -> list[tuple[Rounded, Attentions]]:
        """What the oracle says of each call."""
        config, dtype = calls[0].config, dtype_of(calls[0])
        weights = {name: _exact(tensor, dtype) for name, tensor in calls[0].weights.items()}
        inputs = ({name: _exact(tensor, dtype) for name, tensor in call.tensors.items()} for call in calls)
        with np.errstate(all="ignore"):
            return [self.oracle(config, weights, **each) for each in inputs]

    def _eager(self, calls: Sequence[Call], **making: Any) -> list[Any]:
        """What the eager model answers to each call."""
        assert calls[0].config is not None
        eager = self.eager(calls[0].config, calls[0].weights, **making)
        with torch.no_grad():
            return [eager(*_inputs(call)) for call in calls]

    def _near(self, calls: Sequence[Call]) -> Callable[[Sequence[Array], Sequence[Tensor]], tuple[NearInNorm, ...]]:
        """How near to true values answers have to lie, of these and the eager model's."""
        dtype = dtype_of(calls[0])
        floor = _floor([tensor.shape for tensor in calls[0].weights.values()], PRECISIONS[dtype])
        return partial(_near, floor=floor, dtype=getattr(torch, dtype))


@dataclass(frozen=True)
class ModelCase(PerCallCase):
    """One model and one call of it or several, in order. The weights of a config are the same in all cases."""

    name: str
    why: str
    model: Model
    config: Config
    inputs: Draws
    weights: Weights | None = None
    """Given weights in place of drawn ones."""
    dtypes: tuple[str, ...] = DTYPES
    same_storage: bool = False
    """The inputs of later calls are written into the tensors of the first."""
    bad_weights: Change = field(default=dict)
    """Makes what is given as weights of good ones."""
    bad_config: Config = field(default_factory=dict)
    """What the config has, that its weights were not made for."""
    making: Mapping[str, Any] = field(default_factory=dict)
    """What the factory is given by keyword beside config and weights."""
    bad_making: Mapping[str, Any] = field(default_factory=dict)
    """The same, where it is bad."""

    def calls(self, dtype: str) -> Calls:
        weights = self.weights
        if weights is None:
            weights = self.model.weights(self.config, generator(repr(sorted(self.config.items()))))
        return self.of_one(weights, dtype)

    def of_one(self, weights: Weights, dtype: str) -> Calls:
        """The calls of one model, which is made of these weights."""
        bad = self.bad_weights(weights)
        given = {name: w if isinstance(w, Tensor) else as_tensor(w, dtype) for name, w in bad.items()}
        config = {**self.config, **self.bad_config}
        asked = [as_tensors(inputs, dtype) for inputs in self.inputs(generator(self.name))]
        making = {**self.making, **self.bad_making}
        first = Call(asked[0], {}, self.model.positional, config=config, weights=given, making=making)
        again = replace(first, config=None, weights={}, model_of=0, same_storage=self.same_storage)
        return (first, *(replace(again, tensors=tensors) for tensors in asked[1:]))

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        if "greedy" in self.making:
            return self.model.translated(calls)
        return self.model.seen(calls) if calls[0].need_weights else self.model.dues(calls)


@dataclass(frozen=True)
class TwoModelsCase(ModelCase):
    """Two models of one config, made of other weights one after the other, and called with the same inputs.

    Then the first one is called once more.
    """

    def calls(self, dtype: str) -> Calls:
        drawn = (self.model.weights(self.config, generator(f"{self.name} {number}")) for number in (1, 2))
        first, second = (self.of_one(weights, dtype)[0] for weights in drawn)
        return first, second, replace(first, config=None, weights={}, model_of=0)

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[Expected, ...]:
        first, second = (super(TwoModelsCase, self).expected((call,), conventions)[0] for call in calls[:2])
        return first, second, first


def two_models(case: ModelCase) -> TwoModelsCase:
    """The same case, of two models."""
    return TwoModelsCase(**vars(case))


def without(name: str) -> Change:
    """Weights that lack one."""
    return lambda weights: {other: tensor for other, tensor in weights.items() if other != name}


def instead(name: str, tensor: Array | Tensor) -> Change:
    """Weights with this tensor in place of their own, or as one more."""
    return lambda weights: {**weights, name: tensor}


def token_among(length: int, token: int) -> Array:
    """Tokens of three items, all 0 but this one."""
    tokens = np.zeros((3, length), np.int64)
    tokens[1, 2] = token
    return tokens


def _inputs(call: Call) -> list[Tensor]:
    """What a model is called with."""
    return [call.tensors[name] for name in call.positional if name in call.tensors]


def _near(
    values: Sequence[Array], theirs: Sequence[Tensor], floor: float, dtype: torch.dtype
) -> tuple[NearInNorm, ...]:
    """How near to these values answers have to lie, since the eager model's lie where they do."""
    pairs = zip(values, theirs, strict=True)
    farthest = max(
        _norms(compare.numbers(their).astype(value.dtype) - value).max(initial=0.0) for value, their in pairs
    )
    allowed = TIMES_EAGER * farthest
    return tuple(
        NearInNorm(Form(value.shape, dtype, pair=True), value, allowed + floor * _norms(value)) for value in values
    )


def _replacing(draws: Draws, inputs: Inputs) -> Draws:
    return lambda random: [{**drawn, **inputs} for drawn in draws(random)]


def _exact(tensor: Tensor, dtype: str) -> Any:
    """Numbers as `Rounded`, without bounds; tokens and lengths as arrays."""
    if not tensor.dtype.is_floating_point:
        return tensor.numpy()
    return Unbounded.exact(compare.numbers(tensor), PRECISIONS[dtype], widest(dtype))


def _floor(weights: Sequence[Sequence[int]], precision: Precision) -> float:
    """What rounding sums costs a model of weights of these shapes, relatively."""
    terms = sum(math.sqrt(shape[0]) for shape in weights if len(shape) == 2)
    return terms * precision.accumulator + precision.unit


def _norms(vectors: Array) -> Array:
    norms: Array = np.sqrt((vectors**2).sum(-1)).astype(np.float64)
    return norms


@dataclass(frozen=True)
class ExpectedTokens(Expected):
    """Translations of several items, b t."""

    form: Form
    value: Array
    known: Array
    """False from the first step on in which two logits lie nearer to each other than both may be off."""

    @property
    def numbers(self) -> Array:
        return self.value.astype(np.float64)

    @property
    def room(self) -> Array:
        return np.where(self.known, 0.0, np.inf)

    def held(self, reply: Reply) -> Verdict:
        assert reply.output is not None
        wrong = np.argwhere(self.known & (compare.numbers(reply.output) != self.value))
        if not len(wrong):
            return Verdict(Status.PASSED, "", 0.0)
        item, step = map(int, wrong[0])
        came, due = int(reply.output[item, step]), int(self.value[item, step])
        says = f"token {step + 1} of item {item} is {came}, due is {due} ({len(wrong)} of {self.known.sum()} tokens)"
        return Verdict(Status.WRONG, says, np.inf, output_wrong=True)

    def equal(self, reply: Reply, theirs: Reply) -> bool:
        assert reply.output is not None
        assert theirs.output is not None
        return torch.equal(reply.output, theirs.output)


def expected_tokens(logits: NearInNorm, proposed: Array, greedy: Mapping[str, int]) -> ExpectedTokens:
    """What greedy decoding comes to, from the logits, b t v, that are due where these tokens, b t, were read before.

    Each token that is read is the largest logit's of the step before, so that a step is known where that is certain of
    all steps before it: the two largest logits differ by more than both may be off.
    """
    end, best = greedy["end"], logits.value.argmax(-1)
    largest = np.sort(logits.numbers, -1)
    clear = largest[..., -1] - largest[..., -2] > 2 * logits.allowed
    ended = np.cumsum(best == end, -1) > 0
    sure = np.logical_and.accumulate((clear & (best == proposed)) | _before(ended, first=False), -1)
    return ExpectedTokens(Form(best.shape, torch.int64), np.where(ended, end, best), sure)


def expected_tokens_with_weights(
    taught: WithWeights, proposed: Array, greedy: Mapping[str, int], of_steps: Callable[[str], bool]
) -> WithWeights:
    """The same, with what is due of the weights beside it.

    Of attentions whose rows are steps, those up to a translation's end count, if they read known tokens.
    """
    assert isinstance(taught.of, NearInNorm)
    tokens = expected_tokens(taught.of, proposed, greedy)
    over = _before(np.cumsum(tokens.value == greedy["end"], -1) > 0, first=False)
    unknown = ~_before(tokens.known, first=True) & ~over
    attentions = {
        name: _of_steps(shares, over, unknown) if of_steps(name) else shares
        for name, shares in taught.attentions.items()
    }
    return WithWeights(tokens, attentions)


def _before(steps: Array, *, first: bool) -> Array:
    """What each step has of the one before it, b t."""
    return np.pad(steps[:, :-1], ((0, 0), (1, 0)), constant_values=first)


def _of_steps(shares: AttentionWeights, over: Array, unknown: Array) -> AttentionWeights:
    """What is due of weights, b … t s: zeros in steps that are over, and nothing in those that are unknown, b t."""
    assert isinstance(shares.due, NearInNorm)
    value, allowed = shares.due.value, shares.due.allowed
    over, unknown = (each.reshape(len(each), *[1] * (value.ndim - 3), -1) for each in (over, unknown))
    due = replace(shares.due, value=np.where(over[..., None], 0.0, value), allowed=np.where(unknown, np.inf, allowed))
    return AttentionWeights(due, shares.hidden | over[..., None])
