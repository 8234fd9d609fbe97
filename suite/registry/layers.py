"""Layers, blocks and models with weights of their own as functions and factories of their contracts.

A table says which of a contract's weights each part of a model has. A module stands in for its part; the suite computes
the rest of the model. Expected values come from the contract's oracle with the weights that a test sets.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from attnsuite.cases import Call
from attnsuite.cases.tensors import generator
from attnsuite.contracts.blocks.multi_head_attention.mutants import DROPPED
from attnsuite.registry import roles
from attnsuite.registry.declaration import Uncallable
from attnsuite.registry.steps import STEPS, output_of

LENGTH = 512
"""The longest sequence for which a module with a table of positions is made."""
EQUAL = 1e-6
"""The largest error, in float64, at which a module computes the formula in the trial; norms add 1e-5 to a variance."""
RANDOM = "dropout in evaluation: two equal calls differ, so something is random"
"""The note on a module whose equal calls have different results."""
NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
Given = Mapping[str, Any]
"""The inputs of a part by meaning."""
Weights = Mapping[str, Tensor]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Part:
    """A part of a model: its name, the contract's weights that it has, and its inputs in order."""

    name: str
    weights: str
    """The pattern of the names of its weights."""
    inputs: tuple[str, ...]
    count: str = ""
    """The entry of the config that has the number of these parts; empty for one."""


PARTS = {
    "transformer": (
        Part("model", "", ("source", "target")),
        Part("encoder block", r"encoder\.(\d+)\.", ("x",), "encoder_blocks"),
        Part("decoder block", r"decoder\.(\d+)\.", ("x", "memory"), "decoder_blocks"),
        Part("encoder", r"source_embedding|encoder\.", ("x",)),
        Part("decoder", r"target_embedding|decoder\.|[wb]_logits", ("x", "memory")),
    ),
    "vision_transformer": (
        Part("model", "", ("images",)),
        Part("block", r"blocks\.(\d+)\.", ("x",), "blocks"),
    ),
    "seq2seq_attention": (
        Part("model", "", ("source", "target")),
        Part("encoder", r"source_embedding|encoder\.", ("x",)),
        Part("decoder", r"attention\.|target_embedding|decoder\.|[wb]_logits", ("x", "state")),
    ),
    "positionwise_ffn": (Part("layer", r"[wb]\d", ("x",)),),
    "add_norm": (Part("layer", "weight|bias", ("x", "y")),),
    "patch_embedding": (Part("layer", "weight|bias", ("image",)),),
    "additive_attention": (Part("layer", "w_", ("query", "key", "value")),),
}
"""The parts of each contract."""
MODELS = "attnsuite.contracts.models"
HOMES = {
    **{name: f"{MODELS}.{name}.cases" for name in ("transformer", "vision_transformer", "seq2seq_attention")},
    **{name: f"attnsuite.contracts.blocks.{name}" for name in ("positionwise_ffn", "add_norm", "patch_embedding")},
    "additive_attention": "attnsuite.contracts.steps.additive_attention",
}
"""The modules that make cases of each contract."""
USUAL: dict[str, dict[str, Any]] = {
    "positionwise_ffn": {"activation": "relu"},
    "add_norm": {"norm": "layer", "eps": 1e-5},
}
"""The options of the contracts of functions, and their defaults."""
TRIALS: dict[str, Sequence[Mapping[str, Any]]] = {
    "vision_transformer": ({}, {"pooling": "mean"}),
    "seq2seq_attention": ({}, {"score": "dot"}, {"score": "scaled_dot"}, {"cell": "lstm"}),
    "positionwise_ffn": ({}, {"activation": "gelu"}),
}
"""What is unusual in the trials of a contract; a module is tested with what it computes in the first trial."""
SIZES = {
    **{meaning: roles.SIZES[meaning] for meaning in ("dropout", "bias")},
    "source_vocab": r"(src|source|enc|input)\w*voc|voc\w*(src|source)|^(src|source)_size$",
    "target_vocab": r"(tgt|target|trg|dec|output)\w*voc|voc\w*(tgt|target)|^(tgt|target|trg)_size$",
    "vocab": r"voc|n_?tokens?$|num_embeddings",
    "width": r"outputs?$|norm(alized)?_shape",
    "inner": r"ff|feed|mlp|inner|intermediate|d_?hid",
    "blocks": r"blo?c?ks?$|layers|depth|^n$",
    "classes": r"class",
    "image": r"im(a)?ge?",
    "patch": r"patch|kernel",
    "channels": r"chan|in_c",
    "number": r"^i$|index|idx|number",
    "embedding": r"emb",
    **{meaning: pattern for meaning, pattern in roles.SIZES.items() if meaning not in ("dropout", "bias", "width")},
    "usual_width": roles.SIZES["width"],
}
"""Names of a constructor's arguments by meaning, the first that fits."""
INPUTS = {
    "": r"causal|need|return|^(tgt|target|trg)\w*(pad)",
    "state": r"^(dec_?)?state",
    "lengths": r"len",
    "padding": r"pad",
    "source mask": r"(src|source|enc|mem|cross)\w*mask",
    "mask": r"mask",
}
"""Names of the parameters of `forward` by meaning, the first that fits; others are inputs, in order."""
FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "visible": lambda mask: mask,
    "hidden": lambda mask: ~mask,
    "visible, by item": lambda mask: mask[:, 0, 0] if mask.dim() == 4 else mask,
    "hidden, by item": lambda mask: ~mask[:, 0, 0] if mask.dim() == 4 else ~mask,
    "added": lambda mask: torch.zeros(mask.shape).masked_fill(~mask, -torch.inf),
    "visible, by query": lambda mask: mask[:, 0] if mask.dim() == 4 else mask,
}
"""The forms in which modules take masks, made from one that is True where something is visible, b 1 1 s or t t."""


