"""Small untrained translators."""

import torch

from attnsuite.contracts.models.seq2seq_attention.contract import shapes as recurrent_shapes
from attnsuite.contracts.models.transformer.contract import shapes as transformer_shapes
from attnsuite.documents.learning import Translator
from attnsuite.documents.learning.data import Vocabulary
from attnsuite.documents.learning.models import initial

ENGLISH = Vocabulary.of([["i'm", "home", "."], ["go", "."]], min_frequency=1)
FRENCH = Vocabulary.of([["je", "suis", "chez", "moi", "."], ["va", "!"]], min_frequency=1)
VOCABULARIES = {"source_vocab": len(ENGLISH), "target_vocab": len(FRENCH)}
STEPS = 7


def untrained(contract="transformer", seed=1):
    """A translator with initial weights."""
    sizes = {
        "transformer": {"width": 16, "heads": 4, "ffn_width": 8, "encoder_blocks": 2, "decoder_blocks": 3},
        "seq2seq_attention": {
            "embedding": 6,
            "hidden": 8,
            "layers": 2,
            "score": "additive",
            "cell": "gru",
            "window": None,
        },
    }[contract]
    config = VOCABULARIES | sizes
    sizes_of_weights = {"transformer": transformer_shapes, "seq2seq_attention": recurrent_shapes}[contract](config)
    weights = initial(sizes_of_weights, torch.Generator().manual_seed(seed))
    return Translator(config, {name: tensor.detach() for name, tensor in weights.items()}, ENGLISH, FRENCH, STEPS)
