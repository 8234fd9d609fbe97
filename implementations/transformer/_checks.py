"""Checks of the implementations of `transformer`, and the shapes of its weights."""

from torch import Tensor

from attnsuite.implementations._checks import (
    Config,
    Weights,
    check_choice,
    check_integers,
    check_mappings,
    check_sentences,
    check_weights,
)

SIZES = ("source_vocab", "target_vocab", "width", "heads", "ffn_width")
BLOCKS = ("encoder_blocks", "decoder_blocks")


def check_model(config: Config, weights: Weights) -> None:
    """Raise ValueError for a config and weights that do not fit together."""
    check_mappings(config=config, weights=weights)
    check_config(config)
    check_weights(weights, shapes(config), "source_embedding")


def check_config(config: Config) -> None:
    """Raise ValueError for a config that no model can be made of."""
    check_integers(config, SIZES)
    check_integers(config, BLOCKS, 0)
    width, heads = config["width"], config["heads"]
    if width % heads:
        raise ValueError(f"{heads} heads do not divide the width of {width}")
    if width % 2:
        raise ValueError(f"the width is {width}, expected an even number: positions take 2 columns each")
    check_choice("decoding", config.get("decoding", "full"), ("full", "cached"))


def check_decoder(config: Config) -> None:
    """Raise ValueError without a decoder."""
    if not config["decoder_blocks"]:
        raise ValueError("decoder_blocks is 0, expected at least 1 for a translation")


def check_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> None:
    """Raise ValueError for inputs that do not fit the model."""
    if (target is not None) != (config["decoder_blocks"] > 0):
        expected = "a target without" if target is not None else "no target with"
        raise ValueError(f"{expected} a decoder: decoder_blocks is {config['decoder_blocks']}")
    check_sentences(config, source, lengths, target)


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The expected shapes of the weights by name."""
    width, inner = config["width"], config["ffn_width"]
    expected: dict[str, tuple[int, ...]] = {"source_embedding": (config["source_vocab"], width)}
    kinds = {"encoder": ["attention"], "decoder": ["self_attention", "cross_attention"]}
    for kind, attentions in kinds.items():
        for number in range(config[f"{kind}_blocks"]):
            block = f"{kind}.{number}"
            for attention in attentions:
                for role in ("query", "key", "value", "output"):
                    expected[f"{block}.{attention}.w_{role}"] = (width, width)
            expected |= {f"{block}.ffn.w1": (width, inner), f"{block}.ffn.b1": (inner,)}
            expected |= {f"{block}.ffn.w2": (inner, width), f"{block}.ffn.b2": (width,)}
            for norm in range(1, len(attentions) + 2):
                expected |= {f"{block}.norm{norm}.weight": (width,), f"{block}.norm{norm}.bias": (width,)}
    if config["decoder_blocks"]:
        vocabulary = config["target_vocab"]
        expected |= {
            "target_embedding": (vocabulary, width),
            "w_logits": (width, vocabulary),
            "b_logits": (vocabulary,),
        }
    return expected