@dataclass(frozen=True)
class Way:
    """How a part is called."""

    padding: str = "visible"
    causal: str = "visible"
    training: bool = False
    """In training mode, without dropout."""
    stepwise: bool = False
    """One token after the other, with a state that goes on."""


def as_layer(
    made: type, name: str, contract: str, given: Mapping[str, Any], written: Mapping[str, str]
) -> tuple[Callable[..., Any], str]:
    """A function or factory of the contract that calls modules of this class, and a line about it.

    Raises `Uncallable` where no part of the contract has the module's parameters, and where each call raises.
    """
    words = roles.words(made.__name__).replace("layer", "block").split("_")
    # a part is like a class with its words, and unlike one that lacks them
    by_likeness = sorted(PARTS[contract], key=lambda part: sum(1 - 2 * (w in words) for w in part.name.split()))
    trials = product(by_likeness, TRIALS.get(contract, ({},)))
    layer, note = _fitting(lambda *trial: Layer(made, name, contract, given, written, *trial), trials)
    return layer.as_function(), "; ".join([*layer.notes(), *note])


def _fitting(make: Callable[..., Layer], trials: Iterable[tuple[Part, Given]]) -> tuple[Layer, list[str]]:
    """The first layer that computes the formula in its trial; otherwise the first that can be called, with a note.

    Raises `Uncallable` with the complaint about the part that lacks the least.
    """
    complaints, differing = [], []
    for trial in trials:
        try:
            layer = make(*trial)
            if layer.computes():
                return layer, []
            differing.append(layer)
        except Uncallable as error:
            complaints.append(str(error))
    if differing:
        return differing[0], ["its result differs from the contract's formula in a trial call"]
    raise Uncallable(min(complaints, key=lambda says: (".forward takes " in says, len(says))))


