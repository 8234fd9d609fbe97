"""What translators attend to, shown with small models that have learned nothing: shapes, masks and rows are alike."""

import pytest
import torch
from translators import FRENCH, untrained

from attnsuite.documents.figures.drawn import cross_attention, decoder_attention, encoder_attention
from attnsuite.documents.figures.translation import heads, translate
from attnsuite.model import UsageError

KINDS = {".attention": encoder_attention, ".self_attention": decoder_attention, ".cross_attention": cross_attention}


def test_every_layer_and_head_is_kept_without_the_padding():
    of = translate("transformer", untrained(), "I'm home.")

    assert of.source == ("i'm", "home", ".", "<eos>")
    assert of.target[0] == "<bos>"
    assert set(of.target[1:]) <= set(FRENCH.words)
    due = {f"encoder.{layer}.attention": (4, 4, 4) for layer in range(2)}
    due |= {f"decoder.{layer}.self_attention": (4, len(of.target), len(of.target)) for layer in range(3)}
    due |= {f"decoder.{layer}.cross_attention": (4, len(of.target), 4) for layer in range(3)}
    assert {name: tuple(weights.shape) for name, weights in of.weights.items()} == due


def test_padding_has_no_weight_and_nobody_attends_to_what_comes_later():
    of = translate("transformer", untrained(), "I'm home.")

    for name, weights in of.weights.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), msg=name)
        if name.endswith("self_attention"):
            assert torch.equal(weights, weights.tril())


def test_an_attention_that_is_plugged_in_translates_alike():
    ours, plugged = (translate("transformer", untrained(), "go.", attention) for attention in ("", "chunked"))

    assert plugged.target == ours.target
    assert (ours.by, plugged.by) == ("transformer/eager", "transformer/eager+chunked")
    for name, weights in ours.weights.items():
        torch.testing.assert_close(plugged.weights[name], weights, rtol=1e-4, atol=1e-6)


def test_the_bahdanau_model_has_a_row_of_weights_for_each_step():
    of = translate("seq2seq_attention", untrained("seq2seq_attention"), "I'm home.")

    (weights,) = of.weights["attention"]
    assert weights.shape == (len(of.target), 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(of.target)))


@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_rows_and_heads_are_columns(kind):
    of = translate("transformer", untrained(), "I'm home.")

    picture = heads(KINDS[kind].TITLE, of, kind)

    layers = 2 if kind == ".attention" else 3
    assert picture.columns == 4
    assert [one.title for one in picture.maps] == [
        f"layer {l + 1}, head {h + 1}" for l in range(layers) for h in range(4)
    ]
    assert len(picture.maps[0].rows) == len(picture.down.labels)
    assert len(picture.maps[0].rows[0]) == len(picture.across.labels)
    assert picture.subtitle.startswith("i'm home . → ")
    assert KINDS[kind].FIGURE.trains == "transformer"


@pytest.mark.parametrize(
    ("sentence", "says"),
    [
        ("I'm lost.", 'unknown words in "I\'m lost.": lost; '),
        ("", "a sentence of 1 to 6 tokens is due, not of 0: ''"),
        ("go . . . . . .", "a sentence of 1 to 6 tokens is due, not of 7"),
    ],
)
def test_a_sentence_that_cannot_be_translated_is_refused_in_one_line(sentence, says):
    with pytest.raises(UsageError) as refused:
        translate("transformer", untrained(), sentence)

    assert str(refused.value).startswith(says)


def test_an_attention_that_raises_is_one_line(write):
    file = write(
        "mine.py", "def attention(query, key, value, *, attn_mask=None, is_causal=False):\n    raise OSError('no')\n"
    )

    with pytest.raises(UsageError, match=r"transformer/eager\+.*mine.py gave no weights: OSError: no"):
        translate("transformer", untrained(), "go.", str(file))
