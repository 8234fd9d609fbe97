"""The tasks: translation, digits, recall, and digits with wrong gradients; and trained translators."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, pad, scaled_dot_product_attention

from attnsuite import registry
from attnsuite.contracts import contract
from attnsuite.contracts.models.eager import Blocks, part
from attnsuite.documents.learning import data, models
from attnsuite.documents.learning.backends import DEFAULT, Backend, backend
from attnsuite.documents.learning.data import PAD, Corpus, Pair, Vocabulary, bleu, tokens
from attnsuite.documents.learning.engine import (
    Attention,
    Batch,
    Checkpoint,
    Task,
    TrainedModel,
    Training,
    Watch,
    generator,
    train,
)
from attnsuite.machine import system
from attnsuite.model import RIGHT_GRADIENT, WRONG_GRADIENTS, UsageError
from attnsuite.registry import Declaration

Config = Mapping[str, Any]

# Translation: the Transformer and the Bahdanau model of documents, sections 11.7.6 and 11.4.3

DOCUMENTS = (
    ("Go.", "Va !"),
    ("I lost.", "J'ai perdu."),
    ("He's calm.", "Il est calme."),
    ("I'm home.", "Je suis chez moi."),
)
"""The sentences that the documents translate."""
PRINTED = {"seq2seq_attention": (1.0, 1.0, 0.0, 1.0), "transformer": (1.0, 1.0, 0.368, 1.0)}
"""By contract, the documents' BLEU of their translations, by sentence."""
EVERY = 25
"""Every 25th pair is held out, unless the documents have it: 4 %, so that most words stay frequent."""
MODELS = {
    "transformer": ("width", "heads", "ffn_width", "encoder_blocks", "decoder_blocks", "decoding"),
    "seq2seq_attention": ("embedding", "hidden", "layers", "score", "cell", "window"),
}
"""By contract, the entries of a task's config for its model."""


def divided() -> tuple[list[Pair], list[Pair]]:
    """The training pairs, and the held-out pairs."""
    trained, held_out = list[Pair](), list[Pair]()
    documents = {source for source, _ in DOCUMENTS}
    for number, pair in enumerate(data.pairs()):
        (held_out if number % EVERY == EVERY - 1 and pair[0] not in documents else trained).append(pair)
    return trained, held_out


def corpus(config: Config) -> Corpus:
    """The training set as numbers."""
    return Corpus.of(divided()[0], config["steps"], config["min_frequency"])


def model_config(contract: str, config: Config, texts: Corpus) -> dict[str, Any]:
    """The config of the contract's model."""
    vocabularies = {"source_vocab": len(texts.source), "target_vocab": len(texts.target)}
    return vocabularies | {name: config[name] for name in MODELS[contract]}


def _translation(contract: str, config: Config, seed: int, attention: Attention) -> Training:
    held_out, texts = divided()[1], corpus(config)
    settings = model_config(contract, config, texts)
    weights = models.initial(models.SHAPES[contract](settings), generator(seed, "weights"))

    def model(random: torch.Generator | None = None) -> models.Model:
        if contract == "transformer":
            return models.transformer(settings, weights, attention, config["dropout"], random)
        return models.seq2seq_attention(settings, weights, config["dropout"], random)

    def batches(random: torch.Generator) -> Iterator[Batch]:
        for rows in torch.randperm(len(texts.arrays[0]), generator=random).split(config["batch"]):
            yield tuple(array[rows] for array in texts.arrays)

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        source, lengths, decoder_input, next_tokens = batch
        logits = model(random)(source, lengths, decoder_input)
        return cross_entropy(logits.flatten(0, 1), next_tokens.flatten(), ignore_index=texts.target[PAD])

    def scores() -> dict[str, float]:
        pairs = (*DOCUMENTS, *held_out)
        translations = data.translate(model(), texts, [source for source, _ in pairs])
        bleus = [bleu(words, tokens(reference)) for words, (_, reference) in zip(translations, pairs, strict=True)]
        of_documents, others = bleus[: len(DOCUMENTS)], bleus[len(DOCUMENTS) :]
        means = {"BLEU": fmean(of_documents)} | ({"BLEU held out": fmean(others)} if others else {})
        return _by_sentence(of_documents) | means

    return Training(weights, batches, loss, scores)