class Layer:
    """A class of modules as one part of a contract. `unusual` is that of the trial."""

    def __init__(
        self, made: type, name: str, contract: str, given: Given, written: Mapping[str, str], part: Part, unusual: Given
    ) -> None:
        self.made, self.name, self.contract, self.part, self.written = made, name, contract, part, written
        self.arguments = roles.constructor(made, name, given, SIZES)
        self.forward = _forward(made, name, contract, part)
        self.takes = frozenset(self.forward.values())
        self.way, self.names = Way(), dict[str, tuple[str, ...]]()
        is_padded = bool(self.takes & {"lengths", "padding", "source mask", "mask", "state"})
        self.call, expected = _trial(contract, tuple(unusual.items()), is_padded)
        self.expected = torch.as_tensor(expected)
        self._assigned = cache(self._assign)
        self.names = self._names(self.call)

    def computes(self) -> bool:
        """Whether the module computes the formula in some way, which it keeps; otherwise the first way that works.

        Raises `Uncallable` where each way raises.
        """
        works: Way | None = None
        for way in self._ways():
            output = self._tried(way)
            if near(output, self.expected):
                return True
            works = works or (None if output is None else way)
        self.way = works or next(self._ways())
        if works is None:
            with self._explained():
                self._run(self.call)
        return False

    def _tried(self, way: Way) -> Tensor | None:
        """The output of the trial if the part is called in this way; None where it raises."""
        self.way = way
        try:
            return self._run(self.call)
        except Exception:
            return None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise an error of the module as `Uncallable`, in one line."""
        try:
            yield
        except Uncallable:
            raise
        except Exception as error:
            says = f"{self.name}.forward raises {roles.raised(error)}"
            begins = "; its first state is that of init_state(states, lengths), else [states, lengths, [None] × blocks]"
            raise Uncallable(says + begins * ("state" in self.takes)) from None

    def _ways(self) -> Iterator[Way]:
        """The ways in which the part may be called."""
        forms, decodes = list(FORMS), bool({"target", "memory", "state"} & {*self.part.inputs, *self.takes})
        modes = [(False, False), (True, False), (False, True)] if decodes else [(False, False)]
        stepwise = "state" in self.takes and self.contract == "transformer"
        for steps, training in (mode for mode in modes if stepwise or not mode[0]):
            for padding in forms if self.takes & {"padding", "source mask", "mask"} else forms[:1]:
                for causal in ("visible", "hidden", "added") if decodes and "mask" in self.takes else forms[:1]:
                    yield Way(padding, causal, training, steps)

    def notes(self) -> Iterator[str]:
        """What is tested, and what is unusual about the module."""
        stands = self.contract if self.part.name in ("model", "layer") else f"the {self.part.name} of {self.contract}"
        mode = "training mode without dropout" if self.way.training else "evaluation mode"
        yield f"{self.name} is tested as {stands} in {mode}; tests set its weights: {shown(self.names)}"
        if self.way.training:
            yield "it hides later positions in training mode alone"
        if self.way.stepwise:
            yield "it hides no later positions in evaluation mode, so targets are decoded token by token"
        if unused := self._unused():
            yield f"forward does not use {', '.join(unused)}"
        with torch.no_grad():
            if differ(self._run(self.call), self._run(self.call)):
                yield RANDOM

    def _unused(self) -> list[str]:
        """The parameters on which the output of the trial does not depend."""
        tensors = {**self.call.tensors, **self.call.weights}

        def run(leaves: Weights) -> Tensor:
            inputs, weights = ({name: leaves[name] for name in own} for own in (self.call.tensors, self.call.weights))
            return self._run(replace(self.call, tensors=inputs, weights=weights))

        full = [self._own_of({name: tensors[name]}) for name in unused(run, tensors)]
        rest = {short for names in full for short in names}
        return [parameter for parameter, own in self.names.items() if own and rest.issuperset(own)]

    # The contract's function

    def as_function(self) -> Callable[..., Any]:
        """The function or factory, with the parameters that tests of this module may use."""
        if self.call.config is not None:
            return as_parameters(self.factory, ("config", "weights"), ["greedy"], self.made)
        options = [*self.options, *["attn_mask"] * ("lengths" in self.takes)]
        return as_parameters(self._computed, self.call.positional, options, self.made)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of a function's contract, and what the module computes."""
        return {**USUAL.get(self.contract, {}), **self.call.options}

    def _run(self, call: Call) -> Tensor:
        inputs = [call.tensors[name] for name in call.positional if name in call.tensors]
        options: dict[str, Any] = dict(call.options)
        is_function = call.config is None
        output: Tensor = (self._computed if is_function else self.factory(call.config or {}, call.weights))(
            *inputs, **options
        )
        return output

    def _computed(self, *inputs: Tensor, attn_mask: Tensor | None = None, **options: Any) -> Tensor:
        """The layer's output for the inputs and weights of a function's contract."""
        for option, computes in self.options.items():
            if options.get(option, USUAL[self.contract][option]) != computes:
                raise NotImplementedError(f"the module computes {option} {computes!r} alone")
        named = dict(zip(self.call.positional, inputs, strict=True))
        given = {name: named[name] for name in self.part.inputs}
        if attn_mask is not None:
            items, queries, keys = *named["query"].shape[:2], named["key"].shape[1]
            given["lengths"] = roles.lengths_of(attn_mask.expand(items, -1, keys), queries)
        module = self._new(_sizes_of_layer(self.contract, named))
        output: Tensor = output_of(self._called(module, given, self._own_of(named)))
        return output

    def factory(self, config: Given, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Any:
        """The contract's model, with modules of this class in place of their part."""
        for key, value in (self.call.config or {}).items():
            if key != "decoding" and isinstance(value, str | None) and config[key] != value:
                raise NotImplementedError(f"the module has {key} {value!r} alone, and the test {config[key]!r}")
        host = self._host(self._modules(config, weights))
        return host.compute(config, weights, **({} if greedy is None else {"greedy": greedy}))

    def _host(self, call: Callable[..., Any]) -> Any:
        """The suite's model, whose steps call the module."""
        host = copy(_maker(self.contract).eager)
        for check in ("check_config", "check_weights", "check_inputs", "check_images", "check_greedy"):
            if hasattr(host, check):
                setattr(host, check, partial(_refused, getattr(host, check)))
        for step, computed in STEPS[self.contract, self.part.name].items():
            setattr(host, step, partial(computed, host, self, call))
        return host

    def _modules(self, config: Given, weights: Weights | None) -> Callable[..., Any]:
        """A function that calls the part, or the part of a number, with inputs by meaning; with its own weights."""
        count = config[self.part.count] if self.part.count else 1
        own = [None if weights is None else self._own_of(weights, number) for number in range(count)]
        if not any(part is None or part for part in own):
            raise NotImplementedError(f"the test has no {self.part.name}")
        modules = [self._new(_sizes_of_model(self.contract, self.part, config, number)) for number in range(count)]

        def call(given: Given, number: int = 0, training: bool | None = None) -> Any:
            module = modules[number].train(self.way.training if training is None else training)
            return self._called(module, given, own[number], config)

        call.modules = modules  # type: ignore[attr-defined]
        return call

    def _own_of(self, weights: Mapping[str, Any], number: int = 0) -> dict[str, Any]:
        """The weights of the part of this number, by the rest of their names where there are several parts."""
        if not self.part.count:
            inputs = self.part.inputs if self.call.config is None else ()
            return {n: w for n, w in weights.items() if n not in inputs and re.match(self.part.weights, n)}
        matches = {name: re.match(self.part.weights, name) for name in weights}
        return {name[m.end() :]: weights[name] for name, m in matches.items() if m and int(m[1]) == number}

    def _new(self, sizes: Given) -> nn.Module:
        """A new module of these sizes."""
        usual = {"length": LENGTH, "usual_width": sizes.get("width"), "key_heads": sizes.get("heads")}
        dropout = 0.0 if self.way.training else DROPPED
        arguments = self.arguments({**usual, "dropout": dropout, **sizes})
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "dropout option adds dropout")  # of one recurrent layer
                module: nn.Module = self.made(**arguments)
        except Exception as error:
            raise Uncallable(roles.unmade(self.name, arguments, error)) from None
        roles.refuse_quantised(module, self.name)
        if self.way.training:
            _stop_dropout(module)
        return module.train(self.way.training)

    def _called(self, module: nn.Module, given: Given, weights: Weights | None, config: Given | None = None) -> Any:
        """What the module returns for inputs by meaning, with these weights, or with its own."""
        arguments = self._arguments(given)
        like = next(iter((weights or self.call.weights or self.call.tensors).values()))
        module.to(like.device, like.dtype)
        if weights is None:
            return module(**arguments)
        values = values_of(module, weights, self.names if config is None else self._assigned(_structure(config)))
        try:
            return functional_call(module, values, (), arguments)
        except (RuntimeError, IndexError) as error:
            longest = max((x.shape[1] for x in given.values() if isinstance(x, Tensor) and x.dim() > 1), default=0)
            if longest > LENGTH:
                raise NotImplementedError(f"{longest} positions are too many for the module: {error}") from None
            if any(isinstance(x, Tensor) and len(x) == 0 for x in given.values()):
                raise NotImplementedError(f"{roles.EMPTY_BATCH}: {error}") from None
            raise

    def _arguments(self, given: Given) -> dict[str, Any]:
        """The arguments of `forward`. NotImplementedError where something is hidden that it cannot hide."""
        within = given.get("within")
        can_hide = self.takes & {"lengths", "padding", "source mask", "state"} or (
            "mask" in self.takes and "memory" not in self.part.inputs
        )
        if within is not None and not can_hide and not bool(within.all()):
            raise NotImplementedError("forward takes neither lengths nor a mask of the source")
        padding = None if within is None else FORMS[self.way.padding](within)
        causal = None if "causal" not in given else FORMS[self.way.causal](given["causal"])
        masks = {"padding": padding, "source mask": padding, "mask": padding if causal is None else causal}
        return {parameter: masks.get(meaning, given.get(meaning)) for parameter, meaning in self.forward.items()}

    # Roles

    def _assign(self, structure: tuple[tuple[str, Any], ...]) -> dict[str, tuple[str, ...]]:
        """The weights by parameter in models of this structure, from a model with the trial's sizes, all different."""
        config = {**(self.call.config or {}), **dict(structure)}
        make = _maker(self.contract)
        weights = {
            name: torch.from_numpy(array) for name, array in make.weights(config, generator("structure")).items()
        }
        try:
            return self._names(replace(self.call, config=config, weights=weights))
        except Uncallable as error:
            raise NotImplementedError(f"the test's model has other weights: {str(error).partition(': ')[2]}") from None

    def _names(self, call: Call) -> dict[str, tuple[str, ...]]:
        """The weights by parameter in the module of a call. Raises `Uncallable` where roles are not clear."""
        if call.config is None:
            module = self._new(_sizes_of_layer(self.contract, call.tensors))
            run = partial(self._called, module, {name: call.tensors[name] for name in self.part.inputs}, None)
            own = self._own_of(call.tensors)
        else:
            called = self._modules(call.config, None)
            module, own = called.modules[0], self._own_of(call.weights)  # type: ignore[attr-defined]
            model = self._host(called).compute(call.config, call.weights)
            names = [name for name in call.positional if name != "target" or call.config.get("decoder_blocks", 1)]
            run = partial(model, *(call.tensors[name] for name in names))
        if any(map(is_lazy, module.parameters())):
            with self._explained():
                run()
        shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
        return assign(shapes, {name: tuple(tensor.shape) for name, tensor in own.items()}, self.name, self.written)


