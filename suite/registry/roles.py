"""The roles of a module's parameters, of its constructor's arguments and of its inputs, recognised by their names."""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from attnsuite.model import UsageError
from attnsuite.registry.declaration import Uncallable

ROLES = {"q": "w_query", "k": "w_key", "v": "w_value", "o": "w_output"}
"""Short names of the projections, and the contract's names of their weights."""
FUSED = ("qkv", "kv")
"""Roles of a matrix that has several projections below each other."""
NAMES = {
    "qkv": r"qkv|kqv|in_proj|c_attn|query_key_value",
    "kv": r"(?<![a-z])(to_?)?kv(?![a-z])|key_value",
    "q": r"(?<![a-z])[wb]?(to)?_?(qs?|query|queries)(?![a-z])",
    "k": r"(?<![a-z])[wb]?(to)?_?(ks?|keys?)(?![a-z])",
    "v": r"(?<![a-z])[wb]?(to)?_?(vs?|values?)(?![a-z])",
    "o": r"out|(?<![a-z])[wb]?(to)?_?o(?![a-z])|dense|unify|final|(?<![a-z])(c_)?proj(ection)?(?![a-z])|merge|combine",
}
"""Names of a module's matrices and biases by role, the first that fits."""
SIZES = {
    "dropout": r"drop|^p$",
    "bias": r"bias",
    "length": r"^(?!.*dim).*(context|block|max|len|seq|n_ctx|position)",
    "value_head": r"^d_?v$|value_?(head_?)?(dim|size)",
    "key_heads": r"(kv|key_?value)_?(head|group)|query_?group|heads?_?kv|^(n|num|h)_?kv$|(^|_)groups$",
    "head": r"head_?(dim|size|width)|dim_?head|^d_?(k|q|h|head|keys)$",
    "heads": r"head|^n?h$",
    "inputs": r"^(d|dim|n|size|c)?_?in(puts?)?(_?(dim|size|features|channels|put))?$",
    "width": r"dim|width|emb|model|hidden|feat|size|channels|units|^d$|^c$|^(d|dim|n|size|c)?_?out(put)?(_|$)",
}
"""Names of a constructor's arguments by meaning, the first that fits."""
INPUTS = {
    "mask": r"mask",
    "lengths": r"len",
    "is_causal": r"causal",
    "key and value": r"context|memory|encoder|kv|key_?value|(?<![a-z])(y|x2|source|src)(?![a-z])",
    "query": r"(?<![a-z])(x_?)?(q|query|queries)(?![a-z])",
    "key": r"(?<![a-z])(x_?)?(k|key|keys)(?![a-z])",
    "value": r"(?<![a-z])(x_?)?(v|value|values)(?![a-z])",
}
"""Names of the parameters of `forward` by meaning, the first that fits."""
WEIGHTED = "multi_head_attention"
"""The contract of classes with weights of their own, unless the user or a name says otherwise."""
CONTRACTS = {
    "positionwise_ffn": r"ffn|feed_?forward|mlp",
    "patch_embedding": r"patch",
    "add_norm": r"add_?(and_)?norm",
    "multi_head_attention": r"^(?!.*(additive|bahdanau)).*(attention|attn)$",
    "seq2seq_attention": r"seq2_?seq|seq_to_seq|(attention|bahdanau)_?(en|de)coder",
    "additive_attention": r"additive|bahdanau",
    "vision_transformer": r"(?<![a-z])vi_?t(?![a-z])|vision",
    "transformer": r"transformer|encoder|decoder",
}
"""Names of classes with weights by contract, the first that fits; others are multi-head attentions."""
ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
EMPTY_BATCH = "the module takes no empty batch"
"""Why a call without items is unsupported where a module raises."""
MAX_NAMED = 8
"""Names of parameters in a message."""


def weights_in(text: str) -> dict[str, str]:
    """The layers by role in `q=lin_Q,k=lin_K`. UsageError for another form."""
    pairs = [pair.strip().partition("=") for pair in text.split(",")]
    if not all(role in (*ROLES, *FUSED) and layer for role, _, layer in pairs):
        raise UsageError(
            f"--weights {text}: expected layers by role, as q=lin_Q,k=lin_K; roles are q, k, v, o, qkv, kv"
        )
    return {role: layer for role, _, layer in pairs}


