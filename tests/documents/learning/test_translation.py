"""Translators: what they are trained on, how they are scored, and that they learn."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnsuite.documents.learning import models
from attnsuite.documents.learning.engine import train
from attnsuite.documents.learning.sentences.loading import pairs
from attnsuite.documents.learning.sentences.preprocessing import BEGIN, END, PAD, Corpus, tokens
from attnsuite.documents.learning.task import Training, generator
from attnsuite.documents.learning.tasks import of_table, task, tasks
from attnsuite.documents.learning.tasks.translation import (
    BAHDANAU,
    DOCUMENTS,
    PRINTED,
    TRANSFORMER,
    USUAL,
    divided,
    model_config,
    printed,
)
from attnsuite.documents.learning.trained import Job, no_attention, translator
from attnsuite.documents.learning.translating import bleu, greedy, translate
from attnsuite.model import UsageError

TRANSLATED = {
    "seq2seq_attention": ("va !", "j'ai perdu .", "je l'ai .", "je suis chez moi ."),
    "transformer": ("va !", "j'ai perdu .", "calme .", "je suis chez moi ."),
}
"""What the documents print, sentence by sentence."""


def small(of: str) -> Training:
    """A translator that has not been trained."""
    found = task(f"translation/{of}")
    attention = Job(TRANSFORMER, 0, _matmul()).plug().attention if of == "transformer" else no_attention
    return found.prepare(found.config, 0, attention)


def _matmul():  # type: ignore[no-untyped-def]
    from attnsuite import registry

    return registry.find(["attention/matmul"])[0]


def test_tasks_are_found_by_name() -> None:
    assert {"translation/transformer", "translation/seq2seq_attention"} <= tasks().keys()
    with pytest.raises(UsageError, match=r"^unknown task 'translation'; there are: .*translation/transformer"):
        task("translation")


def test_the_documents_sentences_are_trained_on_and_others_held_out() -> None:
    trained, held_out = divided(USUAL)

    assert set(DOCUMENTS) <= {(source, target.replace("\N{NARROW NO-BREAK SPACE}", " ")) for source, target in trained}
    assert not set(trained) & set(held_out)
    assert len(trained) + len(held_out) == len(pairs())
    assert len(held_out) > 40


def test_other_pairs_are_read_from_a_file_the_first_alone(tmp_path: Path) -> None:
    (tmp_path / "fra.txt").write_text("".join(f"Say {number}.\tDis {number}.\n" for number in range(60)))
    trained, held_out = divided({**USUAL, "pairs": str(tmp_path / "fra.txt"), "examples": 30})

    assert len(trained) == 29
    assert held_out == [("Say 24.", "Dis 24.")]


def test_no_word_of_the_documents_sentences_is_unknown() -> None:
    of = Corpus.of(divided(USUAL)[0], 9, 2)

    for source, target in DOCUMENTS:
        assert set(tokens(source)) <= of.source.numbers.keys()
        assert set(tokens(target)) <= of.target.numbers.keys()


@pytest.mark.parametrize("contract", TRANSLATED)
def test_the_documents_translations_have_the_scores_they_print(contract: str) -> None:
    found = [
        bleu(translation.split(), tokens(target))
        for translation, (_, target) in zip(TRANSLATED[contract], DOCUMENTS, strict=True)
    ]

    assert [round(score, 3) for score in found] == list(PRINTED[contract])
    assert printed(contract)["BLEU"] == pytest.approx(sum(found) / 4, abs=1e-3)


def test_the_loss_is_the_mean_over_tokens_that_are_no_padding() -> None:
    config = {**BAHDANAU.config, "dropout": 0.0}
    training = BAHDANAU.prepare(config, 0, no_attention)
    source, lengths, begun, following = batch = next(iter(training.batches(generator(0, "order"))))
    of = Corpus.of(divided(USUAL)[0], 9, 2)
    model = models.seq2seq_attention(model_config("seq2seq_attention", config, of), training.weights)
    loss = training.loss(batch, generator(0, "dropout")).detach()
    surprise = -model(source, lengths, begun).log_softmax(-1).gather(-1, following[..., None])[..., 0].detach()
    real = following != of.target[PAD]

    assert not real.all()
    assert float(loss) == pytest.approx(float(surprise[real].mean()), rel=1e-5)


def test_an_epoch_has_every_pair_once_in_an_order_of_the_seed() -> None:
    training = small("seq2seq_attention")

    def order(seed: int) -> Tensor:
        return torch.cat([batch[0] for batch in training.batches(generator(seed, "order"))])

    assert len(order(0)) == len(divided(USUAL)[0])
    assert not torch.equal(order(0), order(1))
    assert sorted(map(tuple, order(0).tolist())) == sorted(map(tuple, order(1).tolist()))


def test_greedy_decoding_takes_the_likeliest_and_cuts_at_the_end() -> None:
    of = Corpus.of([("A b.", "C d e.")] * 2, steps=5)
    said = [of.target[word] for word in ("c", "e", END, "d", "d")]

    def model(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        logits = torch.zeros(*target.shape, len(of.target))
        logits[:, -1, said[target.shape[1] - 1]] = 1.0
        assert target[:, 0].eq(of.target[BEGIN]).all()
        return logits

    source, lengths, *_ = of.arrays
    due = [*said[:2], *[of.target[END]] * 3]
    assert greedy(model, source, lengths, of.target, 5).tolist() == [due, due]
    assert translate(model, of, ["A b.", "b"]) == [["c", "e"], ["c", "e"]]


@pytest.mark.parametrize("contract", TRANSLATED)
def test_a_few_sentences_are_learned_by_heart(contract: str) -> None:
    """Twenty steps are enough for the loss of one batch to fall; none of it is what the model began with."""
    found = task(f"translation/{contract}")
    attention = Job(TRANSFORMER, 0, _matmul()).plug().attention if contract == "transformer" else no_attention

    def prepare(config, seed, attention):  # type: ignore[no-untyped-def]
        training = found.prepare(config, seed, attention)
        first = next(iter(training.batches(generator(0, "order"))))
        few = tuple(array[:16] for array in first)
        return replace(training, batches=lambda random: [few], scores=dict)

    finished = train(replace(found, prepare=prepare).with_epochs(20), 0, attention)

    assert finished.curve[-1] < 0.75 * finished.curve[0]


def test_a_translator_that_does_not_exist_is_named() -> None:
    with pytest.raises(
        UsageError, match="there is no translator 'vision_transformer'; there are: transformer, seq2seq"
    ):
        translator("vision_transformer")


@pytest.mark.slow
def test_a_translator_s_weights_are_those_of_its_contract(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    from attnsuite.documents.learning import trained

    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path))
    monkeypatch.setattr(
        trained, "task_named", lambda name: {t.name: t for t in (BAHDANAU, TRANSFORMER)}[name].with_epochs(1)
    )
    for name, shapes in models.SHAPES.items():
        found = translator(name, seed=1)
        assert {weight: tuple(each.shape) for weight, each in found.weights.items()} == shapes(found.config)
        assert found.source[PAD] == found.target[PAD] == 0
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.checkpoint")}
        again = translator(name, seed=1)
        assert all(torch.equal(again.weights[weight], found.weights[weight]) for weight in found.weights)
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.checkpoint")} == before


def test_what_tox_and_the_page_on_learning_name_is_there() -> None:
    home = Path(__file__).parents[3]
    page, tox = ((home / name).read_text(encoding="utf-8") for name in ("docs/learning.md", "tox.ini"))
    named = re.findall(r"--task ([a-z][\w/-]+)", page + tox)

    assert len(named) >= 4
    assert all(of_table(name) for name in named), named
    assert f"{len(pairs()):,} pairs of short sentences" in page