def _sizes_of_model(contract: str, part: Part, config: Given, number: int) -> dict[str, Any]:
    """The sizes of a part of a model by meaning."""
    decodes = "target" in part.weights or part.name.startswith("decoder")
    width = config.get("width", config.get("hidden"))
    sizes = {"width": width, "embedding": config.get("embedding", width), "number": number, **config}
    if contract == "vision_transformer":
        return {**sizes, "inner": config["mlp_width"], "image": (config["image_height"], config["image_width"])}
    sizes["vocab"] = config["target_vocab" if decodes else "source_vocab"]
    if contract == "transformer":
        return {**sizes, "inner": config["ffn_width"], "blocks": config[f"{'de' if decodes else 'en'}coder_blocks"]}
    return {**sizes, "blocks": config["layers"]}


def _sizes_of_layer(contract: str, tensors: Weights) -> dict[str, Any]:
    """The sizes of a layer by meaning, from its inputs and weights."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if contract == "positionwise_ffn":
        return {"inputs": shapes["w1"][0], "inner": shapes["w1"][1], "width": shapes["w2"][1]}
    if contract == "add_norm":
        return {"width": shapes["weight"][0]}
    if contract == "additive_attention":
        return {"width": shapes["w_query"][1]}
    width, channels, side = shapes["weight"][:3]
    return {"width": width, "embedding": width, "channels": channels, "patch": side, "image": shapes["image"][2:]}


def _forward(made: type, name: str, contract: str, part: Part) -> dict[str, str]:
    """The meaning of each parameter of `forward` that tests give. Raises `Uncallable` where it needs others."""
    parameters = roles.named_parameters(made.forward)[1:]  # type: ignore[attr-defined]
    meanings = {parameter.name: roles.meaning_of(parameter.name, INPUTS, "input") for parameter in parameters}
    if "padding" in meanings.values():  # a mask of the source next to it is that of queries and keys
        meanings = {parameter: meaning for parameter, meaning in meanings.items() if meaning != "source mask"}
    inputs = [parameter for parameter, meaning in meanings.items() if meaning == "input"]
    expected = [meaning for meaning in part.inputs if meaning not in meanings.values()]
    if "state" in meanings.values() and "memory" in expected:
        expected.remove("memory")
    required = [p.name for p in parameters if p.default is p.empty and meanings.get(p.name) in ("input", "")]
    if len(inputs) < len(expected):
        raise Uncallable(f"{name}.forward takes {', '.join(inputs)}; expected {', '.join(expected)}")
    if strange := [parameter for parameter in required if parameter not in inputs[: len(expected)]]:
        needs = f"{name}.forward needs {', '.join(strange)}, which no test of {contract} gives"
        raise Uncallable(f"{needs}: give it a default")
    options = {parameter: meaning for parameter, meaning in meanings.items() if meaning not in ("input", "")}
    return {**dict(zip(inputs, expected, strict=False)), **options}


def _stop_dropout(module: nn.Module) -> None:
    """Set all probabilities of dropout to 0."""
    for inner in module.modules():
        if isinstance(inner, nn.modules.dropout._DropoutNd):
            inner.p = 0.0
        elif isinstance(inner, nn.MultiheadAttention):
            inner.dropout = 0.0


@cache
def _maker(contract: str) -> Any:
    """What makes the cases of a contract."""
    module = import_module(HOMES[contract])
    return getattr(module, "model", None) or module.case


@cache
def _trial(contract: str, unusual: tuple[tuple[str, Any], ...], is_padded: bool) -> tuple[Call, Any]:
    """A call in float64 whose sizes all differ, and the expected output."""
    make, changed = _maker(contract), dict(unusual)
    if contract in ("transformer", "seq2seq_attention"):
        lengths = (7, 4, 2) if is_padded else (7, 7, 7)
        case = make("trial/call", "lengths of several items", {**make.usual, **changed}, lengths=lengths)
    elif contract == "vision_transformer":
        case = make("trial/call", "images", {**make.usual, **changed})
    else:
        case = make("trial/call", "inputs", **changed)
    calls = case.calls("float64")
    return calls[0], case.expected(calls, {})[0].numbers


def _structure(config: Given) -> tuple[tuple[str, Any], ...]:
    """The entries of a config that decide which weights there are."""
    decides = "blocks", "layers", "pooling", "score", "cell", "classes"
    return tuple(
        (key, min(value, 10) if key == "classes" else value) for key, value in config.items() if key.endswith(decides)
    )


def _refused(check: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a check. NotImplementedError where it refuses bad input, which the module never gets."""
    try:
        return check(*arguments)
    except ValueError:
        raise NotImplementedError("the suite checks config, weights and inputs before a module gets them") from None