def words(name: str) -> str:
    """A name in small letters, with _ between its words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def meaning_of(name: str, names: Mapping[str, str], otherwise: str = "") -> str:
    """The first meaning whose pattern a name fits."""
    return next((role for role, pattern in names.items() if re.search(pattern, words(name))), otherwise)


class Config:
    """A constructor's only argument, an object or a mapping of settings: each is found by its name."""

    def __init__(self, sizes: Mapping[str, Any], table: Mapping[str, str]) -> None:
        self._sizes, self._table = sizes, table

    def __getattr__(self, name: str) -> Any:
        meaning = meaning_of(name, self._table)
        value = True if meaning == "bias" else self._sizes.get(meaning)
        if value is None or name.startswith("__"):
            raise AttributeError(name)
        return value

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


def constructor(
    made: type, name: str, given: Mapping[str, Any], table: Mapping[str, str] = SIZES
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The arguments of a class for sizes by meaning; those without a size are as `given`, or raise `Uncallable`."""
    parameters = named_parameters(made)
    meanings = {
        parameter.name: _of_default(meaning_of(parameter.name, table), parameter.default)
        for parameter in parameters
        if not isinstance(parameter.default, bool)
    }
    if "width" not in meanings.values() and "inputs" in meanings.values():
        meanings = {key: "width" if value == "inputs" else value for key, value in meanings.items()}
    elif {"head", "heads", "inputs"} & {*meanings.values()} == {"head"}:  # one head, of a size of its own
        meanings = {key: "inputs" if value == "width" else value for key, value in meanings.items()}
    required = needed(parameters, given)
    unknown = [name for name in required if not meanings[name]]
    if len(parameters) == 1 and unknown and re.search("conf|cfg|args|param|hp", unknown[0].lower()):
        return lambda sizes: {unknown[0]: Config(sizes, table)}
    _refuse_sizes(made, name, meanings, unknown)

    def arguments(sizes: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: value for name, meaning in meanings.items() if (value := sizes.get(meaning)) is not None}
        return {**dict.fromkeys(required, True), **given, **known}

    return arguments


def _of_default(meaning: str, default: Any) -> str:
    """The meaning of an argument with this default; none for a number with a fraction that is no probability."""
    if meaning == "dropout":
        return meaning if default is inspect.Parameter.empty or default in (0, 1) or isinstance(default, float) else ""
    return "" if isinstance(default, float) else meaning


def named_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function that have names, without *args and **kwargs."""
    parameters = inspect.signature(function).parameters.values()
    return [parameter for parameter in parameters if parameter.kind not in ANY_NUMBER]


def needed(parameters: Iterable[inspect.Parameter], given: Collection[str] = ()) -> list[str]:
    """The names of the parameters without a default that are not given."""
    return [item.name for item in parameters if item.default is item.empty and item.name not in given]


def _refuse_sizes(made: type, name: str, meanings: Mapping[str, str], unknown: Sequence[str]) -> None:
    """Raise `Uncallable` for arguments of unknown meaning, and where none is a width."""
    if unknown:
        write = f"write the class with its arguments, FILE.py:{made.__name__}(…)"
        raise Uncallable(f"{name} is made with {', '.join(unknown)}, whose meaning is unknown; {write}")
    if not {"width", "usual_width", "head"} & {*meanings.values()}:
        takes = ", ".join(meanings) or "no arguments"
        none = "; no name shows a width" if meanings else ""
        needs = "tests need modules of several widths; name or add an argument such as width or d_model"
        raise Uncallable(f"{name} takes {takes}{none}: {needs}")


def has_heads(made: type) -> bool:
    """Whether a constructor takes a number of heads."""
    names = inspect.signature(made).parameters
    return any(meaning_of(name, SIZES) == "heads" or re.search("conf|cfg|args", name.lower()) for name in names)


def roles_of_layers(layers: Mapping[str, str], name: str, written: Mapping[str, str]) -> dict[str, str]:
    """The role of each layer, or empty where no name shows it; `layers` gives the layer of each parameter."""
    chosen = {layer: role for role, layer in written.items()}
    if strange := [layer for layer in chosen if layer not in {*layers.values(), *layers}]:
        raise Uncallable(f"{name} has no parameter {strange[0]}; there are: {listed(layers.values())}")
    roles: dict[str, str] = {}
    for parameter, layer in layers.items():
        last = "".join([part for part in layer.split(".") if not part.isdigit()][-1:])
        named = chosen.get(layer) or chosen.get(parameter)
        roles[layer] = named or roles.get(layer) or meaning_of(last, NAMES) or meaning_of(layer, NAMES)
    return roles


def unmade(
    name: str, arguments: Mapping[str, Any], error: Exception, inputs: Mapping[str, Any] | None = None
) -> str:  # fmt: skip
    """The message that a class with these arguments raises, or the first call of its module with these inputs."""
    made = f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    if inputs is None:
        return f"{made} raises {raised(error)}; write the class with its arguments, FILE.py:{name}(…)"
    shapes = ", ".join(f"{key} {_shown(value)}" for key, value in inputs.items())
    return f"{name}.forward raises {raised(error)}; it is made as {made} and gets {shapes}"


def raised(error: Exception) -> str:
    """An exception in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _shown(value: Any) -> str:
    """An input in a message: the shape of a tensor."""
    return f"of shape {tuple(value.shape)}" if hasattr(value, "shape") else f"as {type(value).__name__}"


def is_quantised(module: Any) -> bool:
    """Whether a module has quantised layers."""
    return any(re.match(r"torch\b.*quantized", type(part).__module__) for part in module.modules())


def refuse_quantised(module: Any, name: str) -> None:
    """Raise `Uncallable` for a module with quantised layers."""
    if is_quantised(module):
        raise Uncallable(f"{name} is quantised: its weights cannot be set; give the module before that")


def lengths_of(visible: Any, queries: int) -> Any:
    """The lengths of a mask, b l s or b 1 s: one for each item, or for each query. NotImplementedError for gaps."""
    lengths = visible.sum(-1)
    if bool((visible[..., 1:] & ~visible[..., :-1]).any()):
        raise NotImplementedError("the module takes lengths, and this mask has gaps")
    return lengths[:, 0] if lengths.shape[1] == 1 != queries else lengths


def layer_of(parameter: str) -> str:
    """The layer of a parameter: its name without `weight` or `bias`."""
    return re.sub(r"[._]?(weight|bias)$", "", parameter) or parameter


def listed(names: Iterable[str], most: int = MAX_NAMED) -> str:
    """The names, separated by commas: the first `most`, and how many more there are."""
    names = list(dict.fromkeys(names))
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if names[most:] else "")


def forward_of(module: Any, name: str) -> dict[str, str]:
    """The meaning of each parameter of `forward` that tests give: `query`, `key`, `value`, `x` for all three,
    `key and value` for two; `mask`, `lengths` and `is_causal`. Raises `Uncallable` where it needs others.
    """
    parameters = named_parameters(module.forward)
    meanings = {parameter.name: meaning_of(parameter.name, INPUTS) for parameter in parameters}
    by_meaning = {meaning: parameter for parameter, meaning in reversed(meanings.items())}
    options = {meaning: by_meaning[meaning] for meaning in ("mask", "lengths", "is_causal") if meaning in by_meaning}
    if "attn_mask" in meanings:
        options["mask"] = "attn_mask"
    required = needed(parameters, options.values()) or [parameter.name for parameter in parameters[:1]]
    return {**_inputs_of(required, meanings, name), **{parameter: meaning for meaning, parameter in options.items()}}


def _inputs_of(inputs: Sequence[str], meanings: Mapping[str, str], name: str) -> dict[str, str]:
    """The input of the contract for each parameter, by their number, their names or their order."""
    if len(inputs) < 3:
        return dict(zip(inputs, ("x",) if len(inputs) == 1 else ("query", "key and value"), strict=True))
    by_name = {name: meanings[name] for name in inputs if meanings[name] in ("query", "key", "value")}
    if len(inputs) == 3 and len({*by_name.values()}) != 3:
        by_name = dict(zip(inputs, ("query", "key", "value"), strict=True))
    if unknown := [name for name in inputs if name not in by_name]:
        raise Uncallable(
            f"{name}.forward needs {', '.join(unknown)}, which no test of multi_head_attention gives: give it a default"
        )
    return by_name