def _by_sentence(scores: Any) -> dict[str, float]:
    return {" ".join(tokens(source)): score for (source, _), score in zip(DOCUMENTS, scores, strict=True)}


USUAL: Config = {"steps": 9, "min_frequency": 2, "batch": 128, "dropout": 0.2, "clip": 1.0}
"""The config that both translators share, as in the documents."""

TRANSFORMER = Task(
    "translation/transformer",
    "short English sentences into French, by the Transformer of documents, section 11.7.6",
    {**USUAL}
    | {"width": 64, "heads": 4, "ffn_width": 128, "encoder_blocks": 2, "decoder_blocks": 2, "decoding": "full"}
    | {"learning_rate": 0.005, "epochs": 40},
    partial(_translation, "transformer"),
    needs=frozenset({"bool_mask", "causal", "gradient"}),
    uses=frozenset({"dropout"}),
    printed=_by_sentence(PRINTED["transformer"]) | {"BLEU": fmean(PRINTED["transformer"])},
)
BAHDANAU = Task(
    "translation/seq2seq_attention",
    "short English sentences into French, by the Bahdanau model of documents, section 11.4.3",
    {**USUAL}
    | {"embedding": 64, "hidden": 64, "layers": 2, "score": "additive", "cell": "gru", "window": None}
    | {"learning_rate": 0.01, "epochs": 35},
    partial(_translation, "seq2seq_attention"),
    own="seq2seq_attention/eager",
    printed=_by_sentence(PRINTED["seq2seq_attention"]) | {"BLEU": fmean(PRINTED["seq2seq_attention"])},
)

# Digits: the Vision Transformer of documents, section 11.8, on the images of scikit-learn

Images = tuple[Tensor, Tensor]
"""Images b 1 h w, and their labels b."""
ACCURACY = "accuracy held out"
"""The score's name: the share of recognised images, out of 359 held-out ones."""
VISION = (
    "image_height", "image_width", "patch", "channels", "width", "heads", "mlp_width", "blocks", "classes", "pooling"
)  # fmt: skip
"""The entries of the config for the model."""


@cache
def digits() -> tuple[Images, Images]:
    """The training images, and the held-out images, every fifth. The training images have mean 0 and spread 1.

    Raises UsageError without scikit-learn.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError(
            "the task digits needs the images of scikit-learn, which is not installed: pip install 'attnsuite[learn]'"
        ) from None
    dataset = load_digits()
    images = torch.tensor(dataset.images, dtype=torch.float32)[:, None]
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(dataset.target, dtype=torch.int64)
    is_held_out = torch.arange(len(labels)) % 5 == 4
    images = (images - images[~is_held_out].mean()) / images[~is_held_out].std()
    return (images[~is_held_out], labels[~is_held_out]), (images[is_held_out], labels[is_held_out])


def _digits(config: Config, seed: int, attention: Attention) -> Training:
    (images, labels), held_out = digits()
    settings = {name: config[name] for name in VISION}
    weights = initial_vision(settings, seed)

    def batches(random: torch.Generator) -> Iterator[Batch]:
        for rows in torch.randperm(len(labels), generator=random).split(config["batch"]):
            yield _shifted(images[rows], random), labels[rows]

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        logits = models.vision_transformer(settings, weights, attention, config["dropout"], random)(batch[0])
        return cross_entropy(logits, batch[1], label_smoothing=config["smoothing"])

    def scores() -> dict[str, float]:
        logits = models.vision_transformer(settings, weights, attention)(held_out[0])
        return {ACCURACY: float((logits.argmax(-1) == held_out[1]).double().mean())}

    return Training(weights, batches, loss, scores, _logistic_regression)


def initial_vision(config: Config, seed: int) -> dict[str, Tensor]:
    """Initial weights, with the documents' standard normal positions and zero class token."""
    random = generator(seed, "weights")
    weights = models.initial(models.SHAPES["vision_transformer"](config), random)
    with torch.no_grad():
        weights.get("class_token", weights["positions"]).zero_()
        weights["positions"].normal_(generator=random)
    return weights