def _short(own: Sequence[str]) -> str:
    """The name of a weight, or of several in one parameter: `attention.qkv`."""
    prefix, dot, _ = own[0].rpartition(".")
    short = {weight: letter for letter, weight in roles.ROLES.items()}
    return prefix + dot + "".join(short.get(name.rpartition(".")[2], name[len(prefix + dot) :]) for name in own)


def shown(names: Mapping[str, Sequence[str]]) -> str:
    """The layer of each weight, in one line; * stands for the number of a block."""
    by_weight = {
        NUMBER.sub("*", _short(own)): NUMBER.sub("*", roles.layer_of(parameter))
        for parameter, own in names.items()
        if own and not re.search(r"\bb(ias$|\d|_)", own[0])
    }
    return ", ".join(f"{weight} = {layer}" for weight, layer in by_weight.items())


def near(actual: Any, expected: Tensor | None, error: float = EQUAL) -> bool:
    """Whether a result is a tensor within this error of the expected one, relative to its largest element."""
    if not isinstance(actual, Tensor) or expected is None or actual.shape != expected.shape:
        return False
    return bool((actual - expected).abs().max() <= error * (1 + expected.abs().max()))


def differ(first: Any, second: Any) -> bool:
    """Whether two equal calls differ. NaN in the same places is equal."""
    one, other = (output.nan_to_num() if isinstance(output, Tensor) else None for output in (first, second))
    return not near(one, other)


