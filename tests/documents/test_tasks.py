"""Learning: refused attention backends, data, models and tasks."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from toys import TOY

from attnsuite import registry
from attnsuite.contracts import contract
from attnsuite.contracts.models.vision_transformer.cases import model as vision
from attnsuite.documents.learning import data, models, tasks, translator
from attnsuite.documents.learning.backends import Backend, backend
from attnsuite.documents.learning.data import BEGIN, END, PAD, RESERVED, UNKNOWN, Corpus, Vocabulary, bleu, tokens
from attnsuite.documents.learning.engine import Training, deterministic, generator, train
from attnsuite.documents.learning.tasks import (
    BAHDANAU,
    DIGITS,
    DOCUMENTS,
    MISTAKES,
    PRINTED,
    RECALL,
    TRANSFORMER,
    UNIFORM,
)
from attnsuite.model import RIGHT_GRADIENT, UsageError

Write = Callable[[str, str], Path]

# Attention backends

TASK = replace(TOY, own="", needs=frozenset({"bool_mask", "causal", "gradient"}), uses=frozenset({"dropout"}))
TENSORS = [torch.randn(1, 2, 3, 4) for _ in range(3)]
SUM = "query + key + value"


def of(target: str | Path) -> Backend:
    return backend(registry.find([str(target)])[0], TASK)


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(UsageError) as raised:
        call()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def function(write: Write, body: str, head: str = "import torch") -> Path:
    return write("odd.py", f"{head}\n\n\ndef attention(query, key, value, **options):\n{body}\n")


@pytest.mark.parametrize("name", ["matmul", "chunked", "torch_sdpa.automatic"])
def test_an_attention_with_all_features_is_unchanged(name: str) -> None:
    assert not of(name).without
    torch.testing.assert_close(of(name).attention(*TENSORS), sdpa(*TENSORS))


STUCK = """
import torch


class Stuck(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query):
        return query.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise NotImplementedError("forward only")
