"""Steps of the suite's models that call a module in place of their own computation.

Each step gets the suite's model, the layer, a function that calls the module, and the arguments of the replaced step.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

Config = Mapping[str, Any]
Step = Callable[..., Any]
Caller = Any
"""`call(inputs by meaning, number of the part)`, with the modules as its attribute."""


def output_of(returned: Any) -> Any:
    """The output in what a module returns: the first of several."""
    return returned[0] if isinstance(returned, tuple | list) and returned else returned


def _causal(x: Tensor) -> Tensor:
    """The visible positions of a target, t t."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()


def _encoded(host: Any, layer: Any, call: Caller, config: Config, weights: Any, source: Tensor, within: Tensor) -> Any:
    """The states of an encoder, b s d."""
    padded = {"within": within, "lengths": within[:, 0, 0].sum(-1)}
    if not layer.part.count:
        return output_of(call({"x": source, **padded}))
    states = host.embed(source, weights["source_embedding"], 0)
    for number in range(config["encoder_blocks"]):
        states = output_of(call({"x": states, **padded}, number))
    return states


def _decoded(host: Any, layer: Any, call: Caller, *arguments: Any, stepwise: bool | None = None) -> Any:
    """The logits for a target at once, or token by token."""
    config, weights, _, states, within, target = arguments
    if stepwise and "state" not in layer.takes:
        raise NotImplementedError("the module decodes whole targets: forward takes no state")
    stepwise = layer.way.stepwise if stepwise is None else stepwise
    count, is_block, first = config["decoder_blocks"], bool(layer.part.count), call.modules[0]
    given = {"memory": states, "within": within, "lengths": within[:, 0, 0].sum(-1)}
    state: Any = [states, given["lengths"], [None] * count]
    state = first.init_state(*state[:2]) if hasattr(first, "init_state") else state
    tokens = host.embed(target, weights["target_embedding"], 0) if is_block else target
    outputs = []
    for x in tokens.split(1, 1) if stepwise else [tokens]:
        for number in range(count if is_block else 1):
            arguments = {**given, "x": x, "causal": _causal(x), "state": state}, number
            returned = call(*arguments, layer.way.training and not stepwise)
            x, state = returned if "state" in layer.takes else (output_of(returned), state)
        outputs.append(x)
    output = torch.cat(outputs, 1)
    return host.logits(output, weights) if is_block else output


def _translated(host: Any, layer: Any, call: Caller, config: Config, *arguments: Any) -> Any:
    """The logits of a whole model, of either contract that translates."""
    source, lengths, *rest = arguments[3:]
    _, _, target = host.check_inputs(config, source, lengths, rest[0] if rest else None)
    if target is None or config.get("decoding") == "cached":
        raise NotImplementedError("the module takes a source and a whole target")
    within = torch.arange(source.shape[1], device=source.device) < lengths[:, None, None, None]
    given = {"source": source, "target": target, "lengths": lengths, "within": within, "causal": _causal(target)}
    logits = output_of(call(given))
    return logits if layer.contract == "transformer" else (logits, {})


def _recurrent(host: Any, layer: Any, call: Caller, config: Config, weights: Any, *arguments: Any) -> Any:
    """The logits of a decoder whose state begins with the states of the suite's encoder."""
    source, lengths, target = host.check_inputs(config, *arguments[2:])
    history = host.encode(config, weights, source)  # s layers parts b d
    state = call.modules[0].init_state((history[:, -1, 0], history[-1, :, 0]), lengths)
    return output_of(call({"x": target, "state": state})), {}


def _mixed(host: Any, layer: Any, call: Caller, config: Config, weights: Any, x: Tensor) -> Any:
    """The positions after all blocks, b n d."""
    for number in range(config["blocks"]):
        x = output_of(call({"x": x}, number))
    return x


def _classified(host: Any, layer: Any, call: Caller, config: Config, *arguments: Any) -> Any:
    """The logits of images, b k."""
    *_, dtype, images = arguments
    return output_of(call({"images": host.check_images(config, images, dtype)}))


DECODER: dict[str, Step] = {"full": _decoded, "cached": partial(_decoded, stepwise=True)}
STEPS: dict[tuple[str, str], dict[str, Step]] = {
    ("transformer", "model"): {"run": _translated},
    ("transformer", "encoder block"): {"encode": _encoded},
    ("transformer", "encoder"): {"encode": _encoded},
    ("transformer", "decoder block"): DECODER,
    ("transformer", "decoder"): DECODER,
    ("seq2seq_attention", "model"): {"run": _translated},
    ("seq2seq_attention", "decoder"): {"run": _recurrent},
    ("seq2seq_attention", "encoder"): {
        "encode": lambda host, layer, call, config, weights, source: call({"x": source}),
        "memory": lambda host, layer, call, pair: pair[0].movedim(0, 1),
        "hand_on": lambda host, layer, call, pair, lengths: pair[1][:, None],
    },
    ("vision_transformer", "model"): {"run": _classified},
    ("vision_transformer", "block"): {"blocks": _mixed},
}
"""The replaced steps by contract and part."""