def unused(run: Callable[[Weights], Tensor], tensors: Weights) -> list[str]:
    """The names of the tensors of real numbers on which an output does not depend."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items() if tensor.is_floating_point()}
    with torch.enable_grad():
        output = run({**tensors, **leaves})
        if not output.requires_grad:
            return [*leaves]
        gradients: Any = torch.autograd.grad(output.sum(), [*leaves.values()], allow_unused=True)
    return [name for name, gradient in zip(leaves, gradients, strict=True) if gradient is None]


def as_parameters(
    target: Callable[..., Any], inputs: Iterable[str], options: Iterable[str], made: type
) -> Callable[..., Any]:
    """A function with these parameters, and with what the author of a class declares; it calls the target."""

    def layer(*values: Any, **named: Any) -> Any:
        return target(*values, **named)

    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in inputs]
    parameters += [kinds(name, kinds.KEYWORD_ONLY, default=None) for name in options]
    layer.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    if hasattr(made, "__attnsuite__"):
        layer.__attnsuite__ = made.__attnsuite__  # type: ignore[attr-defined]
    return layer


# Weights


def assign(
    shapes: Shapes,
    weights: Shapes,
    name: str,
    written: Mapping[str, str] | None = None,
    optional: Collection[str] = (),
    hint: str = "",
) -> dict[str, tuple[str, ...]]:
    """The weights of a contract by parameter, several for a fused one, none for a bias that the contract lacks.

    Shapes of weights have to differ where their roles do. Weights of one shape have the roles that names show, else the
    order of the contract. Raises `Uncallable`, with the hint, for a parameter without a weight and for a weight without
    a parameter, unless that is `optional`: the weights of a multi-head attention, whose sizes alone show no role.
    """
    ordered = sorted(shapes, key=lambda parameter: "dec" in parameter.lower())  # an encoder comes first
    assigned = _attentions(ordered, shapes, weights, written or {}, name)

    def missing() -> list[str]:
        taken = {weight for own in assigned.values() for weight in own}
        return [weight for weight in weights if weight not in taken and weight not in optional]

    def pair(dimensions: int) -> None:
        """Pair the remaining parameters and weights of equal sizes, in order."""
        free = missing()
        for parameter in ordered:
            size = _size(shapes[parameter])
            if optional or parameter in assigned or len(size) != dimensions:
                continue
            if same := next((weight for weight in free if _size(weights[weight]) == size), ""):
                free.remove(same)
                assigned[parameter] = (same,)

    pair(2)
    for parameter, own in [*assigned.items()]:
        bias = re.sub(r"weight(?=\w*$)", "bias", parameter)
        if bias != parameter and bias in shapes:
            biases = tuple(bias_of for weight in own if (bias_of := _bias_of(weight)) in weights)
            assigned[bias] = biases
    pair(1)
    strange = [parameter for parameter in ordered if parameter not in assigned]
    if strange or missing():
        says = [f"no role for {roles.listed(strange)}"] * bool(strange)
        says += [f"no weights for {roles.listed(missing())}"] * bool(missing())
        has = f"{name} has parameters {roles.listed(map(roles.layer_of, ordered))}"
        raise Uncallable(f"{has}: {' and '.join(says)}{hint}")
    return {parameter: assigned[parameter] for parameter in ordered}


def _attentions(
    ordered: Sequence[str], shapes: Shapes, weights: Shapes, written: Mapping[str, str], name: str
) -> dict[str, tuple[str, ...]]:
    """The maps of queries, keys, values and outputs by parameter: those of one attention after the other."""
    short = {weight: letter for letter, weight in roles.ROLES.items()}
    places: dict[str, dict[str, str]] = {}
    for weight in weights:
        prefix, _, last = weight.rpartition(".")
        if last in short:
            places.setdefault(prefix, {})[short[last]] = weight
    sizes = {_size(weights[weight]) for own in places.values() for weight in own.values()}
    fused = {tuple(sorted((min(size), times * max(size)))) for size in sizes for times in (2, 3)}
    alone = sizes - {_size(shape) for weight, shape in weights.items() if weight.rpartition(".")[2] not in short}
    layers = {
        parameter: roles.layer_of(parameter) for parameter in ordered if _size(shapes[parameter]) in sizes | fused
    }
    by_layer = roles.roles_of_layers(layers, name, written)
    sets: list[dict[str, str]] = []
    letters = set().union(*places.values()) if places else set()
    for parameter, layer in layers.items():
        role = by_layer[layer]
        if not role and _size(shapes[parameter]) in alone:
            had = {*"".join(sets[-1])} if sets else letters
            role = next((letter for letter in roles.ROLES if letter in letters - had), next(iter(roles.ROLES)))
            if role != "o" and any(by_layer.values()):  # names show some of the others
                continue
        if role and {*role} <= letters and (len(role) > 1) == (_size(shapes[parameter]) in fused):
            if not sets or {*role} & {*"".join(sets[-1])}:
                sets.append({})
            sets[-1][role] = parameter
    return {
        parameter: tuple(own[letter] for letter in role)
        for own, assigned in zip(places.values(), sets, strict=False)
        for role, parameter in assigned.items()
    }


def _size(shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a matrix or a vector, whichever way it is stored: a convolution's kernel is one axis."""
    sizes = [size for size in shape if size != 1] or [1]
    return tuple(sorted((sizes[0], prod(sizes[1:])))) if len(sizes) > 1 else (sizes[0],)