def _shifted(images: Tensor, random: torch.Generator) -> Tensor:
    """Each image b 1 h w, unchanged or shifted by a pixel to the left or right; the outermost columns repeat."""
    by = torch.randint(-1, 2, (len(images), 1, 1, 1), generator=random)
    columns = (torch.arange(images.shape[-1]) + by).clamp(0, images.shape[-1] - 1)
    return images.gather(-1, columns.expand_as(images))


@cache
def _logistic_regression() -> dict[str, float]:
    """The score of scikit-learn's default logistic regression on the same images."""
    from sklearn.linear_model import LogisticRegression

    (images, labels), (others, expected) = digits()
    fitted = LogisticRegression(max_iter=1000).fit(images.flatten(1).numpy(), labels.numpy())
    return {"logistic regression": float(fitted.score(others.flatten(1).numpy(), expected.numpy()))}


DIGITS = Task(
    "digits",
    "handwritten digits of 8 × 8 pixels, by the Vision Transformer of documents, section 11.8",
    {"image_height": 8, "image_width": 8, "patch": 2, "channels": 1, "width": 64, "heads": 4, "mlp_width": 128}
    | {"blocks": 2, "classes": 10, "pooling": "class", "dropout": 0.1, "smoothing": 0.1, "batch": 64}
    | {"learning_rate": 0.002, "rate_falls": True, "epochs": 50},
    _digits,
    needs=frozenset({"gradient"}),
    uses=frozenset({"dropout"}),
)
MEAN = replace(
    DIGITS,
    name="digits/mean",
    says="the same images, classified by the mean of all positions: an exercise of documents, section 11.8",
    config={**DIGITS.config, "pooling": "mean"},
)

# Recall: a sequence is `k₁ v₁ k₂ v₂ … q`; the value of the key q is expected. Without attention this is a guess.
#
# The model is one causal block. The embedding of a token includes the previous token, like a convolution of width two
# in models that recall tests (Fu and others, "Hungry hungry hippos", arXiv 2212.14052; Arora and others, "Zoology",
# arXiv 2312.04927). So a value's embedding includes its key: attention can find it, a mean of all positions cannot.

RECALLED = "recalled"
"""The score's name: the share of held-out sequences whose value is recalled."""
CHANCE = "a value of the sequence at random"
"""The name of the score of a guess among the sequence's values."""
HELD_OUT = 2000
"""Held-out sequences: at 99 %, the accuracy has a standard error of 0.2 %."""


def _recall_shapes(config: Config) -> dict[str, tuple[int, ...]]:
    width, inner, tokens = config["width"], config["ffn_width"], config["keys"] + config["values"]
    return {
        "token_embedding": (tokens, width),
        "before_embedding": (tokens, width),
        **{f"attention.w_{role}": (width, width) for role in ("query", "key", "value", "output")},
        "ffn.w1": (width, inner),
        "ffn.b1": (inner,),
        "ffn.w2": (inner, width),
        "ffn.b2": (width,),
        **{f"norm{number}.{name}": (width,) for number in (1, 2, 3) for name in ("weight", "bias")},
        "w_logits": (width, config["values"]),
    }


def _recall_model(config: Config, weights: Mapping[str, Tensor], attention: Attention) -> Callable[[Tensor], Tensor]:
    """Tokens b l → logits of the values for the last token, b v."""
    norms = [part(weights, f"norm{number}") for number in (1, 2, 3)]
    blocks = Blocks(needed=models.hidden, norm=models.normalise).with_backend(attention)

    def model(tokens: Tensor) -> Tensor:
        x = weights["token_embedding"][tokens]
        x = x + pad(weights["before_embedding"][tokens[:, :-1]], (0, 0, 1, 0))
        visible = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        x = x + blocks.to_itself(part(weights, "attention"), config["heads"], visible, blocks.norm(x, norms[0]))
        last = x[:, -1]
        last = last + blocks.feed_forward(blocks.norm(last, norms[1]), part(weights, "ffn"))
        logits: Tensor = blocks.norm(last, norms[2]) @ weights["w_logits"]
        return logits

    return model


