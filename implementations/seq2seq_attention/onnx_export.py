"""The recurrent encoder–decoder exported to ONNX, encoder and all, and run by onnxruntime.

The steps of both are a loop of ONNX, the operator Scan. A graph depends on the config and the dtype alone: it is
exported once, with the weights as inputs. Half types are computed in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._higher_order_ops.scan import scan  # PyTorch's only loop over steps that its exporter knows; not public yet

from attnsuite import implementation
from attnsuite.implementations import _export
from attnsuite.implementations._export import Config, Exports, Model, Part, PartModule, Run, Weights
from attnsuite.implementations._greedy import by_whole_targets, check_greedy
from attnsuite.implementations.seq2seq_attention._checks import check_config, check_inputs, check_model, shapes

TRANSLATOR = {
    "source_vocab": 200,
    "target_vocab": 200,
    "embedding": 256,
    "hidden": 256,
    "layers": 2,
    "score": "additive",
    "cell": "gru",
    "window": None,
}
"""The documents' English–French translator; its vocabulary is not inputs."""
PARTS = {
    "full": "source, lengths and target in, logits out",
    "encoder": "source in, its memory and the last state of every layer out",
    "decoder": "some tokens and the states before them in, their logits and the states after them out",
}
"""The graphs of a model. Encoder and decoder together translate token by token."""

State = tuple[Tensor, ...]  # s, and for an LSTM its memory cell: layers b d


@implementation(requires=["onnx", "onnxruntime", "onnxscript"], compiles="an ONNX graph for each config")
def seq2seq_attention(config: Config, weights: Weights, *, greedy: Mapping[str, int] | None = None) -> Model:
    """Return the model of this config. Raises ValueError if the weights are not those of the config.

    With `greedy`, the tokens `begin` and `end` and a number of `steps`, it is model(source, lengths) → tokens, b steps.
    """
    dtype = check_model(config, weights)
    if greedy is not None:
        check_greedy(greedy, config["target_vocab"])
    wide = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    constants = {name: tensor.detach().to(wide) for name, tensor in weights.items()}
    exports = seq2seq_attention.exports
    graph = _graph(tuple(sorted(config.items())), wide, exports.opset)
    run, making = exports.opened(graph, constants, weights["w_logits"].device)
    model = assemble(config, weights, {"full": run})
    if greedy is not None:
        model = by_whole_targets(model, greedy)
    model.making = making  # type: ignore[attr-defined]
    return model


def assemble(config: Config, weights: Weights, runs: Mapping[str, Run]) -> Model:
    """The model that runs these parts; its logits have the dtype of the weights."""
    like = weights["w_logits"]

    def model(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        check_inputs(config, source, lengths, target)
        if not target.numel():
            return like.new_empty(*target.shape, config["target_vocab"])
        if "full" in runs:
            return runs["full"](source=source, lengths=lengths, target=target)[0].to(like.dtype)
        return torch.cat(token_by_token(source, lengths, target), 1).to(like.dtype)

    def token_by_token(source: Tensor, lengths: Tensor, target: Tensor) -> list[Tensor]:
        both = {part: runs.get(part) or _part(config, like.dtype, part).run(weights) for part in ("encoder", "decoder")}
        memory, *states = both["encoder"](source=source)
        logits = []
        for step, token in enumerate(target.split(1, 1)):
            inputs = {"target": token, "lengths": lengths, "memory": memory, "step": torch.tensor(step)}
            output, *states = both["decoder"](**inputs, **dict(zip(_states(config), states, strict=True)))
            logits.append(output)
        return logits

    return model


def _states(config: Config, after: str = "") -> list[str]:
    """The names of a cell's states."""
    return [f"{name}{after}" for name in (("state",) if config["cell"] == "gru" else ("state", "cell"))]


class _Full(PartModule):
    """The complete model, whose weights are inputs."""

    shapes = staticmethod(shapes)

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        memory, states = self.encode(weights, inputs["source"])
        return self.decode(weights, inputs["target"], inputs["lengths"], memory, states, 0)[:1]

    def encode(self, weights: Weights, source: Tensor) -> tuple[Tensor, State]:
        """The top layer's states, b s d, and the last ones of every layer."""
        x, last = weights["source_embedding"][source].transpose(0, 1), []  # s b d
        for layer in range(self.config["layers"]):
            own = _block(weights, f"encoder.{layer}")
            products = x @ own["w_input"] + own["b_input"]
            zeros = x.new_zeros(x.shape[1], self.config["hidden"])
            states, x = _loop(
                lambda state, product, own=own: self.step(own, product, state), self.first(zeros), products
            )
            last.append(states)
        return x.transpose(0, 1), tuple(map(torch.stack, zip(*last, strict=True)))

    def first(self, zeros: Tensor) -> State:
        return tuple(zeros.clone() for _ in _states(self.config))

    def step(self, own: Weights, product: Tensor, state: State) -> tuple[State, Tensor]:
        after = self.cell(product, state[0] @ own["w_hidden"] + own["b_hidden"], state)
        return after, after[0].clone()

    def cell(self, product: Tensor, hidden: Tensor, state: State) -> State:
        """The state after a step, from the gates' terms of the input and of the state before."""
        if self.config["cell"] == "lstm":
            entering, forgetting, new, leaving = (product + hidden).chunk(4, -1)
            memory = forgetting.sigmoid() * state[1] + entering.sigmoid() * new.tanh()
            return leaving.sigmoid() * memory.tanh(), memory
        (reset, update, new), (r, z, n) = product.chunk(3, -1), hidden.chunk(3, -1)
        new, update = (new + (reset + r).sigmoid() * n).tanh(), (update + z).sigmoid()
        return ((1 - update) * new + update * state[0],)

    def decode(
        self, weights: Weights, target: Tensor, lengths: Tensor, memory: Tensor, states: State, before: Tensor | int
    ) -> tuple[Tensor, ...]:
        """The logits of some steps, b t v, and the states after them; `before` is the number of earlier steps."""
        keys = memory @ weights["attention.w_key"] if self.config["score"] == "additive" else memory
        within = torch.arange(memory.shape[1], device=memory.device) < lengths[:, None]
        embedded = weights["target_embedding"][target].transpose(0, 1)  # t b d
        steps = torch.arange(target.shape[1], device=memory.device) + before

        def step(states: State, token: tuple[Tensor, Tensor]) -> tuple[State, Tensor]:
            embedding, number = token
            x = torch.cat([self.context(weights, states[0][-1], keys, memory, within, number), embedding], -1)
            after = []
            for layer in range(self.config["layers"]):
                own = _block(weights, f"decoder.{layer}")
                state, x = self.step(own, x @ own["w_input"] + own["b_input"], tuple(part[layer] for part in states))
                after.append(state)
            return tuple(map(torch.stack, zip(*after, strict=True))), x

        last, tops = _loop(step, states, (embedded, steps))
        return (tops.transpose(0, 1) @ weights["w_logits"] + weights["b_logits"], *last)

    def context(
        self, weights: Weights, query: Tensor, keys: Tensor, memory: Tensor, within: Tensor, step: Tensor
    ) -> Tensor:
        """The context of a step, b d; zeros without visible positions."""
        if self.config["score"] == "additive":
            features = ((query @ weights["attention.w_query"]).unsqueeze(1) + keys).tanh()
            scores = features @ weights["attention.w_score"]
        else:
            if self.config["score"] == "scaled_dot":  # as a tensor: the exporter rounds numbers of Python to float32
                query = query / query.new_full((), query.shape[-1]).sqrt()
            scores = (keys @ query.unsqueeze(-1)).squeeze(-1)
        if self.config["window"] is not None:
            positions = torch.arange(memory.shape[1], device=memory.device)
            within = within & ((positions - step).abs() <= self.config["window"])
        hidden = ~within & within.any(-1, keepdim=True)  # an empty row hides nothing: the product gives zeros there
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1) * within
        return (weights.unsqueeze(1) @ memory).squeeze(1)