def _bias_of(weight: str) -> str:
    """The contract's name of the bias of a weight: `ffn.w1` has `ffn.b1`."""
    return re.sub(r"(^|\.)w(?=\d|_)", r"\1b", re.sub("weight$", "bias", weight))


def values_of(
    module: nn.Module,
    weights: Weights,
    names: Mapping[str, tuple[str, ...]],
    *,
    heads: int = 1,
    by_head: bool = False,
    turned: bool = False,
) -> dict[str, Tensor]:
    """The values of a module's parameters; a matrix comes before its bias. A `*` stands for the number of a head.

    `by_head`: fused ones have the columns of one head after the other. `turned`: see `_as_stored`.
    """
    values: dict[str, Tensor] = {}
    for starred, own in sorted(names.items(), key=lambda pair: "bias" in pair[0]):
        parameters = [starred.replace("*", str(head)) for head in range(heads)] if "*" in starred else [starred]
        whole = _fused([weights[name] for name in own], heads if by_head else 1) if own else None
        parts = [None] * len(parameters) if whole is None else whole.chunk(len(parameters), -1)
        for parameter, part in zip(parameters, parts, strict=True):
            stored: Any = module.get_parameter(parameter)
            shape = () if is_lazy(stored) else tuple(stored.shape)
            if part is None:
                matrix = values[parameter.replace("bias", "weight")]
                part = matrix.new_zeros(shape or len(matrix))
            values[parameter] = _as_stored(part, parameter, module, shape, turned)
    return values