def recall_sequences(config: Config, count: int, random: torch.Generator) -> Batch:
    """Sequences b 2n+1, and the expected values, b. Keys and values of a sequence differ.

    Keys are the tokens 0 to keys − 1, values the following ones; expected values count from 0.
    """
    items = config["items"]
    keys, values = (
        torch.rand(count, config[kind], generator=random).argsort(-1)[:, :items] for kind in ("keys", "values")
    )
    query = torch.randint(items, (count, 1), generator=random)
    memory = torch.stack([keys, config["keys"] + values], -1).flatten(1)
    return torch.cat([memory, keys.gather(1, query)], 1), values.gather(1, query)[:, 0]


def _recall(config: Config, seed: int, attention: Attention) -> Training:
    """The held-out sequences are the same for all seeds."""
    weights = models.initial(_recall_shapes(config), generator(seed, "weights"))
    model = _recall_model(config, weights, attention)
    tokens, expected = recall_sequences(config, HELD_OUT, generator(0, "held out"))

    def batches(random: torch.Generator) -> Iterator[Batch]:
        for _ in range(config["steps"]):
            yield recall_sequences(config, config["batch"], random)

    def loss(batch: Batch, random: torch.Generator) -> Tensor:
        return cross_entropy(model(batch[0]), batch[1])

    def scores() -> dict[str, float]:
        return {RECALLED: float((model(tokens).argmax(-1) == expected).double().mean())}

    return Training(weights, batches, loss, scores, lambda: {CHANCE: 1 / config["items"]})


