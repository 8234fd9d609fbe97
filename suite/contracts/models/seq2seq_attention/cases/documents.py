"""The documents' examples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from attnsuite.cases import Case
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.model import Config, Weights
from attnsuite.cases.tensors import Array, Inputs, generator, numbers
from attnsuite.contracts.models.seq2seq_attention.cases.draws import USUAL, WATCHED, model, weights
from attnsuite.contracts.models.seq2seq_attention.contract import shapes
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt

ONE_STEP = {**USUAL, "source_vocab": 4, "target_vocab": 7, "embedding": 5, "hidden": 12}
COMBINED = {**USUAL, "source_vocab": 4, "target_vocab": 4, "embedding": 2, "hidden": 4, "score": "dot"}
SHUT = -100.0
"""A gate's bias with which it is zero in every dtype."""
SATURATED = 20.0
"""Where tanh is 1 in every dtype."""
SMALL = 2.0**-20
"""A factor that brings numbers to where tanh is its argument."""


def printed() -> Iterator[Case]:
    """The documents' examples. States are given as tokens whose embeddings lead to them; the last is the query."""
    for example in documents.of("seq2seq_attention", kind="shape"):
        yield _shaped(example)
        yield from _states(example)
    step = documents.examples()["doc-004/11.4-one-step"]
    asked = _four_tokens(step.inputs["valid_lens"])
    for quantity, columns in (("weights", slice(0, 3)), ("rnn_input", slice(3, 7))):
        case = model.given(*step.named(quantity), ONE_STEP, asked, _one_step(step.inputs))
        yield DocumentedNumbers(case, step.gives(quantity), partial(_columns, columns))
    output, compared = documents.examples()["doc-002/output-vector"], documents.examples()["doc-002/decoder-step"]
    weights = _combined(output.inputs["decoder_state"], compared.inputs["key"])
    case = model.given(*output.named("combined"), COMBINED, _four_tokens([3]), weights)
    yield DocumentedNumbers(case, output.gives("combined", [[output.expected["combined"]]]))


def _shaped(example: Excerpt) -> DocumentedShape:
    return DocumentedShape(model.given(*example.named(), *_asked(example)), example.at(), example.output_shape)


def _asked(example: Excerpt) -> tuple[Config, Inputs]:
    """The example's config, and tokens of one value; all of the source may be attended to."""
    parameters, (batch, length) = example.parameters, example.inputs["token_shape"]
    config = {
        **USUAL,
        "source_vocab": parameters["vocab_size"],
        "target_vocab": parameters["vocab_size"],
        "embedding": parameters["embed_size"],
        "hidden": parameters["num_hiddens"],
        "layers": parameters["num_layers"],
    }
    tokens = np.full((batch, length), example.inputs["token_value"])
    return config, {"source": tokens, "lengths": np.full(batch, length), "target": tokens}


def _states(example: Excerpt) -> Iterator[DocumentedShape]:
    """What the decoder's state holds, seen through logits of its width; and the weights of all steps.

    Where each step attends to its own position alone, its context is that state of the encoder.
    """
    config, asked = _asked(example)
    config = {**config, "target_vocab": config["hidden"]}
    drawn = dict(weights(config, generator(example.id)))
    drawn |= {"w_logits": np.eye(config["hidden"]), "b_logits": np.zeros(config["hidden"])}
    quantity = "hidden_state_layer_shape"
    case = model.given(*example.named(quantity), config, asked, drawn)
    yield DocumentedShape(case, example.at(quantity), example.expected[quantity], lambda output, weights: output[:, -1])
    quantity, alone = "encoder_outputs_in_state_shape", {**config, "window": 0}
    case = model.given(*example.named(quantity), alone, asked, {**drawn, **_repeating(alone)})
    yield DocumentedShape(case, example.at(quantity), example.expected[quantity], lambda output, weights: output)
    quantity, (batch, one, keys) = "step_weights_shape", example.derived["step_weights_shape"]
    case = model.given(*example.named(quantity), *_asked(example), making=WATCHED)
    shape = (batch, one * example.derived["num_steps"], keys)
    yield DocumentedShape(case, example.at(quantity), shape, lambda output, weights: weights["attention"])


def _repeating(config: Config) -> Weights:
    """A decoder whose units repeat those of the context, made small, in every layer; its update gates forget."""
    hidden, due = config["hidden"], shapes(config)
    found = {name: np.zeros(shape) for name, shape in due.items() if name.startswith("decoder")}
    for layer in range(config["layers"]):
        found[f"decoder.{layer}.b_input"][hidden : 2 * hidden] = SHUT
        found[f"decoder.{layer}.w_input"][:hidden, 2 * hidden :] = np.eye(hidden) * (1.0 if layer else SMALL)
    return found | {"w_logits": np.eye(hidden) / SMALL}


def _one_step(given: Mapping[str, Any]) -> Weights:
    """Logits that are the weights of three positions, then the recurrent cell's input: context and embedding.

    The weights are seen since each position has half a one in a place of its own, which the scores overlook.
    """
    states = np.zeros((4, 5))
    states[:3, :2], states[3, :2] = numbers(given["encoder_states"])[0], numbers(given["previous_decoder_state"])[0]
    states[:3, 2:] = np.eye(3) / 2
    read = [2, 3, 4, 0, 1, 12, 13]  # for each logit, of the cell's inputs: 12 of the context, then the embedding's
    found = _seen(ONE_STEP, states, {5 + logit: place for logit, place in enumerate(read)})
    found["w_logits"][5:] = np.diag([2, 2, 2, 1, 1, 1, 1]) / SMALL
    found["target_embedding"][0, :2] = numbers(given["input_embedding"])[0, 0]
    for name in ("w_query", "w_key"):
        found[f"attention.{name}"][:2, :3] = numbers(given[name])
    found["attention.w_score"][:3] = numbers(given["w_v"])
    return found


def _combined(state: Any, encoder_states: Any) -> Weights:
    """Logits that are the state, which the update gate keeps, and the context."""
    found = _seen(COMBINED, np.array([*encoder_states, state]), {2: 0, 3: 1})
    found["decoder.0.b_input"][4:6] = -SHUT
    found["w_logits"][:] = np.diag([1, 1, 1 / SMALL, 1 / SMALL])
    return found


def _seen(config: Config, states: Array, read: dict[int, int]) -> dict[str, Array]:
    """Weights with which token i leads the encoder to the i-th of these states.

    A decoder's unit repeats that place of its input which `read` gives it, made small; its update gate forgets.
    """
    found = {name: np.zeros(shape) for name, shape in shapes(config).items()}
    (_, width), hidden = states.shape, config["hidden"]
    with np.errstate(divide="ignore"):
        found["source_embedding"][:] = np.clip(np.arctanh(states), -SATURATED, SATURATED)
    found["encoder.0.w_input"][:, 2 * hidden : 2 * hidden + width] = np.eye(width)
    for part in ("encoder", "decoder"):
        found[f"{part}.0.b_input"][hidden : 2 * hidden] = SHUT
    for unit, place in read.items():
        found["decoder.0.w_input"][place, 2 * hidden + unit] = SMALL
    return found


def _four_tokens(valid: list[int]) -> Inputs:
    return {"source": np.arange(4)[None], "lengths": np.array(valid), "target": np.zeros((1, 1), np.int64)}


def _columns(those: slice, output: Array) -> Array:
    return output[..., those]