def _loop(step: Callable[..., tuple[State, Tensor]], state: State, over: Any) -> tuple[State, Tensor]:
    """The state after all steps, and their outputs. Only an exporter needs a loop that is one operator."""
    if torch.compiler.is_exporting():
        return scan(step, state, over)
    outputs = []
    for item in zip(*over, strict=True) if isinstance(over, tuple) else over:
        state, output = step(state, item)
        outputs.append(output)
    return state, torch.stack(outputs)


class _Encoder(_Full):
    """The source, read once."""

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        memory, states = self.encode(weights, inputs["source"])
        return memory, *states


class _Decoder(_Full):
    """Further steps."""

    def outputs(self, weights: Weights, **inputs: Tensor) -> tuple[Tensor, ...]:
        states = tuple(inputs[name] for name in _states(self.config))
        before = inputs.get("step", 0)
        return self.decode(weights, inputs["target"], inputs["lengths"], inputs["memory"], states, before)


def _block(weights: Weights, name: str) -> dict[str, Tensor]:
    return {whole.removeprefix(f"{name}."): w for whole, w in weights.items() if whole.startswith(f"{name}.")}


def _part(config: Config, dtype: torch.dtype, part: str) -> Part:
    """A part of the model. The number of earlier steps is an input only with a window."""
    layers, hidden = config["layers"], config["hidden"]
    axes: dict[str, Sequence[str | int]] = {"source": ("batch", "source_length"), "lengths": ("batch",)}
    axes |= {"target": ("batch", "target_length"), "memory": (*axes["source"], hidden), "step": ()}
    axes["logits"] = (*axes["target"], config["target_vocab"])
    after = _states(config, ".after")
    axes |= dict.fromkeys([*_states(config), *after], (layers, "batch", hidden))
    source = {"source": torch.zeros(3, 7, dtype=torch.int64)}
    lengths, target = {"lengths": torch.tensor([7, 4, 2])}, {"target": torch.zeros(3, 5, dtype=torch.int64)}
    if part == "full":
        inputs = {**source, **lengths, **target}
        return Part(_Full(config, inputs), inputs, ["logits"], axes)
    states = {name: torch.zeros(layers, 3, hidden, dtype=dtype) for name in _states(config)}
    if part == "encoder":
        return Part(_Encoder(config, source), source, ["memory", *states], axes)
    inputs = {**target, **lengths, "memory": torch.zeros(3, 7, hidden, dtype=dtype), **states}
    if config["window"] is not None:
        inputs["step"] = torch.tensor(2)
    return Part(_Decoder(config, inputs), inputs, ["logits", *after], axes)


@_export.cached
def _graph(config: tuple[tuple[str, Any], ...], dtype: torch.dtype, opset: int, part: str = "full") -> _export.Graph:
    """The graph with the part's inputs and the weights as inputs, all sizes of inputs dynamic."""
    return seq2seq_attention.exports.graph(dict(config), dtype, opset, part)


seq2seq_attention.exports = Exports(TRANSLATOR, check_config, shapes, PARTS, _part, assemble, 18)