def uniform(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
    """Attention with equal weights: the mean of the visible values."""
    return scaled_dot_product_attention(torch.zeros_like(query), key, value, **options)


RECALL = Task(
    "recall",
    "the value after a key in the sequence, by one causal block",
    {"items": 8, "keys": 16, "values": 16, "width": 32, "heads": 2, "ffn_width": 64, "batch": 128, "steps": 25}
    | {"learning_rate": 0.003, "epochs": 15},
    _recall,
    needs=frozenset({"causal", "gradient"}),
)
UNIFORM = replace(
    RECALL,
    name="recall/uniform",
    says="the same with equal attention weights",
    prepare=lambda config, seed, attention: _recall(config, seed, uniform),
    own="uniform weights",
    table=RECALL.name,
)

# Wrong gradients: attention with a correct output and a wrong gradient. Does a loss curve show the mistake?

MISTAKES = (
    "gradient_lacks_mean", "query_gradient_lacks_scale", "key_gradient_lacks_scale", "negates_key_gradient",
    "stops_gradient_at_weights", "value_gradient_lacks_weights", "swaps_gradients_of_key_and_value",
    "scores_gradient_off_by_one_percent", "rounds_scores_gradient_to_half", "backward_ignores_dropout",
    "backward_drops_anew", "mean_ignores_dropout",
)  # fmt: skip
"""Mutants of the contract `attention` that this model can show: its attention has no mask, one size, and dropout on
weights. Similar mutants, such as a doubled gradient, are left out, and `clips_gradients`: no gradient exceeds 1."""


@cache
def gradients() -> Mapping[str, Attention]:
    """The correct gradient and the wrong ones, by name."""
    attention = contract("attention")
    right = attention.controls()["correct_backward"]
    return {RIGHT_GRADIENT: right, **{mutant.name: mutant.function for mutant in attention.mutants()}}


def _wrong_gradient(name: str) -> Task:
    """Digits with a smaller model and a shorter training, in which a wrong gradient shows."""
    shorter = {"width": 32, "mlp_width": 64, "smoothing": 0.0, "learning_rate": 0.005, "epochs": 8}
    kind = "correct" if name == RIGHT_GRADIENT else f"wrong: the mutant {name}"
    return Task(
        f"{WRONG_GRADIENTS}/{name}",
        f"handwritten digits, with attention whose gradient is {kind}",
        {**DIGITS.config, **shorter},
        lambda config, seed, attention: _digits(config, seed, gradients()[name]),
        own=name,
        table=WRONG_GRADIENTS,
    )


# The table of tasks


def tasks() -> dict[str, Task]:
    """All tasks by name."""
    wrong = (_wrong_gradient(name) for name in (RIGHT_GRADIENT, *MISTAKES))
    return {task.name: task for task in (DIGITS, MEAN, RECALL, UNIFORM, TRANSFORMER, BAHDANAU, *wrong)}


def tasks_of_table(name: str) -> list[Task]:
    """All tasks of the table of this name, or else the task of this name. Raises UsageError for an unknown name."""
    by_name = tasks()
    if chosen := [task for task in by_name.values() if task.recorded_name == name]:
        return chosen
    if name not in by_name:
        raise UsageError(f"unknown task {name!r:.80}; there are: {', '.join(by_name)}")
    return [by_name[name]]


# Trainings, and the trained translators

SUITE = Path(__file__).parents[2]
SOURCES = ("documents/learning/*.py", "documents/learning/*.tsv", "contracts/models/**/*.py", "contracts/shared.py")
"""The files of suite/ that determine weights."""


@dataclass(frozen=True)
class Job:
    """One training: a task, a seed, and an attention backend, if the task has one."""

    task: Task
    seed: int
    declaration: Declaration | None = None

    @property
    def implementation(self) -> str:
        """The implementation in rows of results/."""
        return self.declaration.full_name if self.declaration else self.task.own

    def checkpoint(self, folder: Path | None = None) -> Checkpoint:
        """The checkpoint of this training in a folder, by default in the cache."""
        identity = {
            "task": self.task.name,
            "attention": self.implementation,
            "source": registry.source_hash(self.declaration) if self.declaration else "",
            "seed": self.seed,
            "config": dict(self.task.config),
            "torch": torch.__version__,
            "processor": system.processor(),
            "suite": _sources_hash(),
        }
        return Checkpoint.within(folder, f"{self.task.name}.{self.implementation}.seed-{self.seed}", identity)

    def backend(self) -> Backend:
        """The backend. Raises UsageError for an attention that lacks a needed feature."""
        return backend(self.declaration, self.task) if self.declaration else Backend(no_attention)

    def run(self, attention: Attention, folder: Path | None = None, watch: Watch | None = None) -> TrainedModel:
        """Train, from the checkpoint if there is one."""
        options: dict[str, Any] = {} if watch is None else {"watch": watch}
        return train(self.task, self.seed, attention, checkpoint=self.checkpoint(folder), **options)


def no_attention(*_: Any, **__: Any) -> Tensor:
    """The backend of a task without attention."""
    raise AssertionError("this task has no attention backend")


@cache
def _sources_hash() -> str:
    files = sorted(file for pattern in SOURCES for file in SUITE.glob(pattern))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


@dataclass(frozen=True)
class Translator:
    """A trained translator; every implementation of its contract can use the weights."""

    config: Config
    weights: Mapping[str, Tensor]
    source: Vocabulary
    target: Vocabulary
    steps: int
    """The length of a padded source, and of the longest translation, in tokens."""


TRANSLATORS = {"transformer": TRANSFORMER, "seq2seq_attention": BAHDANAU}


def translator(name: str, seed: int = 0, epochs: int | None = None) -> Translator:
    """A trained translator, `transformer` or `seq2seq_attention`: from the cache, or trained in about a minute.

    Raises UsageError for another name.
    """
    if name not in TRANSLATORS:
        raise UsageError(f"there is no translator {name!r:.80}; there are: {', '.join(TRANSLATORS)}")
    task = TRANSLATORS[name].changed(epochs=epochs or TRANSLATORS[name].epochs)
    job = Job(task, seed, None if task.own else registry.find([DEFAULT])[0])
    finished, texts = job.run(job.backend().attention), corpus(task.config)
    return Translator(model_config(name, task.config, texts), finished.weights, texts.source, texts.target, texts.steps)


def translator_from(name: str, file: Path) -> Translator:
    """The translator in a checkpoint, which `attnsuite learn --checkpoints DIR` writes after each epoch.

    Raises UsageError for a file that is no checkpoint of this model.
    """
    task, state = TRANSLATORS[name], Checkpoint(file).read()
    config, texts = task.config, corpus(task.config)
    settings = model_config(name, config, texts)
    shapes = {weight: tuple(tensor.shape) for weight, tensor in state["weights"].items()} if state else {}
    if state is None or shapes != dict(models.SHAPES[name](settings)):
        raise UsageError(f"{file} is no checkpoint of {task.name}: `attnsuite learn --checkpoints DIR` writes one")
    return Translator(settings, state["weights"], texts.source, texts.target, texts.steps)