"""


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def attention(query, key, value, *, is_causal=False):\n    return query",
         "toy needs what attention/odd lacks: bool_mask (attention/odd takes no attn_mask)"),
        ("def attention(query, key, value, **options):\n    if options.get('is_causal'):\n"
         "        raise NotImplementedError('no causal masks')\n    return query + key + value",
         "toy needs causal, and attention/odd, called with is_causal, raises NotImplementedError: no causal masks"),
        (STUCK + "\n\ndef attention(query, key, value, **options):\n    return Stuck.apply(query)",
         "toy needs an attention, and attention/odd, called, raises NotImplementedError: forward only"),
        ("from attnsuite import implementation\n\n\n@implementation(requires=['not_there'])\n"
         "def attention(query, key, value): ...", "attention/odd is missing: No module named 'not_there'"),
        ("1 / 0\n\n\ndef attention(q, k, v): ...", "attention/odd is broken: ZeroDivisionError"),
        *(
            (f"def attention(query, key, value, **options):\n    return {returned}",
             f"toy needs an attention, and attention/odd, called, {says}")
            for returned, says in (
                ("[query, key, value]", "returns list, expected a tensor"),
                ("query[..., :1]", "returns torch.float32 of shape (1, 1, 2, 1), expected the query's"),
                ("query.double()", "returns torch.float64 of shape (1, 1, 2, 2), expected the query's"),
                ("query.detach()", "gives an output without a gradient"),
                ("exit(0)", "raises SystemExit: 0"),
            )
        ),
        ("onnx_operator", "toy needs what attention/onnx_operator lacks: gradient (attention/onnx_operator: "
                          "onnxruntime sessions compute no gradients)"),
        ("transformer/eager",
         "transformer/eager is no attention; the backend of toy is an implementation of attention"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_training(write: Write, source: str, message: str) -> None:
    target = write("odd.py", source + "\n") if "\n" in source else source

    assert refused(lambda: of(target)).startswith(message)


def test_a_fault_in_a_training_is_one_line(write: Write) -> None:
    file = function(write, f"    if query.shape[-1] == 2:\n        return {SUM}\n    raise ValueError('not today')")

    message = refused(lambda: train(DIGITS.changed(epochs=1), 0, of(file).attention))

    assert message == "digits raised ValueError: not today (in epoch 1, batch 1)"


def test_an_output_with_weights_is_accepted(write: Write) -> None:
    attention = of(function(write, f"    return {SUM}, query")).attention

    assert torch.equal(attention(*TENSORS), sum(TENSORS[1:], TENSORS[0]))


def test_changes_to_the_process_are_undone(write: Write) -> None:
    changes = "torch.set_default_dtype(torch.float64), torch.set_grad_enabled(False), torch.set_num_threads(2)"
    body = (
        f"    {changes}, torch.use_deterministic_algorithms(False)\n    with torch.enable_grad():\n        return {SUM}"
    )
    file = function(write, body)

    def state() -> tuple[object, ...]:
        strict = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        return torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads(), *strict

    with deterministic():
        of(file).attention(*TENSORS)
        assert state() == (torch.float32, True, 1, True, True)


def test_an_attention_without_dropout_is_never_called_with_it(write: Write) -> None:
    head = "def attention(query, key, value, *, attn_mask=None, is_causal=False):\n    import torch\n"
    call = (
        "torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, is_causal=is_causal)"
    )
    plain = of(write("plain.py", f"{head}    return {call}\n"))

    assert plain.without == {"dropout"}
    assert torch.equal(plain.attention(*TENSORS, dropout_p=0.5), plain.attention(*TENSORS))


# Data


def test_the_set_has_a_thousand_short_pairs_each_english_once() -> None:
    pairs = data.pairs()

    assert len({source for source, _ in pairs}) == len(pairs) >= 1000
    assert all(len(tokens(sentence)) < 9 for pair in pairs for sentence in pair)  # the end token fits into 9 steps
    assert dict(pairs)["Go."] == "Va\N{NARROW NO-BREAK SPACE}!"


def test_tokens_are_lower_case_and_cut_before_signs() -> None:
    assert tokens("He's calm.") == ["he's", "calm", "."]
    assert tokens("Merci,\N{NO-BREAK SPACE}Tom\N{NARROW NO-BREAK SPACE}!") == ["merci", ",", "tom", "!"]


def test_a_vocabulary_has_the_frequent_words_and_rows_end_are_padded_and_cut() -> None:
    found = Vocabulary.of([["a", "b"], ["b", "c"], ["c"]])
    rows, lengths = found.rows([["b"], ["b", "c", "b", "c"]], steps=4)

    assert found.words == (*RESERVED, "b", "c")
    assert found["a"] == found[UNKNOWN]
    assert [[found.words[each] for each in row] for row in rows.tolist()] == [["b", END, PAD, PAD], ["b", "c"] * 2]
    assert (lengths.tolist(), found.sentence(rows[0].tolist())) == ([2, 4], ["b"])


def test_the_decoder_s_input_is_the_target_shifted_by_one() -> None:
    corpus = Corpus.of([("A b.", "C d.")] * 2, steps=5)
    _, lengths, begun, following = corpus.arrays

    words = [[corpus.target.words[each] for each in array[0].tolist()] for array in (begun, following)]
    assert words == [[BEGIN, "c", "d", ".", END], ["c", "d", ".", END, PAD]]
    assert lengths.tolist() == [4, 4]


def test_unknown_words_are_named() -> None:
    known = Corpus.of(data.pairs(), 9).source

    message = refused(lambda: known.known("The zebra is calm."))
    assert re.fullmatch(r"unknown words in 'The zebra is calm\.': the, zebra; \d+ words are known", message)


# Models

SIZES: Mapping[str, dict[str, Any]] = {
    "transformer": {"source_vocab": 11, "target_vocab": 13, "width": 16, "heads": 4, "ffn_width": 24,
                    "encoder_blocks": 2, "decoder_blocks": 2, "decoding": "full"},
    "seq2seq_attention": {"source_vocab": 11, "target_vocab": 13, "embedding": 12, "hidden": 16, "layers": 2,
                          "score": "additive", "cell": "gru", "window": None},
    "vision_transformer": {name: DIGITS.config[name] for name in tasks.VISION},
}  # fmt: skip
TEXT = (torch.arange(21).reshape(3, 7) % 11, torch.tensor([7, 4, 1]), torch.arange(15).reshape(3, 5) % 13)
PICTURES = (torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0)),)


def loaded(name: str) -> Callable[..., Any]:
    found = registry.load(registry.find([name])[0])
    assert isinstance(found, registry.Loaded)
    return found.function


def weights(name: str) -> dict[str, Tensor]:
    return models.initial(models.SHAPES[name](SIZES[name]), generator(0, "test"))


def output(name: str, p: float = 0.0, random: torch.Generator | None = None, attention: Any = sdpa) -> Tensor:
    if name == "seq2seq_attention":
        return models.seq2seq_attention(SIZES[name], weights(name), p, random)(*TEXT)
    model = getattr(models, name)(SIZES[name], weights(name), attention, p, random)
    return model(*(TEXT if name == "transformer" else PICTURES))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(("p", "seeded"), [(0.0, False), (0.5, False), (0.0, True)])
def test_without_dropout_a_model_equals_the_contract_s(name: str, p: float, seeded: bool) -> None:
    eager = vision.eager if name == "vision_transformer" else loaded(f"{name}/eager")

    actual = output(name, p, generator(0, "draws") if seeded else None)

    expected = eager(SIZES[name], weights(name))(*(PICTURES if name == "vision_transformer" else TEXT))
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["transformer/torch_nn", "transformer/eager+chunked"])
def test_its_weights_suit_other_implementations(name: str) -> None:
    actual = loaded(name)(SIZES["transformer"], weights("transformer"))(*TEXT)

    torch.testing.assert_close(actual, output("transformer"), atol=1e-4, rtol=1e-4)


def test_the_attention_gets_masks_and_dropout() -> None:
    calls: list[set[str]] = []

    def attention(*tensors: Tensor, **options: Any) -> Tensor:
        calls.append({name for name, value in options.items() if value is not None})
        return loaded("attention/matmul")(*tensors, **options)  # type: ignore[no-any-return]

    output("transformer", 0.25, generator(0, "draws"), attention)
    text, calls = calls, []
    output("vision_transformer", 0.25, generator(0, "draws"), attention)

    padded, causal = {"attn_mask", "dropout_p"}, {"is_causal", "dropout_p"}
    assert text == [padded, padded, causal, padded, causal, padded]
    assert calls == [{"dropout_p"}] * 2


@pytest.mark.parametrize("name", SIZES)
def test_dropout_uses_its_generator_as_often_as_in_the_documents(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, draw = list[int](), torch.rand

    def counted(shape: Any, **options: Any) -> Tensor:
        sizes.append(math.prod(shape))
        return draw(shape, **options)

    def dropped(seed: int) -> Tensor:
        return output(name, 0.5, generator(seed, "draws"), lambda *tensors, **_: sdpa(*tensors))

    one, same, other = map(dropped, (1, 1, 2))
    monkeypatch.setattr(torch, "rand", counted)
    output(name)
    initial = len(sizes)
    dropped(0)

    assert torch.equal(one, same)
    assert not torch.allclose(one, other)
    assert (
        len(sizes) - 2 * initial
        == {
            "transformer": 2 + 2 * 2 + 2 * 3,  # positions of both sides; layers of two blocks on each
            "seq2seq_attention": 7 + 5 + 5,  # between two layers at each step, and the weights of each context
            "vision_transformer": 1 + 2 * 2,  # positions; both layers of each mlp
        }[name]
    )


def test_initial_weights_have_the_scales_of_pytorch_and_xavier() -> None:
    attention, recurrent = weights("transformer"), weights("seq2seq_attention")
    bounds = {
        "encoder.0.attention.w_query": 1 / 4, "encoder.0.ffn.b1": 1 / 4,  # of 16 rows of w1
        "encoder.0.ffn.b2": 1 / math.sqrt(24), "b_logits": 1 / 4,
    }  # fmt: skip
    assert all(0.5 * bound < attention[name].abs().max() <= bound for name, bound in bounds.items())
    assert torch.equal(attention["encoder.0.norm1.weight"], torch.ones(16))
    bounds = {"encoder.0.w_input": math.sqrt(6 / (12 + 48)), "encoder.0.b_input": 1 / 4, "attention.w_score": 1 / 4}
    assert all(0.5 * bound < recurrent[name].abs().max() <= bound for name, bound in bounds.items())
    assert all(tensor.requires_grad and tensor.is_leaf for tensor in attention.values())


# Translation


def training(task: Any, **config: Any) -> Training:
    return task.prepare({**task.config, **config}, 0, sdpa)  # type: ignore[no-any-return]


def test_the_documents_sentences_are_training_data_with_known_words() -> None:
    trained, held_out = tasks.divided()
    corpus = Corpus.of(trained, 9, 2)

    assert set(DOCUMENTS) <= {(source, target.replace("\N{NARROW NO-BREAK SPACE}", " ")) for source, target in trained}
    assert not set(trained) & set(held_out)
    assert (len(trained) + len(held_out), len(held_out) > 40) == (len(data.pairs()), True)
    for source, target in DOCUMENTS:
        assert set(tokens(source)) <= corpus.source.numbers.keys()
        assert set(tokens(target)) <= corpus.target.numbers.keys()


@pytest.mark.parametrize(
    ("task", "printed"),
    [
        (BAHDANAU, ("va !", "j'ai perdu .", "je l'ai .", "je suis chez moi .")),
        (TRANSFORMER, ("va !", "j'ai perdu .", "calme .", "je suis chez moi .")),
    ],
    ids=["seq2seq_attention", "transformer"],
)
def test_the_documents_translations_have_their_printed_scores(task: Any, printed: tuple[str, ...]) -> None:
    pairs = zip(printed, DOCUMENTS, strict=True)
    scores = [bleu(translation.split(), tokens(target)) for translation, (_, target) in pairs]

    assert [round(score, 3) for score in scores] == list(PRINTED[task.name.partition("/")[2]])
    assert task.printed["BLEU"] == pytest.approx(sum(scores) / 4, abs=1e-3)


def test_the_loss_is_the_mean_over_tokens_without_padding() -> None:
    translating, corpus = training(BAHDANAU, dropout=0.0), tasks.corpus(BAHDANAU.config)
    source, lengths, begun, following = batch = next(iter(translating.batches(generator(0, "order"))))
    config = tasks.model_config("seq2seq_attention", BAHDANAU.config, corpus)
    logits = models.seq2seq_attention(config, translating.weights)(source, lengths, begun)
    surprise = -logits.log_softmax(-1).gather(-1, following[..., None])[..., 0].detach()
    real = following != corpus.target[PAD]

    assert not real.all()
    loss = float(translating.loss(batch, generator(0, "dropout")).detach())
    assert loss == pytest.approx(float(surprise[real].mean()), rel=1e-5)


def test_greedy_decoding_takes_the_most_likely_token_until_the_end() -> None:
    corpus = Corpus.of([("A b.", "C d e.")] * 2, steps=5)
    said = [corpus.target[word] for word in ("c", "e", END, "d", "d")]

    def model(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        logits = torch.zeros(*target.shape, len(corpus.target))
        logits[:, -1, said[target.shape[1] - 1]] = 1.0
        assert target[:, 0].eq(corpus.target[BEGIN]).all()
        return logits

    source, lengths, *_ = corpus.arrays
    expected = [*said[:2], *[corpus.target[END]] * 3]
    assert data.greedy(model, source, lengths, corpus.target, 5).tolist() == [expected] * 2
    assert data.translate(model, corpus, ["A b.", "b"]) == [["c", "e"]] * 2


@pytest.mark.parametrize("task", [BAHDANAU, TRANSFORMER], ids=["seq2seq_attention", "transformer"])
def test_a_few_sentences_are_learned_by_heart(task: Any) -> None:
    def prepare(config: Any, seed: int, attention: Any) -> Training:
        translating = task.prepare(config, seed, attention)
        few = tuple(array[:16] for array in next(iter(translating.batches(generator(0, "order")))))
        return replace(translating, batches=lambda random: [few], scores=dict)

    finished = train(replace(task, prepare=prepare).changed(epochs=20), 0, loaded("attention/matmul"))

    assert finished.curve[-1] < 0.75 * finished.curve[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "seq2seq_attention"])
def test_a_translator_is_trained_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.setenv("ATTNSUITE_CACHE", str(tmp_path))
    first = translator(name, seed=1, epochs=1)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.checkpoint")}
    again = translator(name, seed=1, epochs=1)

    assert {weight: tuple(each.shape) for weight, each in first.weights.items()} == models.SHAPES[name](first.config)
    assert all(torch.equal(again.weights[weight], first.weights[weight]) for weight in first.weights)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.checkpoint")} == before


def test_unknown_names_are_refused_and_documented_names_exist() -> None:
    home = Path(__file__).parents[2]
    page, tox = ((home / name).read_text(encoding="utf-8") for name in ("docs/documents.md", "tox.ini"))
    named = re.findall(r"--task ([a-z][\w/-]+)", page + tox)

    assert (
        refused(lambda: translator("vit")) == "there is no translator 'vit'; there are: transformer, seq2seq_attention"
    )
    assert refused(lambda: tasks.tasks_of_table("vit")).startswith("unknown task 'vit'; there are: digits, ")
    assert len(named) >= 4
    assert all(tasks.tasks_of_table(name) for name in named), named
    assert f"{len(data.pairs()):,} pairs of short sentences" in page


# Digits, recall, wrong gradients


def test_training_and_held_out_images_are_disjoint() -> None:
    pytest.importorskip("sklearn")
    (images, labels), (others, held_out) = tasks.digits()

    assert (images.shape, others.shape) == ((1438, 1, 8, 8), (359, 1, 8, 8))
    assert set(labels.tolist()) == set(held_out.tolist()) == set(range(10))
    assert abs(float(images.mean())) < 1e-5


def test_without_scikit_learn_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    tasks.digits.cache_clear()

    message = refused(lambda: training(DIGITS))

    tasks.digits.cache_clear()
    assert re.fullmatch(r"the task digits needs .* scikit-learn, .*: pip install 'attnsuite\[learn\]'", message)


def test_the_value_to_recall_comes_after_its_key() -> None:
    rows, values = tasks.recall_sequences(RECALL.config, 50, generator(1, "test"))

    for row, value in zip(rows.tolist(), values.tolist(), strict=True):
        memory = dict(zip(row[:-1:2], row[1:-1:2], strict=True))
        assert len(memory) == len(set(memory.values())) == 8, "no key and no value occurs twice"
        assert memory[row[-1]] == RECALL.config["keys"] + value


def test_recall_needs_causal_attention_and_a_loss_of_nan_is_an_error() -> None:
    def broken(*tensors: Tensor, is_causal: bool = False) -> Tensor:
        assert is_causal
        return sdpa(*tensors, is_causal=True) / 0 * 0

    message = refused(lambda: train(RECALL, 0, broken))
    assert message == "recall: the loss is nan in epoch 1, batch 1, and should be finite"


@pytest.mark.slow
def test_attention_recalls_and_equal_weights_guess() -> None:
    found, guessed = train(RECALL, 0, sdpa), train(UNIFORM, 0, sdpa)

    chance = guessed.baselines[tasks.CHANCE]
    assert found.scores[tasks.RECALLED] >= 0.99
    assert abs(guessed.scores[tasks.RECALLED] - chance) < 4 * (chance * (1 - chance) / tasks.HELD_OUT) ** 0.5


@pytest.mark.parametrize("is_causal", [False, True])
def test_uniform_attention_is_the_mean_of_the_visible_values(is_causal: bool) -> None:
    query, key, value = torch.randn(3, 2, 1, 5, 4).unbind()
    count = torch.arange(1, 6)[:, None] if is_causal else 5

    actual = tasks.uniform(query, key, value, is_causal=is_causal)

    expected = (value.cumsum(-2) if is_causal else value.sum(-2, keepdim=True)) / count
    assert torch.allclose(actual, expected.expand_as(actual), atol=1e-6)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_gradient_is_a_mutant_with_a_correct_output(name: str) -> None:
    query, key, value = torch.randn(3, 2, 4, 5, 8).unbind()

    def gradients(attention: str) -> list[Tensor]:
        tensors = [each.clone().requires_grad_() for each in torch.randn(3, 2, 4, 5, 8, generator=generator(0, "q"))]
        torch.manual_seed(3)
        output = tasks.gradients()[attention](*tensors, dropout_p=0.3)
        return list(torch.autograd.grad((10 * output).square().sum(), tensors))

    assert name in {mutant.name for mutant in contract("attention").mutants()}
    assert torch.allclose(tasks.gradients()[name](query, key, value), sdpa(query, key, value), atol=1e-5)
    pairs = zip(gradients(RIGHT_GRADIENT), gradients(name), strict=True)
    assert any(not torch.allclose(right, wrong, rtol=1e-4) for right, wrong in pairs)


def test_a_translator_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    job = tasks.Job(tasks.TRANSLATORS["transformer"].changed(epochs=1), 0, registry.find(["attention/matmul"])[0])
    learned = job.run(job.backend().attention, tmp_path)
    (file,) = tmp_path.iterdir()

    read = tasks.translator_from("transformer", file)

    assert read.weights.keys() == learned.weights.keys()
    assert all(torch.equal(read.weights[name], weight) for name, weight in learned.weights.items())
    for name, path in (("seq2seq_attention", file), ("transformer", tmp_path / "none")):
        said = refused(partial(tasks.translator_from, name, path))
        assert said.startswith(f"{path} is no checkpoint of translation/{name}")