def _fused(weights: Sequence[Tensor], heads: int) -> Tensor:
    """Weights (in, out) side by side, those of a head next to each other. NotImplementedError where inputs differ."""
    if len({weight.shape[:-1] for weight in weights}) > 1:
        raise NotImplementedError("the module has one matrix for several inputs, and here their widths differ")
    if len(weights) == 1:
        return weights[0]
    together = torch.stack([weight.unflatten(-1, (heads, -1)) for weight in weights], -2) if heads > 1 else None
    return torch.cat([*weights], -1) if together is None else together.flatten(-3)


def _as_stored(value: Tensor, name: str, module: nn.Module, shape: tuple[int, ...], turned: bool = False) -> Tensor:
    """A weight (in, out) as the module stores it; a lazy one has no shape. NotImplementedError for another shape.

    `turned`: square parameters that are no layer's are stored (out, in), and those of another layer than Linear (in,
    out).
    """
    owner: Any = module.get_submodule(name.rpartition(".")[0])
    is_turned = "weight" in name.rpartition(".")[2] and not isinstance(owner, nn.Embedding)
    is_turned ^= turned and not isinstance(owner, nn.Linear)
    ways = [value.T, value][:: 1 if is_turned else -1] if value.dim() == 2 else [value]
    if not shape and value.dim() > 1 and hasattr(owner, "kernel_size"):
        return ways[0].reshape(len(ways[0]), -1, *owner.kernel_size)
    if not shape:
        return ways[0][None] if is_turned and value.dim() == 1 else ways[0]
    flat = (shape[0], prod(shape[1:])) if len(shape) > 2 else shape  # of a convolution
    for way in ways:
        if _plain(way.shape) in (_plain(shape), _plain(flat)):
            return way.reshape(shape)
    raise NotImplementedError(f"{name} has shape {shape}, and the test has a weight {tuple(value.shape)} for it")


def _plain(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)
